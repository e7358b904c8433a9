package workflows

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/submission"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/storyboard"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// storyboardOptions are the flags of `reelay storyboard`.
type storyboardOptions struct {
	workflowRun
	output, reuse string
	force, fresh  bool
	reshoot       []string
}

// StoryboardCommand returns `reelay storyboard`.
func StoryboardCommand() *cobra.Command {
	var o storyboardOptions
	cmd := &cobra.Command{
		Use:        "storyboard FILE",
		SuggestFor: []string{"film", "movie"},
		Short:      "Make a film of several shots",
		Long: "Submits the film of a file as a workflow: a job for each shot, rendered at the same time where they can be, one that\n" +
			"joins their videos, and a picture. docs/users/storyboard.md describes the file.\n\n" +
			"Run it again after you changed a shot: shots that are as they were in the newest film of the same name are taken over,\n" +
			"so only the changed shot is rendered, and those that begin with its frames, and the film is joined again.",
		Example: "  reelay storyboard harbour.yaml --output harbour.mp4\n  reelay storyboard harbour.yaml --reshoot gulls --wait",
		Args:    terminal.OneArg("FILE", "the file of a film"),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "file to store the film in; implies --wait")
	f.BoolVar(&o.force, "force", false, "replace the --output file if it exists")
	f.StringVar(&o.reuse, "reuse", "", "`workflow` whose completed shots are taken over (default: the newest of the same name)")
	f.BoolVar(&o.fresh, "fresh", false, "render all shots, also those that did not change")
	f.StringSliceVar(&o.reshoot, "reshoot", nil, "`shots` to render again with another seed")
	cmd.MarkFlagsMutuallyExclusive("fresh", "reuse")
	return cmd
}

func (o *storyboardOptions) run(cmd *cobra.Command, path string) error {
	film, err := readFilm(path)
	if err != nil {
		return err
	}
	seeds, err := o.seeds(film)
	if err != nil {
		return terminal.UsageError(cmd, err)
	}
	if o.output != "" {
		o.wait = true
		if err := output.CheckFile(o.output, o.force); err != nil {
			return err
		}
	}
	files, err := newFilmFiles(film, filepath.Dir(path))
	if err != nil {
		return err
	}
	c, err := o.target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	d := progress.DisplayFor(cmd, cmd.ErrOrStderr())
	d.Silent = o.asJSON && !d.TTY
	for _, shot := range slices.Sorted(maps.Keys(seeds)) {
		d.Note(fmt.Sprintf("The shot %s gets the seed %d: to keep it, write seed: %d into the file", shot, seeds[shot], seeds[shot]))
	}
	before, err := o.before(cmd.Context(), c, film)
	if err != nil {
		return err
	}
	w, err := o.submitFilm(cmd.Context(), c, film, files, seeds, before)
	if err != nil {
		return err
	}
	d.Note(w.Id + " is accepted")
	if n := w.Counts.Completed; n > 0 && before != nil {
		d.Note(fmt.Sprintf("%d of %s are taken over from %s", n, text.Count(w.Counts.Total, "job"), before.Id))
	}
	if !o.wait {
		return o.print(cmd.OutOrStdout(), madeFilm{Workflow: w}, w.Id)
	}
	return o.await(cmd, c, w, d)
}

// readFilm reads the file of a film.
func readFilm(path string) (*storyboard.Film, error) {
	data, err := input.ReadUpTo(path, os.Stdin, storyboard.MaxBytes)
	if err != nil {
		return nil, err
	}
	return storyboard.Read(filepath.Base(path), data)
}

// seeds chooses the seeds of the shots that are rendered again.
func (o *storyboardOptions) seeds(film *storyboard.Film) (map[string]int64, error) {
	seeds := map[string]int64{}
	for _, key := range o.reshoot {
		if !slices.Contains(film.Keys(), key) {
			return nil, fmt.Errorf("--reshoot: there is no shot %s: the shots are %s", text.Clip(key, 64), text.Clip(text.Join(film.Keys()), 1000))
		}
		seeds[key] = rand.Int64N(1 << 31) // every model takes such seeds
	}
	return seeds, nil
}

