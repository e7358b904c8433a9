package rest

import (
	"slices"
	"strings"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/media"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/cron"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/costs"
	"github.com/samber/lo"
)

// node is an object of the OpenAPI document.
type node = map[string]any

// The limits that the domain checks, as the document shows them. huma does not check them, so that
// the domain's own messages reach the caller. Patterns use only what the regular expressions of all
// languages have.

func printable(least, most int) node {
	limit := node{"maxLength": most, "pattern": text.ValidForm}
	if least > 0 {
		limit["minLength"], limit["pattern"] = least, text.ValidWordsForm
	}
	return limit
}

func named(most int) node {
	return node{"minLength": 1, "maxLength": most, "pattern": text.ValidNameForm}
}

// idOf limits the ids of a kind, such as job.
func idOf(kind string) node {
	return node{"pattern": "^" + kind + "_[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
		"examples": []any{kind + "_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11"}}
}

func among[T ~string](values []T) node {
	return node{"enum": lo.Map(values, func(v T, _ int) any { return strings.ToLower(string(v)) })}
}

var (
	modelName = node{"minLength": 1, "maxLength": catalogue.MaxName, "pattern": catalogue.NameForm, "examples": []any{"testcard"}}
	typeName  = node{"minLength": 1, "maxLength": catalogue.MaxName, "pattern": catalogue.NameForm}
	nodeKey   = node{"minLength": 1, "maxLength": workflow.MaxKey, "pattern": workflow.KeyForm}
	// day, ofAccount and costGroup may also be empty.
	day       = node{"pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", "examples": []any{"2027-01-31"}}
	costGroup = node{"enum": append(among(costs.Groups)["enum"].([]any), "")}
	ofAccount = node{"pattern": "^(acc_[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?$"}
	cursor    = node{"maxLength": paging.MaxCursor, "pattern": paging.CursorForm}
	exactly   = printable(0, submit.MaxUserIDBytes)
	// codes are those that callers see who are no worker.
	codes    = node{"enum": lo.FilterMap(apierror.Codes, func(c apierror.Code, _ int) (any, bool) { return c, c != apierror.CodeLeaseLost })}
	callback = node{"format": "uri", "minLength": 1, "maxLength": outbound.MaxURLBytes, "pattern": `^[Hh][Tt][Tt][Pp][Ss]?://[^\s#]+$`}
	// prompt has at least one character that is no space. Each of its characters takes up to four
	// bytes, so that its limit in bytes, four times as high, needs no mention.
	prompt = node{"minLength": 1, "maxLength": submit.MaxPromptRunes, "pattern": `^[^\x00]*[^\x00\s][^\x00]*$`}
)

// bodyLimits are the limits of properties, by the name of the schema and the property, or by the
// property alone in all schemas of requests.
var bodyLimits = map[string]node{
	"idempotency_key":    printable(1, submit.MaxKeyRunes),
	"idempotencyKey":     printable(1, submit.MaxKeyRunes),
	"userId":             exactly,
	"webhookUrl":         callback,
	"callback_url":       callback,
	"job_type":           typeName,
	"model":              modelName,
	"model_version":      modelName,
	"user_id":            exactly,
	"max_preemptions":    {"minimum": 0, "maximum": submit.MaxMaxPreemptions},
	"max_price_per_hour": {"minimum": 0, "maximum": submit.MaxPricePerHour},
	"metadata": {
		"maxProperties": submit.MaxMetadataKeys, "propertyNames": node{"maxLength": submit.MaxMetadataKeyBytes, "pattern": `^[^\x00]*$`},
	},
	"JobRequest.depends_on":            {"items": merged(node{"type": "string"}, idOf("job"))},
	"JobRequest.region":                printable(0, text.MaxName),
	"VideoRequest.prompt":              prompt,
	"GenerateRequest.prompt":           prompt,
	"GenerateRequest.provider":         {"minLength": 1, "maxLength": catalogue.MaxName},
	"GenerateRequest.resolution":       {"minLength": 1},
	"GenerateRequest.aspectRatio":      {"pattern": catalogue.AspectForm},
	"GenerateRequest.imageUrl":         {"minLength": 1, "maxLength": outbound.MaxURLBytes},
	"VideoRequest.priority_tier":       among(models.Tiers),
	"VideoRequest.reference_image_url": {"minLength": 1, "maxLength": outbound.MaxURLBytes},
	"DraftAsked.steps":                 {"minimum": 1},
	"WorkflowRequest.name":             named(workflow.MaxName),
	"WorkflowRequest.output":           nodeKey,
	"WorkflowRequest.reuse":            idOf("wfl"),
	"WorkflowNodeRequest.key":          nodeKey,
	"WorkflowNodeRequest.after": {"items": node{"type": "string", "minLength": 1, "maxLength": workflow.MaxKey,
		"pattern": workflow.KeyForm}},
	"ScheduleRequest.name":            named(schedule.MaxName),
	"ScheduleRequest.cron_expression": {"minLength": 1, "maxLength": cron.MaxLength},
	"ScheduleRequest.every_seconds":   {"minimum": 1, "maximum": schedule.MaxEvery},
	"ScheduleRequest.timezone":        {"minLength": 1, "maxLength": cron.MaxZone, "pattern": cron.ZoneForm},
	"InputRequest.content_type":       among(append(slices.Clone(picture.ContentTypes), media.ContentTypes...)),
	"InputRequest.size_bytes":         {"minimum": 1, "maximum": media.MaxBytes},
	"InputRequest.checksum":           {"minLength": 8, "maxLength": 8, "pattern": `^[A-Za-z0-9+/]{5}[AQgw]==$`},
	"HaltRequest.reason":              printable(1, operate.MaxHaltReasonRunes),
	"Problem.code":                    codes,
	"Problem.status":                  {"minimum": 400, "maximum": 599},
	"Problem.retry_after_seconds":     {"minimum": 1},
	"QueuePause.tier":                 {"enum": lo.Map(models.Tiers, func(t models.Tier, _ int) any { return t })},
}

