package graph

import (
	"context"
	"reflect"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
)

// shown lists the fields that a role is shown of a type; a type that is not
// listed for the role is shown whole. Operators are shown everything.
//
// A prompt has a rule more: mayReadPrompt.
var shown = map[models.Role]map[string][]string{
	models.RoleClient: {
		"Worker": {"id", "region", "gpuType", "status"},
		// What is not for clients at all.
		"DeadLetter": {}, "DeadLetterConnection": {}, "DeadLetterGroup": {}, "DeadLetterStats": {},
	},
	models.RoleWorker: {
		"Job": {"id", "type", "model", "params", "prompt", "tier", "status", "progress", "attemptNo"},
		"Worker": {
			"id", "provider", "providerInstanceId", "region", "zone", "gpuType", "capacityClass", "status", "models",
			"warmModels", "registeredAt", "lastHeartbeatAt", "drainDeadline", "gpuUtilization", "jobsCompleted", "gpuSeconds",
		},
	},
}

// showField resolves a field if the caller may see it. Otherwise it is null, or
// FORBIDDEN where it cannot be null.
func showField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	nullable := !field.Field.Definition.Type.NonNull
	role := principal(ctx).Role
	if fields, limited := shown[role][field.Object]; limited && !slices.Contains(fields, field.Field.Name) {
		if nullable {
			return nil, nil
		}
		return nil, forbidden("The field %s.%s is not for keys of the role %s.", field.Object, field.Field.Name, role)
	}
	value, err := next(ctx)
	if nullable && isEmptyText(value) {
		return nil, err
	}
	return value, err
}

// mayReadPrompt tells whether the caller may read the prompt of the job whose
// field is being resolved: whoever was shown the job may, but a worker only in
// the lease that it was just given.
func mayReadPrompt(ctx context.Context, p jobs.Principal) bool {
	parent := graphql.GetFieldContext(ctx).Parent
	return p.Role != models.RoleWorker || parent != nil && parent.Object == "Lease"
}

// isEmptyText tells whether a value is text of any type that holds nothing: a
// row's empty text is the API's null.
func isEmptyText(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.String && v.Len() == 0
}

// promptOf is a prompt as it is served: null if there is none.
func promptOf(p query.Prompt, err error) (*string, error) {
	if err == nil {
		err = p.Err
	}
	if err != nil || p.Text == "" {
		return nil, err
	}
	return &p.Text, nil
}
