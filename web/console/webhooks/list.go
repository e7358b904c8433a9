package webhooks

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

const (
	// endpointsShown is the number of endpoints on a page, deliveriesShown that of deliveries.
	endpointsShown  = 100
	deliveriesShown = 50
)

// webhookList is the view of the page with webhook endpoints.
type webhookList struct {
	Rows []*webhooks.Endpoint
	// Accounts are the names of the endpoints' accounts.
	Accounts map[models.AccountID]string
	// Older is the address of the next page, or "".
	Older string
	// Failures are the newest deliveries that failed.
	Failures []*webhooks.Delivery
	Now      time.Time
}

// webhookShow is the view of one endpoint's page.
type webhookShow struct {
	*webhooks.Endpoint
	Account    string
	Deliveries []*webhooks.Delivery
	Tries      map[models.WebhookDeliveryID][]*webhooks.Try
	FailedOnly bool
	// Older is the address of the next page, or "".
	Older string
	// Own is true if the endpoint is of the account of who looks at it.
	Own bool
	Now time.Time
}

// webhookForm is the view of the form for a new endpoint.
type webhookForm struct {
	Values url.Values
	Errors map[string]string
}

// webhookSecret is the view of the page that shows a secret, once.
type webhookSecret struct {
	*webhooks.Endpoint
	Secret string
	// Rotated means that the secret replaces another one.
	Rotated bool
}

func endpointID(r *http.Request) models.WebhookEndpointID {
	return models.WebhookEndpointID(r.PathValue("id"))
}

func (c *controller) webhookList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v := &webhookList{Now: time.Now()}
	rows, err := c.Reads.Webhooks.AllEndpoints(r.Context(), p, models.WebhookEndpointID(r.URL.Query().Get("after")), endpointsShown+1)
	if err != nil {
		return err
	}
	if len(rows) > endpointsShown {
		rows = rows[:endpointsShown]
		v.Older = "/webhooks?after=" + string(rows[endpointsShown-1].ID)
	}
	v.Rows = rows
	ids := make([]models.AccountID, len(rows))
	for i, e := range rows {
		ids[i] = e.AccountID
	}
	if v.Accounts, err = c.AccountNames(r.Context(), ids); err != nil {
		return err
	}
	failures, err := c.Reads.Webhooks.Deliveries(r.Context(), p, webhooks.DeliveryFilter{FailedOnly: true}, paging.Request{First: 20})
	if err != nil {
		return err
	}
	v.Failures = failures.Items
	return shell.Render(w, r, http.StatusOK, webhookListPage(v))
}

func (c *controller) webhookShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readEndpoint(r.Context(), p, endpointID(r))
	if err != nil {
		return err
	}
	v.FailedOnly = r.URL.Query().Get("failed") == "1"
	page, err := c.Reads.Webhooks.Deliveries(r.Context(), p, webhooks.DeliveryFilter{EndpointID: v.ID, FailedOnly: v.FailedOnly},
		paging.Request{First: deliveriesShown, After: r.URL.Query().Get("after")})
	if err != nil {
		return err
	}
	v.Deliveries = page.Items
	if page.More {
		v.Older = address.Webhook(v.ID) + "?" + url.Values{"after": {page.End}, "failed": {r.URL.Query().Get("failed")}}.Encode()
	}
	if v.Tries, err = ReadTries(r.Context(), c.Reads, p, v.Deliveries); err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, webhookShowPage(v))
}

func (c *controller) readEndpoint(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) (*webhookShow, error) {
	endpoint, err := c.Reads.Webhooks.Endpoint(ctx, p, id)
	if err != nil {
		return nil, err
	}
	names, err := c.AccountNames(ctx, []models.AccountID{endpoint.AccountID})
	return &webhookShow{Endpoint: endpoint, Account: names[endpoint.AccountID], Own: endpoint.AccountID == p.AccountID,
		Now: time.Now()}, err
}

func (c *controller) webhookNew(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, webhookNewPage(&webhookForm{Values: url.Values{"id": {string(models.NewWebhookEndpointID())},
		"format": {string(webhooks.FormatStandard)}}}))
}

// webhookCreate makes an endpoint of the operator's own account, and shows its secret.
func (c *controller) webhookCreate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	format := webhooks.Format(r.PostForm.Get("format"))
	if change.WebhookEvents[format] == nil {
		format = webhooks.FormatStandard
	}
	endpoint, secret, err := c.Webhooks.CreateEndpointOnce(r.Context(), p, models.WebhookEndpointID(r.PostForm.Get("id")),
		r.PostForm.Get("url"), format, r.PostForm["events"])
	var refused *apierror.Error
	if errors.As(err, &refused) && (refused.Code == apierror.CodeInvalidInput || refused.Code == apierror.CodeConflict) {
		return shell.Render(w, r, http.StatusUnprocessableEntity,
			webhookNewPage(&webhookForm{r.PostForm, map[string]string{refused.Field: refused.Message}}))
	}
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, webhookSecretPage(&webhookSecret{endpoint, secret, false}))
}

func (c *controller) webhookRotateAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readEndpoint(r.Context(), p, endpointID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, webhookRotatePage(v))
}

func (c *controller) webhookDeleteAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readEndpoint(r.Context(), p, endpointID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, webhookDeletePage(v))
}

func (c *controller) webhookRotate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	endpoint, secret, err := c.Webhooks.RotateSecret(r.Context(), p, endpointID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, webhookSecretPage(&webhookSecret{endpoint, secret, true}))
}

func (c *controller) webhookDelete(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	err := c.Webhooks.DeleteEndpoint(r.Context(), p, endpointID(r))
	if err != nil && !apierror.HasCode(err, apierror.CodeNotFound) { // a second click finds it deleted
		return err
	}
	return c.Done(w, r, "/webhooks", "The endpoint was deleted.")
}

func (c *controller) webhookDisableAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readEndpoint(r.Context(), p, endpointID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, webhookDisablePage(v))
}

func (c *controller) webhookDisable(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if _, err := c.Webhooks.DisableEndpoint(r.Context(), p, endpointID(r)); err != nil {
		return err
	}
	return c.Done(w, r, address.Webhook(endpointID(r)), "The endpoint is disabled.")
}

func (c *controller) webhookEnable(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if _, err := c.Webhooks.EnableEndpoint(r.Context(), p, endpointID(r)); err != nil {
		return err
	}
	return c.Done(w, r, address.Webhook(endpointID(r)), "The endpoint is enabled.")
}

func (c *controller) webhookTest(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if _, err := c.Webhooks.Test(r.Context(), p, endpointID(r)); err != nil {
		return err
	}
	return c.Done(w, r, address.Webhook(endpointID(r)), "A test is on its way. Reload the page to see the result.")
}
