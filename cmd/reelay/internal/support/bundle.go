// Package support collects what is needed to find the cause of a fault, without secrets and without the
// contents of jobs.
package support

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

// Sources are what the servers of this program know.
type Sources struct {
	// Examine runs the checks of `reelay doctor` on the stores of this machine's settings, or of the `up` in
	// the data folder.
	Examine func(ctx context.Context, data string) (findings any, err error)
	// Settings are those of this process, without secrets.
	Settings func() map[string]string
}

// Command returns `reelay support-bundle`.
func Command(from Sources) *cobra.Command {
	var target connect.Target
	target.Operator = true
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "support-bundle [FILE]",
		Short: "Collect versions, settings, findings, metrics and errors in one file, without secrets",
		Long: "Writes an archive (.tar.gz) with what is needed to find a fault: versions, settings, the findings of\n" +
			"`reelay doctor`, metrics, queues, pools, workers, alerts, groups of dead letters, changes, and the ends of logs.\n" +
			"Keys, passwords, signatures and prompts are left out or removed. Look through it before you give it away.\n\n" +
			"It collects what it can reach: the API with an operator's key, and, on a server, the stores that its settings\n" +
			"name. errors.txt lists what it could not.",
		Example: "  reelay support-bundle\n  reelay support-bundle /tmp/reelay.tar.gz --endpoint https://reelay.example",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "reelay-support-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			if len(args) > 0 {
				path = args[0]
			}
			data, _ := cmd.Flags().GetString("data")
			c, err := target.Client(cmd.ErrOrStderr())
			b := &bundle{client: c, data: data, from: from, progress: cmd.ErrOrStderr(), redactor: newRedactor(keysOf(data)...)}
			if err != nil {
				b.fail("the API", err)
			}
			b.collect(cmd.Context())
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := b.write(path); err != nil {
				return fmt.Errorf("write %s: %w", path, err)
			}
			if asJSON {
				return document.Print(output.ScreenOf(cmd.OutOrStdout()), map[string]any{"file": path, "files": b.names(), "errors": b.errors}, nil)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has %d files; %d parts could not be read (errors.txt).\n"+
				"Look through it before you give it away.\n", path, len(b.files), len(b.errors))
			return err
		},
	}
	target.AddFlags(cmd)
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

// file is one file of a bundle.
type file struct {
	name string
	text string
}

// bundle is what was collected.
type bundle struct {
	*redactor
	client   *client.Client // or nil
	data     string
	from     Sources
	progress io.Writer

	files  []file
	errors []string
}

func (b *bundle) add(name, text string) { b.files = append(b.files, file{name, b.redact(text)}) }

func (b *bundle) fail(part string, err error) {
	b.errors = append(b.errors, b.redact(fmt.Sprintf("%s: %s", part, err)))
}

func (b *bundle) names() []string {
	names := make([]string, len(b.files))
	for i, f := range b.files {
		names[i] = f.name
	}
	return names
}

// addJSON adds a value as JSON, or says why not.
func (b *bundle) addJSON(name string, value any, err error) {
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(value, "", "  ")
	}
	if err != nil {
		b.fail(name, err)
		return
	}
	b.add(name, string(text)+"\n")
}

// collect reads all parts. A part that cannot be read does not stop the others.
func (b *bundle) collect(ctx context.Context) {
	b.addJSON("version.json", map[string]any{
		"reelay": version.Current(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "at": time.Now().UTC(),
	}, nil)
	b.addJSON("settings.json", b.from.Settings(), nil)
	fmt.Fprintln(b.progress, "running the checks of reelay doctor")
	findings, err := b.from.Examine(ctx, b.data)
	if err != nil && b.client != nil { // this may be no server: let one do it
		b.fail("the stores", err)
		findings, err = b.client.Do(ctx, "{ doctor { check level holds found ids count matters fix } }", nil)
	}
	b.addJSON("doctor.json", findings, err)
	if b.client != nil {
		fmt.Fprintln(b.progress, "asking the API")
		for _, q := range queries {
			answer, err := b.client.Do(ctx, q.document, nil)
			b.addJSON(q.name+".json", answer, err)
		}
		metrics, err := b.client.Metrics(ctx)
		if err != nil {
			b.fail("metrics.txt", err)
		} else {
			b.add("metrics.txt", string(metrics))
		}
	}
	fmt.Fprintln(b.progress, "reading logs")
	b.logs(ctx)
}

// write writes the archive, which only its owner can read.
func (b *bundle) write(path string) (err error) {
	if len(b.errors) > 0 {
		b.files = append(b.files, file{"errors.txt", strings.Join(b.errors, "\n") + "\n"})
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	folder := strings.TrimSuffix(filepath.Base(path), ".tar.gz") + "/"
	for _, f := range b.files {
		header := &tar.Header{Name: folder + f.name, Mode: 0o600, Size: int64(len(f.text)), ModTime: time.Now()}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, f.text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}
