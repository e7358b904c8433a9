package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const haltPath = "/api/v1/halts"

type halt struct {
	What   string    `json:"what" enum:"schedules,leases"`
	By     string    `json:"halted_by" doc:"The name of the operator's key, or the operator's address."`
	Since  time.Time `json:"halted_at"`
	Reason string    `json:"reason"`
}

type haltList struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Halts []halt `json:"halts" nullable:"false" doc:"The halts in force. Empty if there are none."`
	}
}

type haltRequest struct {
	What   []string `json:"what" minItems:"1" maxItems:"2" nullable:"false" enum:"schedules,leases"`
	Reason string   `json:"reason" doc:"Why, in 1 to 200 characters. Owners see it on their waiting jobs, too."`
}

type haltTarget struct {
	What string `path:"what" enum:"schedules,leases"`
}

func haltTargets(names ...string) []models.HaltTarget {
	return lo.Map(names, func(name string, _ int) models.HaltTarget { return models.HaltTarget(strings.ToUpper(name)) })
}

func (s *service) registerHalts(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "listHalts", Method: http.MethodGet, Path: haltPath, Summary: "Read what operators have halted",
		Description: "For operators.",
	}, func(ctx context.Context, _ *struct{}) (*haltList, error) {
		halts, err := s.Reads.Queues.Halts(ctx, callerOf(ctx).Principal)
		return newHalts(halts, err)
	})
	serve(api, huma.Operation{
		OperationID: "halt", Method: http.MethodPost, Path: haltPath, Summary: "Halt all schedules, all leases, or both",
		Description: "For operators. No slot of a schedule fires, or no worker gets a job. Running jobs continue, and new jobs are accepted. " +
			"What is halted already keeps its reason. The response is what is halted then.",
		Errors: []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
	}, func(ctx context.Context, in *struct{ Body haltRequest }) (*haltList, error) {
		halts, err := s.Operator.Halt(ctx, callerOf(ctx).Principal, haltTargets(in.Body.What...), in.Body.Reason)
		return newHalts(halts, err)
	})
	serve(api, huma.Operation{
		OperationID: "resume", Method: http.MethodDelete, Path: haltPath + "/{what}", Summary: "Lift a halt",
		Description: "For operators. Workers get jobs within a second; each schedule treats the slots of the halt by its catch_up. The response is what is still halted.",
	}, func(ctx context.Context, in *haltTarget) (*haltList, error) {
		halts, err := s.Operator.Resume(ctx, callerOf(ctx).Principal, haltTargets(in.What))
		return newHalts(halts, err)
	})
}

func newHalts(halts []models.Halt, err error) (*haltList, error) {
	if err != nil {
		return nil, err
	}
	out := &haltList{CacheControl: "no-store"}
	out.Body.Halts = []halt{}
	for _, h := range halts {
		out.Body.Halts = append(out.Body.Halts, halt{strings.ToLower(string(h.What)), h.By, h.Since.UTC(), h.Reason})
	}
	return out, nil
}