// before returns the workflow whose shots are taken over, or nil.
func (o *storyboardOptions) before(ctx context.Context, c *client.Client, film *storyboard.Film) (*client.WorkflowDetail, error) {
	id := o.reuse
	switch {
	case o.fresh:
		return nil, nil
	case id == "":
		found, err := output.Page[client.Workflow](c.Workflows(ctx, film.Name, nil, 1, ""))
		if err != nil || len(found.Items) == 0 {
			return nil, o.target.Explain(err)
		}
		id = found.Items[0].Id
	default:
		var err error
		if id, err = connect.FullID(ctx, c, connect.WorkflowKind, id); err != nil {
			return nil, o.target.Explain(err)
		}
	}
	w, err := c.WorkflowDetail(ctx, id)
	return w, o.target.Explain(err)
}

// submitFilm uploads what is missing and submits the film. Files that an earlier film uploaded are
// used again, unless they were deleted since.
func (o *storyboardOptions) submitFilm(
	ctx context.Context, c *client.Client, film *storyboard.Film, files *filmFiles, seeds map[string]int64, before *client.WorkflowDetail,
) (*client.Workflow, error) {
	known := map[string]string{}
	if before != nil {
		known = storyboard.Uploaded(before.Jobs)
	}
	for {
		uploads, err := files.upload(ctx, c, known)
		if err != nil {
			return nil, err
		}
		in, err := film.Compile(storyboard.Options{Uploads: uploads, Sums: files.sums, Seeds: seeds})
		if err != nil {
			return nil, err
		}
		if before != nil {
			in.Reuse = &before.Id
		}
		w, err := o.submit(ctx, c, *in)
		if client.ErrorCode(err) == client.CodeNotFound && files.reused > 0 {
			known = nil
			continue
		}
		return w, err
	}
}

// filmFiles are the images and the music of a film.
type filmFiles struct {
	folder string
	paths  []string
	sums   map[string]string
	reused int // how many uploads of earlier films are used
}

// newFilmFiles reads the files of a film. Their paths are relative to the folder of the film's file.
func newFilmFiles(film *storyboard.Film, folder string) (*filmFiles, error) {
	files := &filmFiles{folder: folder, paths: film.Files(), sums: map[string]string{}}
	for _, path := range files.paths {
		if err := submission.WithInput(files.at(path), func(file *os.File, _ string) error {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return err
			}
			sum := sha256.New()
			_, err := io.Copy(sum, file)
			files.sums[path] = fmt.Sprintf("%x", sum.Sum(nil))
			return err
		}); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (f *filmFiles) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(f.folder, path)
}

// upload returns the ids of the artifacts of the files. It uploads those whose checksums are not known.
func (f *filmFiles) upload(ctx context.Context, c *client.Client, known map[string]string) (map[string]string, error) {
	uploads := map[string]string{}
	f.reused = 0
	for _, path := range f.paths {
		if id := known[f.sums[path]]; strings.HasPrefix(id, "art_") {
			uploads[path] = id
			f.reused++
			continue
		}
		err := submission.WithInput(f.at(path), func(file *os.File, kind string) (err error) {
			uploads[path], err = c.UploadInput(ctx, kind, file)
			return connect.WithAdvice(err)
		})
		if err != nil {
			return nil, fmt.Errorf("upload %s: %w", path, err)
		}
	}
	return uploads, nil
}

// madeFilm is what --json prints.
type madeFilm struct {
	Workflow any             `json:"workflow"`
	File     *jobs.SavedFile `json:"file,omitempty"`
}

// await watches the film until it ends, and downloads it.
func (o *storyboardOptions) await(cmd *cobra.Command, c *client.Client, w *client.Workflow, d *progress.Display) error {
	ended, err := followWorkflow(cmd.Context(), c, w, d)
	if err != nil {
		return err
	}
	d.Note(strings.TrimSuffix(pageLine(c, ended), "\n"))
	answer := madeFilm{Workflow: ended}
	failure := WorkflowEnding(ended)
	says := ended.Id
	if failure == nil && o.output != "" {
		if ended.Output == nil {
			return fmt.Errorf("%s has no film", ended.Id)
		}
		job, err := c.Job(cmd.Context(), ended.Output.Job.Id)
		if err != nil {
			return o.target.Explain(err)
		}
		if answer.File, err = jobs.SaveVideo(cmd.Context(), c, job, o.output, d); err != nil {
			return err
		}
		says = answer.File.String()
	}
	return errors.Join(o.print(cmd.OutOrStdout(), answer, says), failure)
}
