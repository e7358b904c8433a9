package fakegce

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"
)

// Billed is the time for which Compute Engine bills an instance: from its creation until it was deleted or reclaimed.
type Billed struct {
	Name, Zone string
	From       time.Time
	// To is zero as long as the instance is billed.
	To time.Time
}

// Seconds is the billed time until the end, or until a moment.
func (b *Billed) Seconds(now time.Time) float64 {
	if b.To.IsZero() {
		return now.Sub(b.From).Seconds()
	}
	return b.To.Sub(b.From).Seconds()
}

// Bill returns the bill of all instances that were created, in the order of their creation.
func (s *Server) Bill() []Billed {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Billed, len(s.bill))
	for i, b := range s.bill {
		all[i] = *b
	}
	return all
}

// WriteBill writes the bill as Google Cloud exports it, at a price for each hour. Each instance has a line for the first half
// of its time, and one for the second.
func (s *Server) WriteBill(to io.Writer, usdPerHour float64) error {
	out, now := csv.NewWriter(to), time.Now()
	_ = out.Write([]string{"service.description", "resource.name", "usage_start_time", "usage_end_time", "cost", "currency"})
	for _, b := range s.Bill() {
		half := b.From.Add(time.Duration(b.Seconds(now) / 2 * float64(time.Second)))
		for _, span := range [][2]time.Time{{b.From, half}, {half, b.From.Add(2 * half.Sub(b.From))}} {
			usd := span[1].Sub(span[0]).Hours() * usdPerHour
			_ = out.Write([]string{"Compute Engine", "projects/" + Project + "/zones/" + b.Zone + "/instances/" + b.Name,
				span[0].UTC().Format(time.RFC3339Nano), span[1].UTC().Format(time.RFC3339Nano), strconv.FormatFloat(usd, 'f', 12, 64), "USD"})
		}
	}
	out.Flush()
	return out.Error()
}

// stopped ends the bill of an instance. The caller holds mu.
func (s *Server) stopped(zone, name string) {
	for _, b := range s.bill {
		if b.Zone == zone && b.Name == name && b.To.IsZero() {
			b.To = time.Now()
		}
	}
}
