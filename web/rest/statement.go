package rest

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
	"github.com/reelay/reelay/web/statement"
	"github.com/samber/lo"
)

// StatementInput asks for a statement.
type StatementInput struct {
	Month   string `path:"month" doc:"A month, in the time zone of the account. With .csv at its end the answer is CSV, and with .html a page to print." example:"2026-10"`
	Account string `query:"account" doc:"An account, by id. For operators and viewers: an account has its own."`
}

type statementPart struct {
	By   string    `json:"by" enum:"day,model,user,type"`
	Rows []costRow `json:"rows" nullable:"false" doc:"The dearest first, but days in their order. Beyond 5,000, the last row is that of all others."`
}

// Statement is what an account pays for a month.
type Statement struct {
	AccountID   models.AccountID `json:"account_id"`
	AccountName string           `json:"account_name"`
	Month       string           `json:"month"`
	From        time.Time        `json:"from"`
	To          time.Time        `json:"to" doc:"The begin of the next month."`
	TimeZone    string           `json:"time_zone"`
	Complete    bool             `json:"complete" doc:"False while entries can still be added: until an hour after the end of the month."`
	Total       costRow          `json:"total"`
	Parts       []statementPart  `json:"parts" nullable:"false" doc:"By day, model, user and type. The rows of each add up to the total."`
}

func (s *service) registerStatements(api huma.API) {
	text := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Statement](), true, "Statement")
	serve(api, huma.Operation{
		OperationID: "getStatement", Method: http.MethodGet, Path: "/api/v1/statements/{month}", Summary: "Read the statement of a month",
		Description: "What an account pays for a month: the useful time of its jobs that completed, by day, model, user and type.",
		Errors:      []int{http.StatusNotFound, http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: "The statement", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schema}, "text/csv": text, "text/html": text}}},
	}, s.getStatement)
}

func (s *service) getStatement(ctx context.Context, in *StatementInput) (*huma.StreamResponse, error) {
	p := callerOf(ctx).Principal
	ctx, read, err := s.Reads.Shares.Admit(ctx, p, query.TotalsPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	month, csv := strings.CutSuffix(in.Month, ".csv")
	month, html := strings.CutSuffix(month, ".html")
	found, err := s.Reads.Costs.Statement(ctx, p, query.StatementRequest{Account: models.AccountID(in.Account), Month: month})
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	media, header := "application/json", http.Header{"Cache-Control": {"no-store"}}
	switch {
	case csv:
		media = "text/csv; charset=utf-8"
		header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": found.FileName("csv")}))
		err = found.WriteCSV(&file)
	case html:
		media = "text/html; charset=utf-8"
		header.Set("Content-Security-Policy", statement.Policy)
		header.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": found.FileName("html")}))
		err = statement.Write(&file, found, time.Now())
	default:
		err = door.WriteJSON(&file, statementOf(found))
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		out.SetHeader("Content-Type", media)
		for name := range header {
			out.SetHeader(name, header.Get(name))
		}
		out.SetStatus(http.StatusOK)
		_, _ = file.WriteTo(out.BodyWriter())
	}}, err
}

func statementOf(s *query.Statement) Statement {
	return Statement{
		AccountID: s.Account.ID, AccountName: s.Account.Name, Month: s.Month, From: s.From, To: s.To, TimeZone: s.Zone.String(), Complete: s.Complete,
		Total: costRowOf(s.Total),
		Parts: lo.Map(s.Parts, func(part *query.StatementPart, _ int) statementPart {
			return statementPart{strings.ToLower(string(part.By)), lo.Map(part.Rows, func(row *query.CostRow, _ int) costRow { return costRowOf(row) })}
		}),
	}
}
