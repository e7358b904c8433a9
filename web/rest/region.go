package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models/regions"
	"github.com/samber/lo"
)

type regionStandby struct {
	Name        string   `json:"name"`
	State       string   `json:"state" doc:"sync or quorum if commits wait for it, potential if they may, async if they do not; empty if PostgreSQL does not say it."`
	LagSeconds  *float64 `json:"lag_seconds" doc:"By how much its replay was late when it reported last. Null if nothing was written since, or if it is not known."`
	BehindBytes *int64   `json:"behind_bytes" doc:"How much of the log it has not replayed yet. Null if it is not known."`
}

type regionPromotion struct {
	Epoch    int64      `json:"epoch"`
	Region   string     `json:"region"`
	At       time.Time  `json:"at"`
	From     string     `json:"from" doc:"The primary before. Empty for the first, and if it is not known."`
	By       string     `json:"by" doc:"Who made it, such as root@db2. Empty for the first start, and for a promotion that another region told of."`
	NewestAt *time.Time `json:"newest_at" doc:"When the newest transaction was committed that came from the primary before. Null if it is not known."`
	HeardAt  *time.Time `json:"heard_at" doc:"When the primary before was last heard. Null if it is not known."`
	Learned  bool       `json:"learned" doc:"Another region told of it, while this one was away."`
}

type regionPeer struct {
	Address    string     `json:"address"`
	Answers    bool       `json:"answers" doc:"It answered when it was asked last, and proved that it has the same secrets."`
	Region     string     `json:"region" doc:"Empty if it does not answer."`
	Serves     bool       `json:"serves" doc:"It claims to be the primary."`
	Epoch      int64      `json:"epoch"`
	AnsweredAt *time.Time `json:"answered_at" doc:"When it answered the process that responds last. Null if it never did."`
	Trouble    *string    `json:"trouble" enum:"silent,serves_too,overtaken,foreign" doc:"Null if nothing is wrong."`
	Problem    string     `json:"problem" doc:"What is wrong, in words."`
	Fix        string     `json:"fix" doc:"What to do."`
}

type regionWarning struct {
	Problem string `json:"problem"`
	Fix     string `json:"fix" doc:"What to do."`
}

type regionOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Region         string            `json:"region" doc:"The region that responds."`
		Serves         bool              `json:"serves" doc:"It is the primary."`
		Primary        string            `json:"primary" doc:"The region that was promoted last."`
		Epoch          int64             `json:"epoch" doc:"How many promotions there were."`
		Since          *time.Time        `json:"since"`
		CommitsWaitFor string            `json:"commits_wait_for" doc:"PostgreSQL's synchronous_standby_names. Empty if commits wait for no standby."`
		Standbys       []regionStandby   `json:"standbys" nullable:"false"`
		Promotions     []regionPromotion `json:"promotions" nullable:"false" doc:"The newest 20, the newest first."`
		Peers          []regionPeer      `json:"peers" nullable:"false"`
		Warnings       []regionWarning   `json:"warnings" nullable:"false" doc:"What is wrong with this region itself."`
	}
}

func (s *service) registerRegion(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getRegion", Method: http.MethodGet, Path: "/api/v1/region", Summary: "Read which region is the primary",
		Description: "For operators of an installation of two regions: what the system page of the console and `reelay region` show. NOT_FOUND if there is only one region.",
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, _ *struct{}) (*regionOutput, error) {
		if err := callerOf(ctx).RequireViewer(); err != nil {
			return nil, err
		}
		if s.Region == nil {
			return nil, apierror.NotFound("second region")
		}
		report, err := s.Region(ctx)
		if err != nil {
			return nil, apierror.Wrap(err, "read how the regions stand")
		}
		if report == nil {
			return nil, apierror.NotFound("second region")
		}
		return newRegion(report), nil
	})
}

func newRegion(r *region.Report) *regionOutput {
	out := &regionOutput{CacheControl: "no-store"}
	b := &out.Body
	b.Region, b.Serves, b.Primary, b.Epoch, b.Since, b.CommitsWaitFor = r.Region, r.Serves, r.Primary, r.Epoch, r.Since, r.CommitsWaitFor
	b.Standbys = lo.Map(r.Standbys, func(s regions.Standby, _ int) regionStandby {
		return regionStandby{s.Name, s.State, s.LagSeconds, s.BehindBytes}
	})
	b.Promotions = lo.Map(r.Promotions, func(p region.ReportedPromotion, _ int) regionPromotion {
		return regionPromotion{p.Epoch, p.Region, p.At.UTC(), p.From, p.By, p.NewestAt, p.HeardAt, p.Learned}
	})
	b.Peers = lo.Map(r.Peers, func(p region.ReportedPeer, _ int) regionPeer {
		return regionPeer{p.Address, p.Answers, p.Region, p.Serves, p.Epoch, p.AnsweredAt, lo.EmptyableToPtr(strings.ToLower(string(p.Trouble))),
			p.Problem, p.Fix}
	})
	b.Warnings = lo.Map(r.Warnings, func(w region.Warning, _ int) regionWarning { return regionWarning(w) })
	return out
}
