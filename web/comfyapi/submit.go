package comfyapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
	"github.com/samber/lo"
)

// maxJSON bounds a body of JSON. Parameters may have far less.
const maxJSON = 1 << 20

// order is the body of a submit. The fields after Metadata are known and not offered.
type order struct {
	Workflow   map[string]any `json:"workflow"`
	Metadata   map[string]any `json:"metadata"`
	ExtraData  any            `json:"extra_data"`
	WebhookURL any            `json:"webhook_url"`
	Inputs     any            `json:"inputs"`
	Priority   any            `json:"priority"`
}

// submit makes a job of a graph.
func (a *api) submit(w http.ResponseWriter, c *call) (*answer, error) {
	model, err := a.model(c)
	if err != nil {
		return nil, err
	}
	key, err := door.IdempotencyKey(c.Header)
	if err != nil {
		return nil, err
	}
	var in order
	if err := a.read(w, c, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	files, err := takeAssets(in.Workflow)
	if err != nil {
		return nil, err
	}
	params := map[string]any{comfy.GraphParam: in.Workflow}
	if len(files) > 0 {
		params[comfy.FilesParam] = files
	}
	submission := submit.Submission{Model: model.Name, IdempotencyKey: key}
	if submission.Params, err = json.Marshal(params); err != nil {
		return nil, fmt.Errorf("encode params: %w", err)
	}
	if len(in.Metadata) > 0 {
		if submission.Metadata, err = json.Marshal(in.Metadata); err != nil {
			return nil, fmt.Errorf("encode metadata: %w", err)
		}
	}
	job, _, err := a.Submitter.Submit(c.Context(), c.caller, submission)
	if err != nil {
		return nil, missing(err, files)
	}
	view, err := a.view(c.Context(), c, job)
	return &answer{http.StatusCreated, view}, err
}

// model returns the model of a call: the one in its path, or else the only one that takes graphs of the caller's account.
func (a *api) model(c *call) (*catalogue.Model, error) {
	takes := lo.Filter(a.Submitter.Catalogue.Current().For(c.caller.Scope()).Models(),
		func(m *catalogue.Model, _ int) bool { return m.TakesGraphs() })
	names := strings.Join(lo.Map(takes, func(m *catalogue.Model, _ int) string { return m.Name }), ", ")
	switch i := slices.IndexFunc(takes, func(m *catalogue.Model) bool { return m.Name == c.model }); {
	case i >= 0:
		return takes[i], nil
	case len(takes) == 0:
		return nil, faultf(http.StatusForbidden, "forbidden",
			"This account has no model that takes graphs: ask the operator of this server for one (docs/users/comfyui.md).")
	case c.model != "":
		return nil, faultf(http.StatusNotFound, "not_found", "There is no model %s that takes graphs. Those that do: %s.",
			door.Clip(c.model), names)
	case len(takes) > 1:
		return nil, faultf(http.StatusUnprocessableEntity, "ambiguous_model",
			"This account has several models that take graphs (%s): let COMFY_BASE_URL end with the path of one, such as /comfy/%s.",
			names, takes[0].Name)
	}
	return takes[0], nil
}

// read reads a body of JSON into a struct. Numbers in any are json.Number.
func (a *api) read(w http.ResponseWriter, c *call, into any) error {
	if mediaType, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return door.UnsupportedMedia("Unsupported content type: send application/json.")
	}
	raw, err := door.ReadJSON(http.MaxBytesReader(w, c.Body, maxJSON))
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return faultf(http.StatusBadRequest, "invalid_request", "The body is not what this URL takes: %s.",
			door.Clip(strings.TrimPrefix(err.Error(), "json: ")))
	}
	return nil
}

func (in *order) check() error {
	for name, value := range map[string]any{
		"extra_data": in.ExtraData, "webhook_url": in.WebhookURL, "inputs": in.Inputs, "priority": in.Priority,
	} {
		if value != nil {
			return faultf(http.StatusUnprocessableEntity, "not_supported",
				"This server does not take %s (keys of other services, webhooks and priorities are set in Reelay itself): leave it out.", name)
		}
	}
	if in.Workflow == nil {
		return faultf(http.StatusUnprocessableEntity, "invalid_workflow", "workflow is missing: give a graph in ComfyUI's API format.")
	}
	if _, ui := in.Workflow["nodes"]; ui {
		return faultf(http.StatusUnprocessableEntity, "workflow_format_ui",
			"This is a graph as ComfyUI's editor saves it: in ComfyUI, open it and choose Workflow, Export (API).")
	}
	for key, value := range in.Metadata {
		if _, text := value.(string); !text {
			return faultf(http.StatusUnprocessableEntity, "metadata_invalid", "metadata.%s is no text: labels are texts.", door.Clip(key))
		}
	}
	return nil
}

const assetType = "core/ASSET"

// takeAssets replaces the assets in a graph with references to the files of a job, and returns the ids of these.
func takeAssets(graph map[string]any) (files []string, err error) {
	for _, node := range slices.Sorted(maps.Keys(graph)) {
		body, _ := graph[node].(map[string]any)
		inputs, _ := body["inputs"].(map[string]any)
		for _, input := range slices.Sorted(maps.Keys(inputs)) {
			asset, _ := inputs[input].(map[string]any)
			if asset["__type"] != assetType {
				if hasAsset(inputs[input]) {
					return nil, faultf(http.StatusUnprocessableEntity, "invalid_workflow",
						"The input %s of the node %s has an asset inside a list or an object: an asset must be the whole value of an input.",
						door.Clip(input), door.Clip(node))
				}
				continue
			}
			info, _ := asset["info"].(map[string]any)
			id, _ := info["id"].(string)
			if !models.ArtifactID(id).Valid() {
				return nil, &fault{status: http.StatusUnprocessableEntity, code: "missing_asset",
					message: fmt.Sprintf("The input %s of the node %s has an asset without a valid info.id: give the id of an uploaded asset.",
						door.Clip(input), door.Clip(node)),
					details: map[string]any{"missing_ids": []string{door.Clip(id)}}}
			}
			number := slices.Index(files, id)
			if number < 0 {
				number, files = len(files), append(files, id)
			}
			inputs[input] = reference(number)
		}
	}
	return files, nil
}

func reference(number int) string { return fmt.Sprintf("{{%s.%d}}", comfy.FilesParam, number) }

func hasAsset(value any) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, hasAsset)
	case map[string]any:
		return v["__type"] == assetType || slices.ContainsFunc(slices.Collect(maps.Values(v)), hasAsset)
	}
	return false
}

// missing returns the error of a submit with the id of the asset that it is about.
func missing(err error, files []string) error {
	known, ok := errors.AsType[*apierror.Error](err)
	if !ok {
		return err
	}
	place, ok := strings.CutPrefix(known.Field, "params."+comfy.FilesParam+".")
	number, wrong := strconv.Atoi(place)
	if !ok || wrong != nil || number < 0 || number >= len(files) {
		return err
	}
	message := strings.ReplaceAll(known.Message, known.Field, "The asset "+files[number])
	if known.Code == apierror.CodeNotFound {
		message = fmt.Sprintf("There is no asset %s in this account: upload it again. An asset that no job uses is deleted after a day.",
			files[number])
	}
	return &fault{status: http.StatusUnprocessableEntity, code: "missing_asset", message: message,
		details: map[string]any{"missing_ids": []string{files[number]}}}
}
