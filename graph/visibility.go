package graph

import (
	"context"
	"reflect"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
)

// shown lists the fields of a type that a role can see. A role sees all fields of a type
// that is not listed for it. Operators see everything.
//
// mayReadPrompt is a further rule for prompts.
var shown = map[access.Role]map[string][]string{
	access.RoleClient: {
		"Worker": {"id", "region", "gpuType", "status"},
		"Model": {
			"name", "version", "type", "description", "paramsSchema", "gpuTypes", "gpuMemoryGb", "gpusPerWorker", "produces", "requiresPrompt",
			"timeoutSeconds", "gpuSecondsPerSecond", "timeDependsOn", "priceFactor", "retry", "fallback", "runtime", "quality", "drafts",
			"determinism", "origin", "createdAt", "removedAt", "available", "state",
		},
		"RemovedModel":  {"name", "isAlias", "version", "origin", "removedAt"},
		"WaitingReason": {"code", "message", "consequence", "change", "until"},
		// Clients see no field of these.
		"DeadLetter": {}, "DeadLetterConnection": {}, "DeadLetterGroup": {}, "DeadLetterStats": {}, "FailingHost": {},
	},
	access.RoleWorker: {
		"Job": {"id", "type", "model", "params", "prompt", "tier", "status", "progress", "attemptNo"},
		"Worker": {
			"id", "provider", "providerInstanceId", "region", "zone", "gpuType", "capacityClass", "status", "models", "refusedModels",
			"warmModels", "registeredAt", "lastHeartbeatAt", "drainDeadline", "gpuUtilization", "gpus", "jobsCompleted", "gpuSeconds",
		},
	},
}

// showField resolves a field if the caller can see it. Otherwise the field is null, or
// FORBIDDEN if it cannot be null.
func showField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	nullable := !field.Field.Definition.Type.NonNull
	role := principal(ctx).Role
	if fields, limited := shown[role][field.Object]; limited && !slices.Contains(fields, field.Field.Name) {
		if nullable {
			return nil, nil
		}
		return nil, apierror.Forbidden("The field %s.%s is not for keys of the role %s.", field.Object, field.Field.Name, role)
	}
	value, err := next(ctx)
	if nullable && isEmptyText(value) {
		return nil, err
	}
	return value, err
}

// mayReadPrompt reports whether the caller may read the prompt of the job whose field is
// being resolved. A caller that can see the job may, but a worker only within the lease
// that it just received.
func mayReadPrompt(ctx context.Context, p jobs.Principal) bool {
	parent := graphql.GetFieldContext(ctx).Parent
	return p.Role != access.RoleWorker || parent != nil && parent.Object == "Lease"
}

// isEmptyText reports whether a value is an empty string of any type. The API returns
// the empty text of a row as null.
func isEmptyText(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.String && v.Len() == 0
}

// promptOf returns a prompt, or null if there is none.
func promptOf(p query.Prompt, err error) (*string, error) {
	if err == nil {
		err = p.Err
	}
	if err != nil || p.Text == "" {
		return nil, err
	}
	return &p.Text, nil
}

// asksForState reports whether the field that is being resolved selects only what
// models.GetJobStates reads of a job. Clients that wait for a job do so.
func asksForState(ctx context.Context) bool {
	field := graphql.GetFieldContext(ctx).Field
	for _, f := range graphql.CollectFields(graphql.GetOperationContext(ctx), field.Selections, jobImplementors) {
		switch f.Name {
		case "__typename", "id", "status", "progress":
		default:
			return false
		}
	}
	return true
}
