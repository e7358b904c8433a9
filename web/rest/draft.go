package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
)

type draftSum struct {
	Drafts     int     `json:"drafts"`
	GPUSeconds float64 `json:"gpu_seconds" doc:"The GPU seconds of all their attempts. An attempt that runs counts once it ends."`
}

// draftUsage splits drafts by what became of them.
type draftUsage struct {
	Undecided draftSum `json:"undecided" doc:"Drafts that have not ended, or are still kept and can be continued."`
	Continued draftSum `json:"continued" doc:"Drafts that were continued: their GPU seconds were useful."`
	Discarded draftSum `json:"discarded" doc:"Drafts that were deleted, expired, failed or cancelled, and not continued. Their GPU seconds were wasted."`
}

type draftUsageInput struct {
	Days int `query:"days" default:"30" minimum:"1" maximum:"90" doc:"Number of days to look back."`
}

type draftUsageOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         draftUsage
}

func (s *service) registerDrafts(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getDraftUsage", Method: http.MethodGet, Path: "/api/v1/drafts/usage", Summary: "Sum up what drafts cost",
		Description: "The account's drafts of the last days, or for an operator those of all accounts, by what became of them.",
		Errors:      []int{http.StatusTooManyRequests},
	}, func(ctx context.Context, in *draftUsageInput) (*draftUsageOutput, error) {
		ctx, read, err := s.Reads.Shares.Admit(ctx, callerOf(ctx).Principal, query.CountPrice)
		if err != nil {
			return nil, err
		}
		defer read.End()
		usage, err := s.Reads.Jobs.DraftUsage(ctx, callerOf(ctx).Principal, in.Days)
		if err != nil {
			return nil, err
		}
		sum := func(d models.DraftSum) draftSum { return draftSum(d) }
		return &draftUsageOutput{CacheControl: "no-store", Body: draftUsage{sum(usage.Undecided), sum(usage.Continued), sum(usage.Discarded)}},
			nil
	})
}
