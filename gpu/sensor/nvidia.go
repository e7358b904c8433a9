package sensor

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/reelay/reelay/client"
)

// nvidia reads GPUs with nvidia-smi. It does not report XIDs, the errors of the driver, which are
// only in the kernel's log: they are read with dmesg, if this process may.
type nvidia struct {
	smi, dmesg string
	visible    string // CUDA_VISIBLE_DEVICES
}

// query are the columns, as `nvidia-smi --help-query-gpu` lists them.
const query = "index,pci.bus_id,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,ecc.errors.uncorrected.volatile.total"

func (n nvidia) read(ctx context.Context) ([]client.GpuSample, error) {
	args := []string{"--query-gpu=" + query, "--format=csv,noheader,nounits"}
	if n.visible != "" && !strings.Contains(n.visible, "MIG") { // parts of GPUs have no samples of their own
		args = append(args, "--id="+n.visible)
	}
	out, failed := output(ctx, n.smi, args...)
	samples, buses := parseNVIDIA(string(out))
	if len(samples) == 0 { // one GPU that is lost makes it fail, and the others are listed
		return nil, fmt.Errorf("run nvidia-smi: %w", errors.Join(failed, errors.New("it lists no GPU")))
	}
	if n.dmesg != "" {
		// Without the right to read the kernel's log there are no XIDs.
		log, _ := output(ctx, n.dmesg)
		for bus, xid := range xids(string(log)) {
			if i, known := buses[bus]; known {
				samples[i].Xid = &xid
			}
		}
	}
	return samples, nil
}

// parseNVIDIA returns a sample for each line that describes a GPU, and which of them is on which
// bus. Values that are not numbers, such as [N/A] or ERR!, are not known.
func parseNVIDIA(out string) (samples []client.GpuSample, buses map[string]int) {
	buses = map[string]int{}
	lines := 0
	for line := range strings.Lines(out) {
		if lines++; lines > 4*maxGPUs { // it is not a list of GPUs
			break
		}
		cells, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil || len(cells) != strings.Count(query, ",")+1 {
			continue
		}
		index := whole(cells[0], 1)
		if index == nil || *index >= maxGPUs {
			continue
		}
		s := client.GpuSample{
			Index: int(*index), MemoryUsedBytes: whole(cells[3], 1<<20), MemoryTotalBytes: whole(cells[4], 1<<20),
			TemperatureC: number(cells[5]), PowerW: number(cells[6]), EccUncorrected: whole(cells[7], 1),
		}
		if percent := number(cells[2]); percent != nil {
			s.Utilization = new(min(max(*percent/100, 0), 1))
		}
		buses[busOf(cells[1])] = len(samples)
		samples = append(samples, s)
	}
	return samples, buses
}

// number returns a number, or nil.
func number(cell string) *float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// whole returns a whole number from 0 in these units, or nil.
func whole(cell string, unit int64) *int64 {
	v := number(cell)
	if v == nil || *v < 0 || *v > 1<<53/float64(unit) {
		return nil
	}
	return new(int64(*v) * unit)
}

// busOf returns a PCI address as the kernel's log has it: 0000:3b:00. nvidia-smi writes 00000000:3B:00.0.
func busOf(address string) string {
	bus, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(address)), ".")
	if domain, rest, ok := strings.Cut(bus, ":"); ok && len(domain) > 4 {
		bus = domain[len(domain)-4:] + ":" + rest
	}
	return bus
}

var xidLine = regexp.MustCompile(`NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): ([0-9]{1,3})\b`)

// xids returns the newest XID of each bus in the kernel's log.
func xids(log string) map[string]int {
	found := map[string]int{}
	for _, match := range xidLine.FindAllStringSubmatch(log, -1) {
		found[busOf(match[1])], _ = strconv.Atoi(match[2])
	}
	return found
}
