package main

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// meter counts the HTTP requests of each second.
type meter struct {
	mu    sync.Mutex
	count map[int64]int // by second
}

func newMeter() *meter { return &meter{count: map[int64]int{}} }

func (m *meter) add(n int, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count[at.Unix()] += n
}

// peak returns the largest number in a second between two moments.
func (m *meter) peak(from, until time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := 0
	for second := from.Unix(); second <= until.Unix(); second++ {
		most = max(most, m.count[second])
	}
	return most
}

// mean returns the mean of the seconds before a moment.
func (m *meter) mean(until time.Time, seconds int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := 0
	for i := range seconds {
		sum += m.count[until.Unix()-1-int64(i)]
	}
	return sum / seconds
}

// metered is a connection to a server of HTTP/1.1 whose requests are counted.
type metered struct {
	net.Conn
	meter *meter
}

// Write sends a part of the requests. One whose first line is divided between two writes is not
// counted.
func (m metered) Write(p []byte) (int, error) {
	if n := bytes.Count(p, []byte(" HTTP/1.1\r\n")); n > 0 {
		m.meter.add(n, time.Now())
	}
	return m.Conn.Write(p)
}
