package query

import (
	"context"
	"net/url"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/uptrace/bun"
)

// Views keeps lists of jobs that people named. A view belongs to a member or to a key, and may
// be shared with all operators and viewers.
type Views struct {
	DB *bun.DB
}

const (
	maxViews     = 200
	maxViewName  = 80
	maxViewQuery = 4000
)

// ViewInput is a view to save.
type ViewInput struct {
	// ID is the view to change; "" makes a new one.
	ID     models.ViewID
	Name   string
	Query  string
	Shared bool
}

// ownerOf returns the owner of the caller's views.
func ownerOf(p jobs.Principal) string {
	if p.Member != nil {
		return string(p.Member.ID)
	}
	return string(p.KeyID)
}

// List returns the caller's views and the shared ones, by name.
func (v *Views) List(ctx context.Context, p jobs.Principal) ([]*joblist.SavedView, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	found, err := joblist.ListSavedViews(ctx, v.DB, ownerOf(p), 2*maxViews)
	return found, apierror.Wrap(err, "list saved views")
}

// Get returns a view that the caller sees, or NOT_FOUND.
func (v *Views) Get(ctx context.Context, p jobs.Principal, id models.ViewID) (*joblist.SavedView, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("view")
	}
	found, err := joblist.GetSavedView(ctx, v.DB, ownerOf(p), id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "view"), "read view %s", id)
	}
	return found, nil
}

// Mine reports whether the caller made a view.
func (*Views) Mine(p jobs.Principal, v *joblist.SavedView) bool { return v.Owner == ownerOf(p) }

// Save makes or changes a view. Operators may change shared views of others. It returns
// CONFLICT for a name that is taken, and QUOTA_EXCEEDED if the caller has too many views.
func (v *Views) Save(ctx context.Context, p jobs.Principal, in ViewInput) (*joblist.SavedView, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	view := &joblist.SavedView{ID: models.NewViewID(), Owner: ownerOf(p)}
	if in.ID != "" {
		var err error
		if view, err = v.Get(ctx, p, in.ID); err != nil {
			return nil, err
		}
	}
	view.Name, view.Query, view.Shared = in.Name, in.Query, in.Shared
	err := jobs.InTx(ctx, v.DB, func(ctx context.Context, tx bun.Tx) error {
		taken, err := joblist.IsViewNameTaken(ctx, tx, view)
		if err != nil {
			return err
		}
		if taken {
			return apierror.Conflict("A view named %q already exists: choose another name.", text.Clip(in.Name, maxViewName))
		}
		if in.ID == "" {
			if n, err := joblist.CountSavedViews(ctx, tx, view.Owner); err != nil || n >= maxViews {
				return cmpErr(err, apierror.New(apierror.CodeQuotaExceeded, "You have %d views: delete one first.", n))
			}
		}
		if err := joblist.PutSavedView(ctx, tx, view); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "saveView", string(view.ID), jobs.Payload{"name": view.Name, "query": view.Query, "shared": view.Shared})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "save a view")
	}
	return view, nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// check returns INVALID_INPUT for what cannot be saved. A query that does not parse can: the
// view says so when it is opened.
func (in ViewInput) check() error {
	if !text.Valid(in.Name, 1, maxViewName) {
		return apierror.Invalid("name", "A view needs a name of 1 to %d printable characters.", maxViewName)
	}
	if len(in.Query) > maxViewQuery {
		return apierror.Invalid("query", "The query of a view may have %d bytes; this one has %d.", maxViewQuery, len(in.Query))
	}
	if _, err := url.ParseQuery(in.Query); err != nil || !text.Valid(in.Query, 0, maxViewQuery) {
		return apierror.Invalid("query", "The query of a view is the query string of the list's address, such as q=age%%3A%%3C1d&status=FAILED.")
	}
	return nil
}

// Delete deletes a view of the caller, or as an operator a shared one. It returns NOT_FOUND for
// a view that the caller does not see.
func (v *Views) Delete(ctx context.Context, p jobs.Principal, id models.ViewID) error {
	if err := p.RequireOperator(); err != nil {
		return err
	}
	view, err := v.Get(ctx, p, id)
	if err != nil {
		return err
	}
	err = jobs.InTx(ctx, v.DB, func(ctx context.Context, tx bun.Tx) error {
		if deleted, err := joblist.DeleteSavedView(ctx, tx, id); err != nil || !deleted {
			return err
		}
		return p.Audit(ctx, tx, "deleteView", string(id), jobs.Payload{"name": view.Name, "query": view.Query, "shared": view.Shared})
	})
	return apierror.Wrap(err, "delete view %s", id)
}
