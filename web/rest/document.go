package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// requests are the schemas of bodies of requests, which have no other fields than they describe.
// Later releases can add fields to responses.
var requests = []string{
	"VideoRequest", "JobRequest", "ScheduleRequest", "WorkflowRequest", "WorkflowNodeRequest", "RetryPolicy", "DraftAsked", "InputRequest",
	"HaltRequest", "GenerateRequest",
}

// nullable are properties of responses that can be null, where huma cannot say so.
var nullable = []string{"WorkflowView.output", "JobView.phase", "JobView.error"}

// encoded returns the OpenAPI document: what huma describes, and what the domain and the handler
// do besides.
func encoded(described *huma.OpenAPI) []byte {
	var document node
	raw, err := json.Marshal(described)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		err = decoder.Decode(&document)
	}
	if err != nil {
		panic(fmt.Errorf("describe the REST API: %w", err)) // it depends only on this code
	}
	schemas := document["components"].(node)["schemas"].(node)
	for name, schema := range schemas {
		completeSchema(name, schema.(node))
	}
	for path, item := range document["paths"].(node) {
		for _, op := range item.(node) {
			completeOperation(path, op.(node))
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		panic(fmt.Errorf("describe the REST API: %w", err))
	}
	return out.Bytes()
}

// completeSchema adds the limits of a schema's properties. In a request, null is the same as no
// property.
func completeSchema(name string, schema node) {
	isRequest := slices.Contains(requests, name)
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(node)
	for property, described := range properties {
		of := described.(node)
		limits := bodyLimits[name+"."+property]
		if limits == nil && isRequest {
			limits = bodyLimits[property]
		}
		maps.Copy(of, limits)
		if isRequest && !slices.Contains(required, any(property)) {
			properties[property] = orNothing(of)
		}
		if slices.Contains(nullable, name+"."+property) {
			properties[property] = orNothing(of)
		}
		if strings.HasSuffix(strings.ToLower(property), "url") && !isRequest {
			of["format"] = "uri"
		}
	}
}

// orNothing allows null beside what a schema allows.
func orNothing(schema node) node {
	if kind, ok := schema["type"].(string); ok && schema["enum"] == nil {
		schema["type"] = []any{kind, "null"}
	}
	if _, many := schema["type"].([]any); many {
		if values, limited := schema["enum"].([]any); limited && !slices.Contains(values, nil) {
			schema["enum"] = append(values, nil)
		}
		return schema
	}
	either := node{}
	for _, moved := range []string{"description", "examples"} {
		if schema[moved] != nil {
			either[moved] = schema[moved]
			delete(schema, moved)
		}
	}
	either["anyOf"] = []any{schema, node{"type": "null"}}
	return either
}

// completeOperation adds what all operations have in common, and the limits of the parameters.
func completeOperation(path string, op node) {
	id := op["operationId"].(string)
	op["tags"] = []any{tagOf(path)}
	params, _ := op["parameters"].([]any)
	for _, param := range params {
		completeParam(id, param.(node))
	}
	responses := op["responses"].(node)
	if !strings.HasSuffix(path, "/video") {
		responses["406"] = problemOf(responses, http.StatusNotAcceptable)
	}
	for status, response := range responses {
		completeResponse(status, response.(node))
	}
	for status, added := range links[id] {
		responses[status].(node)["links"] = added
	}
}

func completeParam(operation string, param node) {
	name, schema := param["name"].(string), param["schema"].(node)
	limits := paramLimits[operation+"."+name]
	if limits == nil {
		limits = paramLimits[name]
	}
	maps.Copy(schema, limits)
	delete(schema, "description") // the parameter has it
}

// problemOf describes one more error of an operation.
func problemOf(responses node, status int) node {
	return node{"description": http.StatusText(status), "content": responses["400"].(node)["content"]}
}

