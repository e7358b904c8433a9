package client

import "context"

// WebhookEndpoints returns the webhook endpoints of the caller's account, oldest first.
func (c *Client) WebhookEndpoints(ctx context.Context) ([]WebhookEndpoint, error) {
	data, err := webhookEndpoints(ctx, caller{c})
	if err != nil {
		return nil, err
	}
	return data.WebhookEndpoints, nil
}

// WebhookFilter selects deliveries. An empty field selects all.
type WebhookFilter struct {
	JobID, EndpointID string
	// FailedOnly selects deliveries that failed, finally or so far.
	FailedOnly bool
}

// WebhookDeliveries returns one page of deliveries, newest first: at most first of them
// (0 means 50), after the cursor after.
func (c *Client) WebhookDeliveries(ctx context.Context, f WebhookFilter, first int, after string) (*WebhookDeliveryPage, error) {
	data, err := webhookDeliveries(ctx, caller{c}, Optional(f.JobID), Optional(f.EndpointID), &f.FailedOnly, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.WebhookDeliveries, nil
}

// CreateWebhookEndpoint creates an endpoint that is notified when the account's jobs
// end. Without events it receives all events of the format. Its secret is returned only
// here.
func (c *Client) CreateWebhookEndpoint(ctx context.Context, url string, format WebhookFormat, events []string) (*CreatedWebhookEndpoint,
	error) {
	data, err := createWebhookEndpoint(ctx, caller{c}, url, events, format)
	if err != nil {
		return nil, err
	}
	return &data.CreateWebhookEndpoint, nil
}

// CreateBucketEndpoint delivers the videos of the account's completed jobs into a bucket of its own, such as
// s3://BUCKET/FOLDER/?region=…. A test object is written there first.
func (c *Client) CreateBucketEndpoint(ctx context.Context, url string, keys BucketKeysInput) (*WebhookEndpoint, error) {
	data, err := createBucketEndpoint(ctx, caller{c}, url, keys)
	if err != nil {
		return nil, err
	}
	return &data.CreateBucketEndpoint, nil
}

// SetBucketKeys replaces the keys of a bucket, after a test.
func (c *Client) SetBucketKeys(ctx context.Context, id string, keys BucketKeysInput) (*WebhookEndpoint, error) {
	data, err := setBucketKeys(ctx, caller{c}, id, keys)
	if err != nil {
		return nil, err
	}
	return &data.SetBucketKeys, nil
}

// RotateWebhookSecret replaces the secret of an endpoint. The old one also signs for 24
// hours.
func (c *Client) RotateWebhookSecret(ctx context.Context, id string) (*CreatedWebhookEndpoint, error) {
	data, err := rotateWebhookSecret(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.RotateWebhookSecret, nil
}

// RotateAccountWebhookSecret replaces the secret that signs the callbacks of single
// jobs. The old one also signs for 24 hours.
func (c *Client) RotateAccountWebhookSecret(ctx context.Context) (string, error) {
	data, err := rotateAccountWebhookSecret(ctx, caller{c})
	if err != nil {
		return "", err
	}
	return data.RotateAccountWebhookSecret, nil
}

// DeleteWebhookEndpoint deletes an endpoint.
func (c *Client) DeleteWebhookEndpoint(ctx context.Context, id string) error {
	_, err := deleteWebhookEndpoint(ctx, caller{c}, id)
	return err
}

// EnableWebhookEndpoint enables a disabled endpoint.
func (c *Client) EnableWebhookEndpoint(ctx context.Context, id string) (*WebhookEndpoint, error) {
	data, err := enableWebhookEndpoint(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.EnableWebhookEndpoint, nil
}

// DisableWebhookEndpoint disables an endpoint until EnableWebhookEndpoint. Its pending deliveries
// are given up.
func (c *Client) DisableWebhookEndpoint(ctx context.Context, id string) (*WebhookEndpoint, error) {
	data, err := disableWebhookEndpoint(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.DisableWebhookEndpoint, nil
}

// SendTestWebhook sends a signed webhook.test to an endpoint, once. WebhookDeliveries
// returns the outcome.
func (c *Client) SendTestWebhook(ctx context.Context, endpointID string) (*WebhookDelivery, error) {
	data, err := sendTestWebhook(ctx, caller{c}, endpointID)
	if err != nil {
		return nil, err
	}
	return &data.SendTestWebhook, nil
}

// RedeliverWebhook sends a delivery again.
func (c *Client) RedeliverWebhook(ctx context.Context, id string) (*WebhookDelivery, error) {
	data, err := redeliverWebhook(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.RedeliverWebhook, nil
}
