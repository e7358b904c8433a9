package model

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// modelList is the view of the page with the catalogue.
type modelList struct {
	Models  []query.ModelStatus
	Aliases []*catalogue.Alias
	Removed []catalogue.Removed
	// Keys are the names of those who removed them.
	Keys shell.KeyNames
	// MayChange is true for an ADMIN.
	MayChange bool
	Now       time.Time
}

func (c *controller) modelList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	known := c.Reads.Models.Catalogue.Current().For(p.Scope())
	found, err := c.Reads.Models.List(r.Context(), known)
	if err != nil {
		return err
	}
	v := &modelList{Models: found, Aliases: known.Aliases(), Removed: known.Removals(), MayChange: p.May(access.RoleAdmin), Now: time.Now()}
	if v.Keys, err = c.KeyNames(r.Context(), p, lo.Map(v.Removed,
		func(m catalogue.Removed, _ int) string { return m.RemovedBy })...); err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, modelListPage(v))
}

// modelShow is the view of one version of a model.
type modelShow struct {
	*query.ModelStatus
	// Newest is the current version; 0 if the model was removed.
	Newest int
	// Keys has the name of who removed it.
	Keys      shell.KeyNames
	MayChange bool
	Now       time.Time
}

func (c *controller) modelShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	version, _ := strconv.Atoi(r.URL.Query().Get("version")) // an invalid one is the current one
	known := c.Reads.Models.Catalogue.Current().For(p.Scope())
	found, err := c.Reads.Models.Get(r.Context(), known, r.PathValue("id"), version)
	if err != nil {
		return err
	}
	if found == nil {
		return apierror.NotFound("model")
	}
	v := &modelShow{ModelStatus: found, MayChange: p.May(access.RoleAdmin), Now: time.Now()}
	if newest := known.Find(found.Name, 0); newest != nil {
		v.Newest = newest.Version
	}
	if v.Keys, err = c.KeyNames(r.Context(), p, v.RemovedBy); err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, modelShowPage(v))
}

// modelStateHelp says what a state means.
func modelStateHelp(s query.ModelState) string {
	switch s {
	case query.ModelAvailable:
		return "A worker that can run it is registered"
	case query.ModelNoWorker:
		return "A pool names it or jobs wait for it, and no worker can run it"
	}
	return "No pool names it and no job waits for it"
}

// versions lists the other versions of a model, newest first.
func (v *modelShow) versions() []int {
	var others []int
	for n := max(v.Newest, v.Version); n >= 1 && len(others) < 20; n-- {
		if n != v.Version {
			others = append(others, n)
		}
	}
	return others
}

// needs says in one line what a worker must have.
func needs(m *catalogue.Model) string {
	text := strings.Join(m.GPUTypes, ", ")
	if m.GPUMemoryGB > 0 {
		text += fmt.Sprintf(" with %g GB", m.GPUMemoryGB)
	}
	if m.GPUsPerWorker > 1 {
		text += fmt.Sprintf(", %d GPUs", m.GPUsPerWorker)
	}
	return text
}

// modelApply is the view of the form that changes the catalogue.
type modelApply struct {
	Source string
	Error  string
	// Changes is what the source would change, once it was checked.
	Changes []*catalogue.Change
}

// changing reports whether applying the source would change anything.
func (v *modelApply) changing() bool {
	for _, c := range v.Changes {
		if c.Kind != catalogue.Unchanged {
			return true
		}
	}
	return false
}

func (c *controller) modelApplyForm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := p.RequireAdmin(); err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, modelApplyPage(&modelApply{}))
}

// modelApply shows what a source would change, and changes it when that is confirmed.
func (c *controller) modelApply(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v := &modelApply{Source: strings.ReplaceAll(r.PostForm.Get("source"), "\r\n", "\n")}
	confirmed := r.PostForm.Get("confirmed") != ""
	var err error
	v.Changes, err = c.Registry.Apply(r.Context(), p, registry.Application{File: "models.yaml", Source: v.Source, DryRun: !confirmed})
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused) && refused.Field == "source":
		v.Error = refused.Message
		return shell.Render(w, r, http.StatusUnprocessableEntity, modelApplyPage(v))
	case err != nil:
		return err
	case confirmed:
		return c.Done(w, r, "/models", "The catalogue is changed.")
	}
	return shell.Render(w, r, http.StatusOK, modelApplyPage(v))
}

// modelConfirm asks before a model or an alias is removed.
func (c *controller) modelConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := p.RequireAdmin(); err != nil {
		return err
	}
	uses, err := c.Registry.Uses(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, modelRemovePage(r.PathValue("id"), uses))
}

func (c *controller) modelRemove(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := c.Registry.Remove(r.Context(), p, r.PathValue("id"), r.PostFormValue("fromPools") != ""); err != nil {
		return err
	}
	return c.Done(w, r, "/models", "Removed "+r.PathValue("id")+".")
}

func (c *controller) modelRestore(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	restored, err := c.Registry.Restore(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	return c.Done(w, r, "/models", fmt.Sprintf("Restored version %d of %s. Add it again to the pools from which it was removed.",
		restored.Version, restored.Name))
}
