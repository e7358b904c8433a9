package sensor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/client"
)

// rocm reads GPUs with rocm-smi, which reports no errors in a stable form.
type rocm struct {
	smi     string
	devices []string // the indexes of the GPUs; none means all
}

func (r rocm) read(ctx context.Context) ([]client.GpuSample, error) {
	out, failed := output(ctx, r.smi, "--showuse", "--showmeminfo", "vram", "--showtemp", "--showpower", "--json")
	samples, err := parseROCm(out)
	if len(samples) == 0 {
		return nil, fmt.Errorf("run rocm-smi: %w", errors.Join(failed, err, errors.New("it lists no GPU")))
	}
	if len(r.devices) > 0 {
		samples = slices.DeleteFunc(samples, func(s client.GpuSample) bool { return !slices.Contains(r.devices, strconv.Itoa(s.Index)) })
	}
	return samples, nil
}

// parseROCm returns a sample for each card.
func parseROCm(out []byte) ([]client.GpuSample, error) {
	if at := strings.IndexByte(string(out), '{'); at > 0 { // warnings come first
		out = out[at:]
	}
	var cards map[string]map[string]any
	if err := json.Unmarshal(out, &cards); err != nil {
		return nil, err
	}
	var samples []client.GpuSample
	for name, card := range cards {
		index, err := strconv.Atoi(strings.TrimPrefix(name, "card"))
		if err != nil || index < 0 || index >= maxGPUs {
			continue // "system"
		}
		value := func(names ...string) string {
			for _, name := range names {
				if v, ok := card[name]; ok && number(fmt.Sprint(v)) != nil {
					return fmt.Sprint(v)
				}
			}
			return ""
		}
		s := client.GpuSample{
			Index: index, MemoryUsedBytes: whole(value("VRAM Total Used Memory (B)"), 1), MemoryTotalBytes: whole(value("VRAM Total Memory (B)"), 1),
			TemperatureC: number(value("Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)")),
			PowerW:       number(value("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)")),
		}
		if percent := number(value("GPU use (%)")); percent != nil {
			s.Utilization = new(min(max(*percent/100, 0), 1))
		}
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b client.GpuSample) int { return a.Index - b.Index })
	return samples, nil
}
