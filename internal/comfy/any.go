package comfy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// weights are the extensions of files with weights.
var weights = []string{".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".gguf", ".sft", ".onnx", ".pkl", ".pickle"}

// media are the extensions of files that people upload: a graph could name those of others.
var media = []string{
	".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".exr", ".svg",
	".mp4", ".webm", ".mov", ".mkv", ".avi", ".m4v", ".mpg", ".mpeg",
	".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac",
	".latent", ".npy", ".npz", ".json", ".txt", ".csv", ".zip",
}

// GraphParam and FilesParam are the parameters of a model that takes graphs: the graph, and the
// job's files, to which the graph refers as {{files.0}} and so on.
const (
	GraphParam = "graph"
	FilesParam = "files"
)

var (
	reference = regexp.MustCompile(`^\{\{files\.(0|[1-9][0-9]?)\}\}$`)
	// folders are what ComfyUI takes after a name to say in which of its folders the file lies.
	folders = regexp.MustCompile(`\s*\[(?:input|output|temp)\]$`)
)

// Check returns why a customer's graph is refused: the node, and what of it is not allowed. files is
// how many files the job has. Texts that are paths, addresses or names of files are refused wherever
// they stand, because nodes may open them.
func (a *Allowed) Check(g Graph, files int) error {
	saves := false
	for _, id := range g.Sorted() {
		node := g[id]
		if !slices.Contains(a.Nodes, node.Class) {
			return fmt.Errorf("the node %s is of the class %s, which this model does not allow", id, node.Class)
		}
		for _, input := range slices.Sorted(maps.Keys(node.Inputs)) {
			value := node.Inputs[input]
			if input == Prefix {
				saves = true
				continue
			}
			err := a.checkValue(value)
			if number, refers := fileOf(value); refers {
				err = nil
				if number >= files {
					err = fmt.Errorf("is %s, but the job has %d files in its parameter %s", value, files, FilesParam)
				}
			}
			if err != nil {
				return fmt.Errorf("the input %.70s of the node %s (%s) %w", input, id, node.Class, err)
			}
		}
	}
	if !saves {
		return fmt.Errorf("no node saves a file: one must have the input %s, such as SaveVideo", Prefix)
	}
	return nil
}

// fileOf returns the number of the job's file to which a value refers.
func fileOf(value any) (number int, refers bool) {
	text, _ := value.(string)
	found := reference.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	number, err := strconv.Atoi(found[1])
	return number, err == nil
}

// SetFiles puts the engine's names of the job's files, by files.0 and so on, where the graph refers
// to them.
func (g Graph) SetFiles(names map[string]string) {
	for _, node := range g {
		for input, value := range node.Inputs {
			if number, refers := fileOf(value); refers {
				node.Inputs[input] = names[fmt.Sprintf("%s.%d", FilesParam, number)]
			}
		}
	}
}

func (a *Allowed) checkValue(value any) error {
	switch v := value.(type) {
	case string:
		return a.checkText(v)
	case []any:
		if _, link := Link(v); link {
			return nil
		}
		for _, item := range v {
			if err := a.checkValue(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, item := range v {
			if err := errors.Join(a.checkText(name), a.checkValue(item)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkText checks each line of a text, as nodes that take several names do.
func (a *Allowed) checkText(text string) error {
	if slices.Contains(a.Files, text) {
		return nil
	}
	if strings.ContainsRune(text, 0) {
		return errors.New("has a NUL character")
	}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if err := a.checkLine(strings.Trim(line, " \t\"'`")); err != nil {
			return err
		}
	}
	return nil
}

func (a *Allowed) checkLine(line string) error {
	name := folders.ReplaceAllString(line, "")
	folded := strings.ToLower(strings.TrimSpace(name))
	switch {
	case slices.Contains(a.Files, name):
		return nil
	case slices.Contains(weights, path.Ext(folded)):
		return fmt.Errorf("is the file %.80q, which this model does not allow", line)
	case slices.Contains(media, path.Ext(folded)) || name != line || folded == Folder || strings.HasPrefix(folded, Folder+"/"):
		return fmt.Errorf("has the name of a file (%.80q): give the file in the parameter %s, and write {{%s.0}} here",
			line, FilesParam, FilesParam)
	case strings.Contains(folded, "{{"+FilesParam):
		return fmt.Errorf("has %.80q: {{%s.0}} must be the whole value of an input", line, FilesParam)
	case strings.Contains(folded, "://") || strings.HasPrefix(folded, "data:"):
		return fmt.Errorf("has an address (%.40q): graphs may not name addresses", line)
	case strings.HasPrefix(line, "/"), strings.HasPrefix(line, "~"), strings.HasPrefix(line, `\`), strings.Contains(line, ".."+"/"),
		strings.Contains(line, `..\`), folded == "..", len(line) > 2 && line[1] == ':' && (line[2] == '\\' || line[2] == '/'):
		return fmt.Errorf("has a path (%.40q): graphs may not name paths", line)
	}
	return nil
}
