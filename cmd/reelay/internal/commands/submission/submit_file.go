package submission

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// batchField is the field of a job's metadata that has the name of its batch.
const batchField = "batch"

// batchName is the shape of the name of a batch: a word of a search.
var batchName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// fileOptions are the flags of `reelay submit --file`.
type fileOptions struct {
	file, format, batch, rejected string
}

// withFile are the flags that can be used with --file.
var withFile = map[string]bool{
	"file": true, "format": true, "batch": true, "rejected": true, "force": true, "model": true, "json": true,
	"endpoint": true, "key": true, "as": true, "data": true, "context": true, "ca-file": true, "no-color": true,
}

func (o *fileOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.file, "file", "", "file with many submissions: CSV, JSON lines or one JSON array; - reads standard input")
	f.StringVar(&o.format, "format", "", "`format` of the file: csv or jsonl (default: csv if its name ends with .csv)")
	f.StringVar(&o.batch, "batch", "", "`name` of the batch of the file (default: the name of the file, without its folder and ending)")
	f.StringVar(&o.rejected, "rejected", "", "new `file` for the submissions that were refused, to correct and submit them")
}

// check completes the flags.
func (o *fileOptions) check(cmd *cobra.Command) error {
	var stray error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case o.file == "" && (f.Name == "format" || f.Name == "batch" || f.Name == "rejected"):
			stray = fmt.Errorf("--%s goes with --file only", f.Name)
		case o.file != "" && !withFile[f.Name]:
			stray = fmt.Errorf("--%s cannot be used with --file: set it in the submissions of the file", f.Name)
		}
	})
	if stray != nil || o.file == "" {
		return stray
	}
	switch o.format = strings.ToLower(o.format); {
	case o.format == "" && strings.EqualFold(filepath.Ext(o.file), ".csv"):
		o.format = "csv"
	case o.format == "" || o.format == "json":
		o.format = "jsonl"
	case o.format != "csv" && o.format != "jsonl":
		return fmt.Errorf("--format is %q: it must be csv or jsonl", o.format)
	}
	if o.batch == "" {
		o.batch = defaultBatch(o.file)
	}
	if !batchName.MatchString(o.batch) {
		return fmt.Errorf("--batch is %q: it may have up to 100 letters, digits, points, _ and -, and begins with a letter or digit", o.batch)
	}
	return nil
}

// defaultBatch makes the name of a batch from that of its file.
func defaultBatch(file string) string {
	if file == "-" {
		return "stdin"
	}
	name := filepath.Base(file)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	name = strings.Trim(regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-"), "-._")
	return cmp.Or(name[:min(len(name), 100)], "batch")
}

func (o *submitOptions) runFile(cmd *cobra.Command) error {
	in, size := cmd.InOrStdin(), int64(0)
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = file
	}
	if o.rejected != "" {
		if err := output.CheckFile(o.rejected, o.force); err != nil {
			return err
		}
		if same(o.rejected, o.file) {
			return terminal.UsageError(cmd, errors.New("--rejected is the file itself: name another"))
		}
	}
	c, err := o.target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	b := newBatch(o, c, progress.DisplayFor(cmd, cmd.ErrOrStderr()), cmd.OutOrStdout(), size)
	b.display.Silent = o.asJSON
	err = b.run(cmd.Context(), in)
	b.display.Erase()
	err = errors.Join(b.report.close(), b.rejected.close(), err)
	if !o.asJSON && b.report.Accepted > 0 {
		fmt.Fprint(cmd.ErrOrStderr(), b.nextSteps(cmd.Context(), err == nil))
	}
	return err
}

// same reports whether two paths name the same file.
func same(a, b string) bool {
	first, err := os.Stat(a)
	second, errOfSecond := os.Stat(b)
	return err == nil && errOfSecond == nil && os.SameFile(first, second)
}

// entries returns what yields the submissions of the file.
func (o *submitOptions) entries(in io.Reader, kinds *paramKinds) func(yield func(entry) bool) {
	return func(yield func(entry) bool) {
		from := bufio.NewReaderSize(in, maxLine)
		if err := withoutMark(from); err != nil {
			yield(entry{unit: "line", at: 1, err: err})
			return
		}
		if o.format == "csv" {
			(&table{model: o.model, kinds: kinds}).rows(from, yield)
			return
		}
		entries(from, yield)
	}
}

// nextSteps says how to see what becomes of the batch, and whether it has jobs that the file does not
// have: of rows that were changed or removed since they were submitted.
func (b *batch) nextSteps(ctx context.Context, whole bool) string {
	says := fmt.Sprintf("Follow it with: reelay batch %s\nOr in the console: %s\n", b.options.batch, batchURL(b.client, b.options.batch))
	if !whole {
		return says
	}
	ctx, cancel := connect.Quickly(ctx)
	defer cancel()
	totals, err := b.client.JobTotals(ctx, batchFilter(b.options.batch))
	if err != nil || totals.Partly || totals.Total <= b.report.Accepted {
		return says
	}
	return fmt.Sprintf("The batch %s has %d other jobs, which this file does not have: they are of another file of this name, "+
		"or of rows that were changed since.\n",
		b.options.batch, totals.Total-b.report.Accepted) + says
}

// batchFilter matches the jobs of a batch.
func batchFilter(name string) client.JobFilter {
	return client.JobFilter{Search: new(batchSearch(name))}
}

func batchSearch(name string) string { return "meta:" + batchField + "=" + name }
