// Package sensor reads the state of this machine's GPUs from the vendors' programs: nvidia-smi, or
// rocm-smi. Such a program can hang on a faulty GPU, for a minute or for ever. So it runs in the
// background, and callers get the newest known state.
package sensor

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
)

const (
	// every is the shortest time between the starts of two reads, timeout how long one may take.
	every   = 10 * time.Second
	timeout = 8 * time.Second
	// grace is how long the program may take to end after the timeout, before it is left alone.
	grace = time.Second
	// stale is how old samples may be.
	stale = 45 * time.Second
	// maxOutput is how many bytes of a program's output are read, maxGPUs how many GPUs.
	maxOutput = 4 << 20
	maxGPUs   = 64
)

// Sensor reads the state of GPUs. A nil Sensor has no samples.
type Sensor struct {
	log  *slog.Logger
	read func(context.Context) ([]client.GpuSample, error)

	mu      sync.Mutex
	reading bool
	began   time.Time // of the newest read
	at      time.Time // of the samples
	samples []client.GpuSample
	failed  bool // the newest read did
}

// Find returns a sensor over the first program that is found, or nil if there is none. It reads
// the GPUs with these names, or if there are none all that this process sees.
func Find(log *slog.Logger, devices []string) *Sensor {
	s := &Sensor{log: log}
	if path, err := exec.LookPath("nvidia-smi"); err == nil {
		dmesg, _ := exec.LookPath("dmesg") // "" if there is none
		s.read = nvidia{smi: path, dmesg: dmesg, visible: cmp.Or(strings.Join(devices, ","), os.Getenv("CUDA_VISIBLE_DEVICES"))}.read
	} else if path, err := exec.LookPath("rocm-smi"); err == nil {
		s.read = rocm{smi: path, devices: devices}.read
	} else {
		return nil
	}
	return s
}

// Newest returns the newest samples, or nil if there are none or they are old. It begins a read in
// the background if the last one began long enough ago, and returns at once.
func (s *Sensor) Newest() []client.GpuSample {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.reading && (s.began.IsZero() || now.Sub(s.began) >= every) {
		s.reading, s.began = true, now
		go s.refresh()
	}
	if now.Sub(s.at) > stale {
		return nil
	}
	return s.samples
}

// refresh reads once. It logs the first of failures in a row.
func (s *Sensor) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	samples, err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if err != nil && !s.failed {
		s.log.Warn("the state of the GPUs cannot be read", "error", err)
	}
	if s.failed = err != nil; s.failed {
		return
	}
	s.samples, s.at = samples[:min(len(samples), maxGPUs)], time.Now()
}

// output runs a program and returns the beginning of its output, also if it failed.
func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = grace
	var out clipped
	cmd.Stdout = &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.Bytes(), err
}

// clipped keeps the first maxOutput bytes.
type clipped struct{ bytes.Buffer }

// Write implements io.Writer.
func (c *clipped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), maxOutput-c.Len())])
	return len(p), nil
}
