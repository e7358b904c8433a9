package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

func workersShowCommand() *cobra.Command {
	show := &connect.Call{Target: connect.Target{Operator: true}, Kind: "wrk"}
	return show.Command(&cobra.Command{
		Use:   "show WORKER",
		Short: "Show one worker, its GPUs and what it runs",
		Args:  workerArg,
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		w, err := c.Worker(ctx, args[0])
		return w, func(out io.Writer) error { return printWorker(out, w) }, err
	})
}

func printWorker(to io.Writer, w *client.Worker) error {
	out := bufio.NewWriter(to)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-12s%s\n", name, output.Clean(fmt.Sprintf(format, args...)))
	}
	field("worker", "%s", w.Id)
	field("status", "%s", workerState(*w))
	if w.QuarantineReason != nil && *w.QuarantineReason != "" {
		field("reason", "%s", *w.QuarantineReason)
	}
	if w.DrainDeadline != nil {
		field("drains", "%s at the latest", output.Ago(*w.DrainDeadline))
	}
	field("machine", "%s of %s", PlaceOf(w.ProviderInstanceId, w.Slot), w.Provider)
	if w.Pool != nil {
		field("pool", "%s", w.Pool.Name)
	}
	field("place", "%s", strings.TrimSuffix(w.Region+", "+lo.FromPtrOr(w.Zone, ""), ", "))
	field("GPU", "%d × %s, %s", w.GpuCount, w.GpuType, w.CapacityClass)
	field("models", "%s", orNone(w.Models))
	for _, r := range w.RefusedModels {
		field("no jobs of", "%s: %s", r.Model, r.Reason)
	}
	if w.BootFailure != nil {
		field("no start", "%s", *w.BootFailure)
	}
	field("loaded", "%s", orNone(w.WarmModels))
	if w.CurrentJob != nil {
		field("runs", "%s  %s  %s", w.CurrentJob.Id, w.CurrentJob.Model, w.CurrentJob.Status)
	}
	field("completed", "%d jobs, %.0f GPU seconds", w.JobsCompleted, w.GpuSeconds)
	field("registered", "%s", output.Since(w.RegisteredAt))
	field("seen", "%s", output.Since(w.LastHeartbeatAt))
	if len(w.Gpus) > 0 {
		fmt.Fprintln(out)
		var rows [][]string
		for _, g := range w.Gpus {
			sums := sumGPUs([]client.GPUState{g})
			row := []string{fmt.Sprint(g.Index), sums.use, sums.memory, sums.temperature, sums.power, sums.errors}
			for i := range row {
				if row[i] == "" {
					row[i] = "-"
				}
			}
			rows = append(rows, row)
		}
		if err := output.WriteRows(output.ScreenOf(to).On(out), []string{"GPU", "USE", "MEMORY", "TEMP", "POWER", "ERRORS"}, rows); err != nil {
			return err
		}
	}
	return out.Flush()
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
