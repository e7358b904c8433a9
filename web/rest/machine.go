package rest

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// MachinesInput narrows the ledger of machines and asks for one page of it.
type MachinesInput struct {
	Pool       string `query:"pool" doc:"Return only machines of this pool, by name or id. A deleted pool has only its id."`
	State      string `query:"state" doc:"Filter by state (comma-separated, in any case): asked, booting, running, ending, missing, gone." example:"running,missing"`
	InstanceID string `query:"instance_id" doc:"Return only the machine with this name at its provider, as on a bill."`
	Limit      int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The maximum number of machines on a page."`
	After      string `query:"after" doc:"The next of the page before. All other parameters must be the same as for that page."`
}

// machine is a machine of the ledger.
type machine struct {
	ID              string            `json:"id"`
	PoolID          models.PoolID     `json:"pool_id"`
	Pool            string            `json:"pool" doc:"The pool's name."`
	Provider        string            `json:"provider"`
	InstanceID      string            `json:"instance_id" doc:"The provider's name of the machine, as on its bill."`
	Workers         int               `json:"workers" doc:"How many workers it runs. The price of a pool is that of one."`
	State           string            `json:"state" enum:"asked,booting,running,ending,missing,gone" doc:"asked: the provider has not confirmed it. booting: no worker has registered from it. ending: its deletion was asked for. missing: the provider's lists lack it, and it is not certain yet that it is gone. gone: it does not exist any more, or was never made (created_at is null)."`
	AskedAt         time.Time         `json:"asked_at" doc:"When the scaler was about to ask for it, or a list had it first."`
	CreatedAt       *time.Time        `json:"created_at" doc:"Since when it is paid for. Null until the provider has confirmed it."`
	RegisteredAt    *time.Time        `json:"registered_at" doc:"When its first worker registered."`
	DeletionAskedAt *time.Time        `json:"deletion_asked_at" doc:"When its deletion was first asked for."`
	DeletedAt       *time.Time        `json:"deleted_at" doc:"When the provider confirmed its deletion."`
	ListedAt        *time.Time        `json:"listed_at" doc:"When a list of the provider last had it, as far as that was noted."`
	MissingAt       *time.Time        `json:"missing_at" doc:"Since when the lists lack it or say that it has ended. Null if the newest has it."`
	SilentSince     *time.Time        `json:"silent_since" doc:"The last sign of life of its workers before missing_at, if they were silent then."`
	GoneAt          *time.Time        `json:"gone_at" doc:"When it was clear that it does not exist any more."`
	BilledUntil     *time.Time        `json:"billed_until" doc:"Until when it was paid for. Null while it is."`
	PaidSeconds     float64           `json:"paid_seconds" doc:"For how long it was paid for until now or billed_until, times workers."`
	CostUSD         float64           `json:"cost_usd" doc:"What that cost, at each time at the price that the pool had then. 0 if the pool has no price."`
	WorkerIDs       []models.WorkerID `json:"worker_ids" nullable:"false" doc:"The workers that run or ran on it, newest first: at most 100 of those that are kept."`
}

type machineList struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Machines []machine `json:"machines" nullable:"false" doc:"Those that were asked for last come first."`
		Next     *string   `json:"next" doc:"Pass it as after to read the next page. Null after the last page."`
	}
}

// machineNames are the request's names of the domain's fields.
var machineNames = map[string]string{"filter.states": "state", "filter.instanceId": "instance_id"}

func (s *service) registerMachines(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "listMachines", Method: http.MethodGet, Path: "/api/v1/machines", Summary: "List the machines that providers were asked for",
		Description: "For operators: a ledger, to compare with the bill of a cloud. Machines are kept for 90 days after their end.",
		Errors:      []int{http.StatusNotFound, http.StatusTooManyRequests},
	}, s.listMachines)
}

func (s *service) listMachines(ctx context.Context, in *MachinesInput) (*machineList, error) {
	p := callerOf(ctx).Principal
	ctx, read, err := s.Reads.Shares.Admit(ctx, p, query.PagePrice(in.Limit))
	if err != nil {
		return nil, err
	}
	defer read.End()
	f := capacity.MachineFilter{PoolID: models.PoolID(in.Pool), InstanceID: in.InstanceID}
	if f.States, err = readNames("state", in.State, capacity.MachineStates); err != nil {
		return nil, err
	}
	page, err := s.Reads.Fleet.Machines(ctx, p, f, paging.Request{First: in.Limit, After: in.After})
	if err != nil {
		return nil, renamed(err, machineNames)
	}
	out := &machineList{CacheControl: "no-store"}
	out.Body.Machines = make([]machine, len(page.Items))
	for i, m := range page.Items {
		out.Body.Machines[i] = machine{
			ID: strconv.FormatInt(m.ID, 10), PoolID: m.PoolID, Pool: m.PoolName, Provider: m.Provider, InstanceID: m.InstanceID,
			Workers: m.Workers, State: strings.ToLower(string(m.State)), AskedAt: m.AskedAt.UTC(), CreatedAt: wire.KnownTime(m.CreatedAt),
			RegisteredAt: wire.KnownTime(m.RegisteredAt), DeletionAskedAt: wire.KnownTime(m.ToldAt), DeletedAt: wire.KnownTime(m.DeletedAt),
			ListedAt: wire.KnownTime(m.ListedAt), MissingAt: wire.KnownTime(m.MissingAt), SilentSince: wire.KnownTime(m.SpokeAt),
			GoneAt: wire.KnownTime(m.GoneAt), BilledUntil: wire.KnownTime(m.BilledUntil), PaidSeconds: m.PaidSeconds, CostUSD: m.CostUSD,
			WorkerIDs: m.WorkerIDs,
		}
	}
	if page.More {
		out.Body.Next = &page.End
	}
	return out, nil
}