// paramLimits are the limits of parameters, by the operation and the parameter, or by the
// parameter alone.
var paramLimits = map[string]node{
	"search":         {"maxLength": query.MaxSearchRunes},
	"model":          exactly,
	"job_type":       exactly,
	"user_id":        exactly,
	"reason":         printable(0, operate.MaxCancelReasonRunes),
	"note":           printable(0, operate.MaxNoteRunes),
	"kind":           oneOrMore(query.ChangeKinds),
	"target":         printable(0, jobs.MaxTargetRunes),
	"cursor":         cursor,
	"key":            nodeKey,
	"parent":         nodeKey,
	"pick":           nodeKey,
	"name":           {"minLength": 1},
	"status":         oneOrMore(models.JobStatuses),
	"tier":           oneOrMore(models.Tiers),
	"listJobs.after": cursor, "listVideos.after": cursor, "listChanges.after": cursor,
	"listMachines.after": cursor, "listMachines.pool": printable(0, text.MaxName), "listMachines.instance_id": printable(0, text.MaxName),
	"listMachines.state": oneOrMore(capacity.MachineStates),
	"getCosts.from":      day, "getCosts.to": day, "getCosts.by": costGroup, "getCosts.account": ofAccount,
	"listBudgets.account": ofAccount,
	"getCostsFile.from":   day, "getCostsFile.to": day, "getCostsFile.by": costGroup, "getCostsFile.account": ofAccount,
	"getStatement.month": {"pattern": `^[0-9]{4}-(0[1-9]|1[0-2])(\.csv|\.html)?$`}, "getStatement.account": ofAccount,
	"listWorkflows.name":   printable(0, workflow.MaxName),
	"listWorkflows.status": oneOrMore(models.WorkflowStatuses),
	// HTTP has no encoding for other characters in headers.
	"Idempotency-Key": {"minLength": 1, "maxLength": submit.MaxKeyRunes, "pattern": "^[!-~]([ -~]*[!-~])?$"},
	"Last-Event-ID":   {"type": "integer", "minimum": 0, "maximum": maxSeq},
	"getVideo.id":     idOf("job"), "cancelVideo.id": idOf("job"), "getVideoEvents.id": idOf("job"), "getVideoFile.id": idOf("job"),
	"getJob.id": idOf("job"), "cancelJob.id": idOf("job"), "continueJob.id": idOf("job"),
	"getSchedule.id": idOf("sch"), "deleteSchedule.id": idOf("sch"),
	"getWorkflow.id": idOf("wfl"), "cancelWorkflow.id": idOf("wfl"), "retryWorkflow.id": idOf("wfl"), "skipWorkflowJob.id": idOf("wfl"),
	"approveWorkflowJob.id": idOf("wfl"), "rejectWorkflowJob.id": idOf("wfl"), "overrideDependency.id": idOf("wfl"),
}

// oneOrMore limits a parameter with values separated by commas. It may also be empty.
func oneOrMore[T ~string](values []T) node {
	items := among(values)
	items["type"] = "string"
	return node{"type": "array", "items": items, "examples": []any{items["enum"].([]any)[:2]}}
}
