package rest

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
)

// CostsInput asks for a report of costs.
type CostsInput struct {
	From    string `query:"from" doc:"The first day, in UTC. By default, 29 days before the last." example:"2027-01-01"`
	To      string `query:"to" doc:"The day after the last. By default, tomorrow." example:"2027-02-01"`
	By      string `query:"by" default:"model" doc:"What the report has a row for each of (in any case): day, account, user, model, type, pool, provider, region, gpu_type. An account can have day, user, model and type."`
	Account string `query:"account" doc:"Only the jobs of this account, by id. For operators and viewers: an account has its own."`
	Limit   int    `query:"limit" minimum:"1" maximum:"5000" default:"100" doc:"The maximum number of rows."`
}

// costRow is a row of a report of costs.
type costRow struct {
	Key             string   `json:"key" doc:"An account's id, a day, or a name. Empty for the total, for jobs without a user, and for workers without a pool."`
	Name            string   `json:"name" doc:"The name of an account, or the key."`
	Attempts        int64    `json:"attempts" doc:"How many ended on these days."`
	Completed       int64    `json:"completed" doc:"How many of them completed their jobs."`
	Videos          int64    `json:"videos" doc:"How many of completed are videos: all but drafts."`
	UsefulSeconds   float64  `json:"useful_seconds"`
	WastedSeconds   float64  `json:"wasted_seconds" doc:"GPU seconds of which neither a result nor a checkpoint was kept."`
	ChargedUSD      float64  `json:"charged_usd" doc:"What accounts pay: the useful time of jobs that completed, and the fees of their videos."`
	CostUSD         *float64 `json:"cost_usd" doc:"What all the time cost, at the prices that the pools had, and the fees of hosted providers. Null for accounts."`
	WastedUSD       *float64 `json:"wasted_usd" doc:"The wasted part of cost_usd. Null for accounts."`
	CostPerVideoUSD *float64 `json:"cost_per_video_usd" doc:"cost_usd for each of videos, with drafts, failures and waste. Null for accounts, and without a video."`
	Unpriced        int64    `json:"unpriced" doc:"How many entries have no amount, since a pool or a model of a hosted provider had no price. The sums are too low by what they cost."`
}

// costReport is what the attempts of some days cost.
type costReport struct {
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to" doc:"The day after the last."`
	Total    costRow    `json:"total" doc:"The sum of all rows, also of those that were left out."`
	Rows     []costRow  `json:"rows" nullable:"false" doc:"The dearest first, but days in their order."`
	More     bool       `json:"more" doc:"There are more rows."`
	Machines []paidTime `json:"machines" nullable:"true" doc:"What the machines of these days cost, also while they booted and were idle. Null for accounts, and in a report of one account."`
}

type costsOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         costReport
}

type costsFile struct {
	CacheControl string `header:"Cache-Control"`
	ContentType  string `header:"Content-Type"`
	Disposition  string `header:"Content-Disposition"`
	Body         []byte
}

func (s *service) registerCosts(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getCosts", Method: http.MethodGet, Path: "/api/v1/costs", Summary: "Sum up what jobs cost",
		Description: "Over whole days in UTC: of all accounts for operators and viewers, or the account's own.",
		Errors:      []int{http.StatusTooManyRequests},
	}, s.getCosts)
	serve(api, huma.Operation{
		OperationID: "getCostsFile", Method: http.MethodGet, Path: "/api/v1/costs.csv", Summary: "Sum up what jobs cost, as CSV",
		Description: "The rows of getCosts and their total, for spreadsheets. Amounts are exact decimals.",
		Errors:      []int{http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"text/csv": {Schema: &huma.Schema{Type: "string"}}}}},
	}, s.getCostsFile)
}

// costNames are the request's names of the domain's fields.
var costNames = map[string]string{"first": "limit"}

func (s *service) costs(ctx context.Context, in *CostsInput) (*query.CostReport, error) {
	p := callerOf(ctx).Principal
	ctx, read, err := s.Reads.Shares.Admit(ctx, p, query.TotalsPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	request := query.CostRequest{By: costs.Group(strings.ToUpper(in.By)), Account: models.AccountID(in.Account), First: in.Limit}
	for _, day := range []struct {
		name, text string
		to         *time.Time
	}{{"from", in.From, &request.From}, {"to", in.To, &request.To}} {
		if day.text == "" {
			continue
		}
		if *day.to, err = time.Parse(time.DateOnly, day.text); err != nil {
			return nil, apierror.Invalid(day.name, "%s must be a day such as 2027-01-31.", day.name)
		}
	}
	report, err := s.Reads.Costs.Report(ctx, p, request)
	return report, renamed(err, costNames)
}

func (s *service) getCosts(ctx context.Context, in *CostsInput) (*costsOutput, error) {
	report, err := s.costs(ctx, in)
	if err != nil {
		return nil, err
	}
	body := costReport{From: report.From, To: report.To, Total: costRowOf(report.Total), Rows: []costRow{}, More: report.More}
	for _, row := range report.Rows {
		body.Rows = append(body.Rows, costRowOf(row))
	}
	if report.Machines != nil {
		body.Machines = paidOf(report.Machines.Times())
	}
	return &costsOutput{CacheControl: "no-store", Body: body}, nil
}

func (s *service) getCostsFile(ctx context.Context, in *CostsInput) (*costsFile, error) {
	report, err := s.costs(ctx, in)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := report.WriteCSV(&file); err != nil {
		return nil, err
	}
	return &costsFile{CacheControl: "no-store", ContentType: "text/csv; charset=utf-8", Disposition: `attachment; filename="costs.csv"`,
		Body: file.Bytes()}, nil
}

// amount returns an amount in US dollars, or nil if it is unknown.
func amount(usd *decimal.Decimal) *float64 {
	if usd == nil {
		return nil
	}
	return new(usd.InexactFloat64())
}

func costRowOf(row *query.CostRow) costRow {
	return costRow{
		Key: row.Key, Name: row.Name, Attempts: row.Attempts, Completed: row.Completed, Videos: row.Videos(), UsefulSeconds: row.UsefulSeconds,
		WastedSeconds: row.WastedSeconds, ChargedUSD: row.ChargedUSD.InexactFloat64(), CostUSD: amount(row.Cost()), WastedUSD: amount(row.Wasted()),
		CostPerVideoUSD: amount(row.CostPerVideo()), Unpriced: row.Unpriced,
	}
}
