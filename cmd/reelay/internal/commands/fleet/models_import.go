package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/comfyui"
	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/internal/engine"
	"github.com/spf13/cobra"
)

// importing are the flags of `reelay models import-comfyui`.
type importing struct {
	name, output, engine, secrets, file string
	force, asJSON                       bool
	document                            output.Options
}

func modelsImportCommand() *cobra.Command {
	o := importing{}
	cmd := &cobra.Command{
		Use:   "import-comfyui GRAPH",
		Short: "Propose a model for a graph of ComfyUI",
		Long: "Reads a graph that ComfyUI's Workflow, Export (API) saved, and prints an entry for `reelay models apply`, with the\n" +
			"parameters that it finds: the prompt, the negative prompt, the seed, the size, the length, the steps, and files.\n" +
			"A node whose title is `Param: NAME` becomes a parameter, too; `Param: NAME=INPUT, NAME=INPUT` names its inputs.\n" +
			"With --engine, bounds and lists come from that ComfyUI, and comments say what it lacks. GRAPH may be -.",
		Example: "  reelay models import-comfyui graph.json --name wan --engine http://127.0.0.1:8188 -o wan.yaml\n" +
			"  reelay models apply -f wan.yaml",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the model")
	f.StringVar(&o.engine, "engine", "", "address of a ComfyUI, such as http://127.0.0.1:8188")
	f.StringVar(&o.secrets, "engine-secrets", "", "YAML file of the headers and certificates of engines")
	f.StringVar(&o.output, "output-node", "", "`id` of the node whose file is the result (default: the one that saves a video)")
	f.StringVarP(&o.file, "output", "o", "", "file to store the entry in (default: the standard output)")
	f.BoolVar(&o.force, "force", false, "replace the file if it exists")
	o.document.AddDocumentFlags(cmd, &o.asJSON)
	return cmd
}

func (o *importing) run(cmd *cobra.Command, path string) error {
	if o.name == "" {
		return fmt.Errorf("--name is missing: give the name of the model")
	}
	if o.file != "" {
		if err := output.CheckFile(o.file, o.force); err != nil {
			return err
		}
	}
	data, err := input.ReadUpTo(path, cmd.InOrStdin(), comfy.MaxGraph)
	if err != nil {
		return err
	}
	classes, err := o.classes(cmd.Context(), data)
	if err != nil {
		return err
	}
	imported, err := comfy.Import(data, o.name, o.output, classes)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	entry := imported.YAML()
	if o.asJSON {
		if entry, err = imported.JSON(); err != nil {
			return err
		}
	}
	switch {
	case o.file == "" && o.asJSON:
		return o.document.Line(cmd.OutOrStdout(), json.RawMessage(entry))
	case o.file == "":
		_, err = cmd.OutOrStdout().Write(entry)
		return err
	}
	if err := os.WriteFile(o.file, entry, 0o644); err != nil {
		return err
	}
	return o.report(cmd.ErrOrStderr(), imported)
}

// report says what is in the file.
func (o *importing) report(to io.Writer, imported *comfy.Imported) error {
	for _, note := range imported.Notes {
		if _, err := fmt.Fprintf(to, "Note: %s\n", output.Clean(note)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(to, "Wrote %s with %d parameters. Read it, then: reelay models apply -f %s\n", o.file, len(imported.Params), o.file)
	return err
}

// classes asks the engine for the classes of a graph. It returns nil without an engine.
func (o *importing) classes(ctx context.Context, data []byte) (map[string]*comfy.Class, error) {
	if o.engine == "" {
		return nil, nil
	}
	address, err := engine.ParseURL(o.engine)
	if err != nil {
		return nil, fmt.Errorf("--engine: %w", err)
	}
	graph, err := comfy.ParseGraph(data)
	if err != nil {
		return nil, err
	}
	targets, err := remote.NewTargets(o.secrets)
	if err != nil {
		return nil, err
	}
	server := comfyui.New(targets.Target(address))
	classes := map[string]*comfy.Class{}
	for _, id := range graph.Sorted() {
		name := graph[id].Class
		if _, known := classes[name]; known {
			continue
		}
		if classes[name], err = server.Class(ctx, name); err != nil {
			return nil, fmt.Errorf("ask %s for the node %s: %w", address, output.Clean(name), err)
		}
	}
	return classes, nil
}
