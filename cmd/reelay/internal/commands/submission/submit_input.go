package submission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/internal/media"
	"github.com/reelay/reelay/internal/picture"
)

// referenceImage is the parameter for the image that a video starts from.
const referenceImage = "referenceImage"

// inputFlag is a file that the job starts from: the parameter, and the path of a file to
// upload or else the value.
type inputFlag struct {
	param, path, value string
	flag               string // as it was given
}

// readInputs reads --image and --input. It returns an error if a parameter is also in params.
func (o *submitOptions) readInputs(params input.Fields) (all []inputFlag, err error) {
	if o.image != "" {
		in := inputFlag{param: referenceImage, path: o.image, flag: "--image " + o.image}
		if strings.HasPrefix(o.image, "https://") || strings.HasPrefix(o.image, "http://") {
			in.path, in.value = "", o.image
		}
		all = append(all, in)
	}
	for _, given := range o.inputs {
		name, value, found := strings.Cut(given, "=")
		if !found || name == "" || value == "" {
			return nil, fmt.Errorf("--input %s: write name=@file, name=art_…, name=job_… or name=URL", given)
		}
		in := inputFlag{param: name, value: value, flag: "--input " + given}
		if path, isFile := strings.CutPrefix(value, "@"); isFile {
			in.path, in.value = path, ""
		} else if !strings.HasPrefix(value, "art_") && !strings.HasPrefix(value, "job_") && !strings.Contains(value, "://") {
			return nil, fmt.Errorf("--input %s: %s is neither an id nor a URL: for a file, write %s=@%s", given, value, name, value)
		}
		all = append(all, in)
	}
	for _, in := range all {
		if params[in.param] != nil {
			return nil, fmt.Errorf("%s is given twice, by %s and as a parameter: use one of them", in.param, in.flag)
		}
	}
	return all, nil
}

// attach uploads the files of the inputs, and sets all inputs as parameters of the job. It
// returns how to name the uploaded files in another command.
func (o *submitOptions) attach(
	ctx context.Context, c *client.Client, in *client.SubmitJobInput, inputs []inputFlag,
) (again string, err error) {
	if len(inputs) == 0 {
		return "", nil
	}
	for _, input := range inputs { // before anything is uploaded
		if input.path != "" {
			if err := WithInput(input.path, func(*os.File, string) error { return nil }); err != nil {
				return "", err
			}
		}
	}
	var names []string
	values := map[string][]string{}
	for _, input := range inputs {
		if input.path != "" {
			if err := WithInput(input.path, func(file *os.File, kind string) (err error) {
				input.value, err = c.UploadInput(ctx, kind, file)
				return connect.WithAdvice(err)
			}); err != nil {
				return "", fmt.Errorf("upload %s: %w", input.path, err)
			}
			again += fmt.Sprintf(" and --input %s=%s instead of %s", input.param, input.value, input.flag)
		} else if strings.HasPrefix(input.value, "job_") {
			id, part, dotted := strings.Cut(input.value, ".") // such as job_0195….lastFrame
			if id, err = connect.FullID(ctx, c, "job", id); err != nil {
				return "", err
			}
			if input.value = id; dotted {
				input.value += "." + part
			}
		}
		if values[input.param] == nil {
			names = append(names, input.param)
		}
		values[input.param] = append(values[input.param], input.value)
	}
	lists, err := listParams(ctx, c, in.Model, inputs)
	if err != nil {
		return "", err
	}
	params := input.Fields{}
	if in.Params != nil {
		_ = json.Unmarshal(*in.Params, &params) // it was made of fields
	}
	for _, name := range names {
		var value any = values[name]
		if len(values[name]) == 1 && !lists[name] {
			value = values[name][0]
		}
		if err := params.Set(name, value); err != nil {
			return "", err
		}
	}
	in.Params = params.Message()
	return again, nil
}

// listParams returns the parameters of a model that are lists. It asks the API only if the
// number of inputs leaves that open. For an alias it returns none.
func listParams(ctx context.Context, c *client.Client, model string, inputs []inputFlag) (map[string]bool, error) {
	if len(inputs) == 1 && inputs[0].param == referenceImage {
		return nil, nil
	}
	all, err := c.Models(ctx)
	if err != nil {
		return nil, connect.WithAdvice(err)
	}
	lists := map[string]bool{}
	for _, m := range all {
		var schema struct {
			Properties map[string]struct{ Type any }
		}
		if m.Name == model && json.Unmarshal(m.ParamsSchema, &schema) == nil {
			for name, property := range schema.Properties {
				lists[name] = property.Type == "array"
			}
		}
	}
	return lists, nil
}

// WithInput opens a file and calls use with its content type. It returns an error if no model
// would accept the file.
func WithInput(path string, use func(file *os.File, contentType string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	contentType, err := inputType(file)
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", path, err)
	}
	return use(file, contentType)
}

// inputType returns the content type of a file, or an error if no model would accept it.
func inputType(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	head := make([]byte, media.HeadBytes)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	head = head[:n]
	limit := int64(picture.MaxBytes)
	found := media.Detect(head)
	kind := found.Type
	if !slices.Contains(picture.ContentTypes, kind) {
		limit = media.MaxBytes
		if kind, err = media.TypeOf(file.Name(), head); err != nil && found.Name != "" {
			return "", err
		} else if err != nil {
			return "", errors.New("it is not a JPEG, PNG or WebP image, nor an MP4, WebM, MP3, M4A, WAV, FLAC or Ogg file")
		}
	}
	if info.Size() > limit {
		return "", fmt.Errorf("it is larger than %d MB", limit>>20)
	}
	return kind, nil
}
