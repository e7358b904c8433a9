package graph

import (
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/models"
)

// CreatedWebhookEndpoint is an endpoint with its secret, which is shown only
// here.
type CreatedWebhookEndpoint struct {
	Endpoint *models.WebhookEndpoint
	Secret   string
}

func createdEndpoint(endpoint *models.WebhookEndpoint, secret string, err error) (*CreatedWebhookEndpoint, error) {
	if err != nil {
		return nil, err
	}
	return &CreatedWebhookEndpoint{endpoint, secret}, nil
}

// WebhookDeliveryEdge is one delivery of a list.
type WebhookDeliveryEdge struct {
	Cursor string
	Node   *models.WebhookDelivery
}

// WebhookDeliveryConnection is one page of deliveries.
type WebhookDeliveryConnection struct {
	Edges    []*WebhookDeliveryEdge
	PageInfo *PageInfo
}

func deliveryConnection(page *paging.Page[*models.WebhookDelivery]) *WebhookDeliveryConnection {
	edges, info := connect(page, func(cursor string, d *models.WebhookDelivery) *WebhookDeliveryEdge {
		return &WebhookDeliveryEdge{cursor, d}
	})
	return &WebhookDeliveryConnection{edges, info}
}
