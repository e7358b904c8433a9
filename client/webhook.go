package client

import "context"

// WebhookEndpoints lists where the caller's account wants to hear of its jobs'
// ends, oldest first.
func (c *Client) WebhookEndpoints(ctx context.Context) ([]WebhookEndpoint, error) {
	data, err := webhookEndpoints(ctx, caller{c})
	if err != nil {
		return nil, err
	}
	return data.WebhookEndpoints, nil
}

// WebhookFilter narrows a list of deliveries; what is empty does not narrow.
type WebhookFilter struct {
	JobID, EndpointID string
	// FailedOnly asks for those that failed so far, or for good.
	FailedOnly bool
}

// WebhookDeliveries returns one page of deliveries, newest first: at most first
// of them (50 if it is 0), from behind the cursor after on.
func (c *Client) WebhookDeliveries(ctx context.Context, f WebhookFilter, first int, after string) (*WebhookDeliveryPage, error) {
	data, err := webhookDeliveries(ctx, caller{c}, optional(f.JobID), optional(f.EndpointID), &f.FailedOnly, optional(first), optional(after))
	if err != nil {
		return nil, err
	}
	return &data.WebhookDeliveries, nil
}

// CreateWebhookEndpoint has the ends of the account's jobs be told to a URL. No
// events are all of the format's. The secret is shown only now.
func (c *Client) CreateWebhookEndpoint(ctx context.Context, url string, format WebhookFormat, events []string) (*CreatedWebhookEndpoint, error) {
	data, err := createWebhookEndpoint(ctx, caller{c}, url, events, format)
	if err != nil {
		return nil, err
	}
	return &data.CreateWebhookEndpoint, nil
}

// RotateWebhookSecret gives an endpoint a new secret; the old one signs too for
// 24 hours.
func (c *Client) RotateWebhookSecret(ctx context.Context, id string) (*CreatedWebhookEndpoint, error) {
	data, err := rotateWebhookSecret(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.RotateWebhookSecret, nil
}

// RotateAccountWebhookSecret makes the secret that signs the callbacks of single
// jobs anew; the old one signs too for 24 hours.
func (c *Client) RotateAccountWebhookSecret(ctx context.Context) (string, error) {
	data, err := rotateAccountWebhookSecret(ctx, caller{c})
	if err != nil {
		return "", err
	}
	return data.RotateAccountWebhookSecret, nil
}

// DeleteWebhookEndpoint ends that an endpoint is told anything.
func (c *Client) DeleteWebhookEndpoint(ctx context.Context, id string) error {
	_, err := deleteWebhookEndpoint(ctx, caller{c}, id)
	return err
}

// EnableWebhookEndpoint has an endpoint be told again that was disabled.
func (c *Client) EnableWebhookEndpoint(ctx context.Context, id string) (*WebhookEndpoint, error) {
	data, err := enableWebhookEndpoint(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.EnableWebhookEndpoint, nil
}

// SendTestWebhook sends an endpoint a signed webhook.test, in one try;
// WebhookDeliveries tells what came of it.
func (c *Client) SendTestWebhook(ctx context.Context, endpointID string) (*WebhookDelivery, error) {
	data, err := sendTestWebhook(ctx, caller{c}, endpointID)
	if err != nil {
		return nil, err
	}
	return &data.SendTestWebhook, nil
}

// RedeliverWebhook sends a delivery once more.
func (c *Client) RedeliverWebhook(ctx context.Context, id string) (*WebhookDelivery, error) {
	data, err := redeliverWebhook(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.RedeliverWebhook, nil
}
