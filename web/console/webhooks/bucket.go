package webhooks

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

// bucketForm is the view of the form for a bucket, or for its keys if Endpoint is set.
type bucketForm struct {
	Endpoint *webhookShow
	Values   url.Values
	Errors   map[string]string
}

// action is where the form is sent.
func (f *bucketForm) action() string {
	if f.Endpoint != nil {
		return address.Webhook(f.Endpoint.ID) + "/keys"
	}
	return "/webhooks/bucket"
}

func keysOf(r *http.Request) webhook.BucketKeys {
	return webhook.BucketKeys{
		AccessKey: r.PostForm.Get("accessKey"), SecretKey: r.PostForm.Get("secretKey"), ServiceAccount: r.PostForm.Get("serviceAccount"),
	}
}

func (c *controller) bucketNew(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, bucketPage(&bucketForm{Values: url.Values{"id": {string(models.NewWebhookEndpointID())}}}))
}

// bucketCreate makes a bucket of the operator's own account an endpoint.
func (c *controller) bucketCreate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	endpoint, err := c.Webhooks.CreateBucketEndpoint(r.Context(), p, models.WebhookEndpointID(r.PostForm.Get("id")), r.PostForm.Get("url"),
		keysOf(r))
	if err != nil {
		return c.bucketRefused(w, r, nil, err)
	}
	return c.Done(w, r, address.Webhook(endpoint.ID), "A test object was written into the bucket. It gets the videos of jobs from now on.")
}

// bucketRefused shows the form again, without the secrets.
func (c *controller) bucketRefused(w http.ResponseWriter, r *http.Request, endpoint *webhookShow, err error) error {
	var refused *apierror.Error
	if !errors.As(err, &refused) || refused.Code != apierror.CodeInvalidInput && refused.Code != apierror.CodeConflict {
		return err
	}
	values := r.PostForm
	values.Del("secretKey")
	values.Del("serviceAccount")
	form := &bucketForm{endpoint, values, map[string]string{refused.Field: refused.Message}}
	return shell.Render(w, r, http.StatusUnprocessableEntity, bucketPage(form))
}

func (c *controller) bucketKeys(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readEndpoint(r.Context(), p, endpointID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, bucketPage(&bucketForm{Endpoint: v, Values: url.Values{}}))
}

func (c *controller) bucketSetKeys(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v, err := c.readEndpoint(r.Context(), p, endpointID(r))
	if err != nil {
		return err
	}
	if _, err := c.Webhooks.SetBucketKeys(r.Context(), p, v.ID, keysOf(r)); err != nil {
		return c.bucketRefused(w, r, v, err)
	}
	return c.Done(w, r, address.Webhook(v.ID), "The bucket has new keys.")
}