// descriptions say when an error occurs.
var descriptions = map[string]string{
	"400": "The request cannot be read: it is not JSON or not UTF-8, has a key, a parameter or a header twice, or is a GET or DELETE with a body.",
	"401": "The key is missing, unknown, expired or revoked.",
	"403": "The key's role is not allowed to do this.",
	"404": "There is no such thing, or the account may not see it.",
	"406": "The header Accept allows no media type in which this path responds.",
	"409": "The state does not allow it (`CONFLICT`), or the idempotency key was used for another request (`IDEMPOTENCY_CONFLICT`).",
	"413": "The body is too large.",
	"415": "The body is not application/json in UTF-8, or is compressed.",
	"422": "A parameter, or a field of the body, is invalid: `field` names it.",
	"429": "Too many requests, or the account is at a limit. Retry after `retry_after_seconds`.",
	"500": "An internal error. `request_id` identifies it in the server's log.",
	"503": "A service cannot be reached, or is overloaded. Send the same request again, with its idempotency key, after `retry_after_seconds`.",
}

func completeResponse(status string, response node) {
	if words := descriptions[status]; words != "" {
		response["description"] = words
	}
	headers, _ := response["headers"].(node)
	if headers == nil {
		headers = node{}
	}
	add := func(name, description string, required bool, schema node) {
		headers[name] = node{"description": description, "required": required, "schema": schema}
	}
	switch status {
	case "401":
		add("WWW-Authenticate", "Bearer", true, node{"type": "string"})
	case "429", "503":
		add("Retry-After", "Seconds after which a retry can succeed.", false, node{"type": "integer", "minimum": 1})
	case "415":
		add("Accept-Encoding", "If the body is compressed: identity.", false, node{"type": "string"})
	}
	for _, name := range []string{"Location", "ETag"} {
		if header, ok := headers[name].(node); ok && name == "Location" && status != "200" {
			header["required"] = true
			header["schema"].(node)["format"] = "uri-reference"
		} else if ok {
			header["required"] = false
		}
	}
	if len(headers) > 0 {
		response["headers"] = headers
	}
}

// tagOf returns the group of the operations on a path.
func tagOf(path string) string {
	for _, group := range []struct{ prefix, tag string }{
		{videosPath, "Videos"}, {schedulesPath, "Schedules"}, {workflowsPath, "Workflows"}, {jobsPath, "Jobs"}, {generatePath, "Jobs"},
		{inputsPath, "Inputs"}, {"/api/v1/models", "Models"}, {"/api/v1/drafts", "Drafts"},
	} {
		if strings.HasPrefix(path, group.prefix) {
			return group.tag
		}
	}
	return "Operators"
}

// links say, by operation and status, which operations take a part of the response.
var links = map[string]map[string]node{
	"createVideo":    {"202": linksTo("$response.body#/job_id", "getVideo", "cancelVideo", "getVideoEvents", "getVideoFile")},
	"generate":       {"202": linksTo("$response.body#/jobId", "getJob", "cancelJob", "getVideoEvents", "getVideoFile")},
	"createJob":      {"201": linksTo("$response.body#/job_id", "getJob", "cancelJob", "continueJob")},
	"createSchedule": {"201": linksTo("$response.body#/schedule_id", "getSchedule", "deleteSchedule")},
	"createWorkflow": {"201": merged(
		linksTo("$response.body#/workflow_id", "getWorkflow", "cancelWorkflow", "retryWorkflow"),
		node{"skipWorkflowJob": linkTo("skipWorkflowJob", node{"id": "$response.body#/workflow_id", "key": "$response.body#/nodes/0/key"})},
	)},
	"continueJob":   {"201": linksTo("$response.body#/job_id", "getJob")},
	"listVideos":    {"200": node{"next": linkTo("listVideos", node{"after": "$response.body#/next"})}},
	"listJobs":      {"200": node{"next": linkTo("listJobs", node{"after": "$response.body#/next"})}},
	"listWorkflows": {"200": node{"next": linkTo("listWorkflows", node{"cursor": "$response.body#/next_cursor"})}},
	"listSchedules": {"200": node{"next": linkTo("listSchedules", node{"cursor": "$response.body#/next_cursor"})}},
}

func linkTo(operation string, params node) node {
	return node{"operationId": operation, "parameters": params}
}

// linksTo links to operations whose id is a part of the response.
func linksTo(id string, operations ...string) node {
	all := node{}
	for _, operation := range operations {
		all[operation] = linkTo(operation, node{"id": id})
	}
	return all
}

func merged(all ...node) node {
	one := node{}
	for _, each := range all {
		maps.Copy(one, each)
	}
	return one
}
