package sensor

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// program writes a program in place of a vendor's, and returns its path.
func program(t *testing.T, dir, name, script string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testrun.WriteProgram(t, path, "#!/bin/sh\n"+script+"\n")
	return path
}

// says is a script that prints lines.
func says(lines ...string) string {
	return "cat <<'END'\n" + strings.Join(lines, "\n") + "\nEND"
}

// What nvidia-smi printed on machines with two H100, with one that is lost, and with parts of GPUs.
const (
	healthy = "0, 00000000:3B:00.0, 97, 71234, 81559, 64, 652.33, 0"
	second  = "1, 00000000:86:00.0, 0, 4, 81559, 31, 71.20, 2"
	lost    = "2, 00000000:AF:00.0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]"
	desktop = "0, 00000000:01:00.0, [N/A], 812, 24564, 45, [Not Supported], [N/A]"
)

func TestNVIDIA(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		smi, dmesg, visible string
		want                []client.GpuSample
		err                 string
	}{
		"two GPUs, one with errors": {
			smi: says(healthy, second),
			dmesg: says("[12.5] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python",
				"[99.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
				"[99.1] NVRM: Xid (PCI:0000:ff:00): 48, of a GPU of another machine"),
			want: []client.GpuSample{
				{Index: 0, Utilization: new(0.97), MemoryUsedBytes: new(int64(71234 << 20)), MemoryTotalBytes: new(int64(81559 << 20)),
					TemperatureC: new(64.0), PowerW: new(652.33), EccUncorrected: new(int64(0)), Xid: new(79)},
				{Index: 1, Utilization: new(0.0), MemoryUsedBytes: new(int64(4 << 20)), MemoryTotalBytes: new(int64(81559 << 20)),
					TemperatureC: new(31.0), PowerW: new(71.2), EccUncorrected: new(int64(2))},
			},
		},
		"values that it does not know, and a kernel's log that is not for everybody": {
			smi: says(desktop), dmesg: "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1",
			want: []client.GpuSample{{MemoryUsedBytes: new(int64(812 << 20)), MemoryTotalBytes: new(int64(24564 << 20)), TemperatureC: new(45.0)}},
		},
		"a lost GPU, for which it fails": {
			smi:  says(lost, "Unable to determine the device handle for GPU3: 0000:D8:00.0: Unknown Error") + "; exit 15",
			want: []client.GpuSample{{Index: 2}},
		},
		"only the visible GPUs": {
			smi: `case "$*" in *--id=1) ` + "\n" + says(second) + "\n;; esac", visible: "1",
			want: []client.GpuSample{{Index: 1, Utilization: new(0.0), MemoryUsedBytes: new(int64(4 << 20)),
				MemoryTotalBytes: new(int64(81559 << 20)),
				TemperatureC:     new(31.0), PowerW: new(71.2), EccUncorrected: new(int64(2))}},
		},
		"impossible numbers": {
			smi:  says("3, x, 300, -5, 1e300, NaN, inf, -1", "-1, x, 1, 1, 1, 1, 1, 1", "64, x, 1, 1, 1, 1, 1, 1", "1, 2"),
			want: []client.GpuSample{{Index: 3, Utilization: new(1.0)}},
		},
		"an error": {
			smi: "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9",
			err: "run nvidia-smi: exit status 9",
		},
		"garbage":        {smi: "head -c 100000 /dev/urandom", err: "it lists no GPU"},
		"endless output": {smi: "yes '\"' | head -c 9000000", err: "it lists no GPU"},
		"nothing":        {smi: "true", err: "it lists no GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			n := nvidia{smi: program(t, dir, "nvidia-smi", c.smi), visible: c.visible}
			if c.dmesg != "" {
				n.dmesg = program(t, dir, "dmesg", c.dmesg)
			}

			got, err := n.read(t.Context())

			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestROCm(t *testing.T) {
	t.Parallel()

	t.Run("ReadsCards", func(t *testing.T) {
		t.Parallel()
		smi := program(t, t.TempDir(), "rocm-smi", says(`WARNING: AMD GPU device(s) is/are in a low-power state.`,
			`{"card1": {"GPU use (%)": "50", "Temperature (Sensor junction) (C)": "45.0", "Temperature (Sensor edge) (C)": "N/A",
			"Current Socket Graphics Package Power (W)": "140.0", "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "297566208"},
			"card0": {"GPU use (%)": 7, "Average Graphics Package Power (W)": "N/A"}, "system": {"Driver version": "6.7.0"}}`))

		got, err := rocm{smi: smi}.read(t.Context())

		require.NoError(t, err)
		require.Equal(t, []client.GpuSample{
			{Index: 0, Utilization: new(0.07)},
			{Index: 1, Utilization: new(0.5), TemperatureC: new(45.0), PowerW: new(140.0), MemoryUsedBytes: new(int64(297566208)),
				MemoryTotalBytes: new(int64(206141652992))},
		}, got)

		got, err = rocm{smi: smi, devices: []string{"0"}}.read(t.Context())
		require.NoError(t, err)
		require.Equal(t, []client.GpuSample{{Index: 0, Utilization: new(0.07)}}, got, "only the worker's")
	})

	for name, script := range map[string]string{"garbage": "head -c 1000 /dev/urandom", "an error": "exit 2", "no card": says("{}"),
		"a list": says("[]")} {
		t.Run("Refuses "+name, func(t *testing.T) {
			t.Parallel()

			_, err := rocm{smi: program(t, t.TempDir(), "rocm-smi", script)}.read(t.Context())

			require.ErrorContains(t, err, "it lists no GPU")
		})
	}
}

func TestSensor(t *testing.T) {
	t.Parallel()

	t.Run("DoesNotWaitForAProgramThatHangs", func(t *testing.T) {
		t.Parallel()
		held, over := make(chan struct{}), make(chan struct{})
		defer close(held)
		s := &Sensor{log: slog.New(slog.DiscardHandler), read: func(context.Context) ([]client.GpuSample, error) {
			close(over) // twice would panic
			<-held
			return nil, nil
		}}

		require.Nil(t, s.Newest())
		<-over
		s.mu.Lock()
		s.began = time.Now().Add(-time.Hour)
		s.mu.Unlock()

		require.Nil(t, s.Newest(), "it does not begin a second read beside it")
	})

	t.Run("EndsAProgramAtTheTimeout", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()

		_, err := nvidia{smi: program(t, t.TempDir(), "nvidia-smi", "exec sleep 600")}.read(ctx)

		require.ErrorIs(t, err, context.DeadlineExceeded)
	})

	t.Run("KeepsTheNewestSamplesWhileTheyAreFresh", func(t *testing.T) {
		t.Parallel()
		var log bytes.Buffer
		reads := 0
		s := &Sensor{log: slog.New(slog.NewTextHandler(&log, nil)), read: func(context.Context) ([]client.GpuSample, error) {
			if reads++; reads > 1 {
				return nil, os.ErrPermission
			}
			return make([]client.GpuSample, 100), nil
		}}
		s.refresh()
		s.began = time.Now()

		require.Len(t, s.Newest(), maxGPUs)
		s.refresh()
		s.refresh()
		require.Len(t, s.Newest(), maxGPUs, "a read that failed takes none away")
		s.at = s.at.Add(-time.Minute)
		require.Nil(t, s.Newest())
		require.Equal(t, 1, strings.Count(log.String(), "cannot be read"), "failures in a row are logged once")
	})

	t.Run("HasNoSamplesIfNil", func(t *testing.T) {
		t.Parallel()

		require.Nil(t, (*Sensor)(nil).Newest())
	})
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	require.Nil(t, Find(slog.Default(), nil))
	cat := "while read -r line; do echo \"$line\"; done <<'END'\n"
	program(t, dir, "rocm-smi", cat+`{"card0": {"GPU use (%)": "7"}}`+"\nEND")
	amd := Find(slog.Default(), nil)
	program(t, dir, "nvidia-smi", cat+healthy+"\nEND")
	both := Find(slog.Default(), nil)

	for s, want := range map[*Sensor]float64{amd: 0.07, both: 0.97} {
		testrun.Eventually(t, "the GPU is read", func() bool { return s.Newest() != nil })
		require.Equal(t, want, *s.Newest()[0].Utilization)
	}
}
