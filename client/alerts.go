package client

import "context"

// Alerts returns the alerts that fire, or if not active the newest 200 of all that fired; newest
// first. It and the other calls about alerts need an operator's key.
func (c *Client) Alerts(ctx context.Context, active bool) ([]Alert, error) {
	data, err := alerts(ctx, repeater{c}, active)
	if err != nil {
		return nil, err
	}
	return data.Alerts, nil
}

// AlertRules returns the conditions that alerts are about.
func (c *Client) AlertRules(ctx context.Context) ([]AlertRule, error) {
	data, err := alertRules(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.AlertRules, nil
}

// AlertSilences returns the silences that are not over.
func (c *Client) AlertSilences(ctx context.Context) ([]AlertSilence, error) {
	data, err := alertSilences(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.AlertSilences, nil
}

// AlertRoutes returns the receivers of alerts in the server's configuration.
func (c *Client) AlertRoutes(ctx context.Context) ([]AlertRoute, error) {
	data, err := alertRoutes(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.AlertRoutes, nil
}

// AcknowledgeAlert records that the caller is handling an alert.
func (c *Client) AcknowledgeAlert(ctx context.Context, id string) (*Alert, error) {
	data, err := acknowledgeAlert(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.AcknowledgeAlert, nil
}

// SilenceAlerts sends no alert of a rule, or of all rules without one, for 1 to 43,200 minutes.
func (c *Client) SilenceAlerts(ctx context.Context, rule string, minutes int, reason string) (*AlertSilence, error) {
	data, err := silenceAlerts(ctx, caller{c}, Optional(rule), minutes, reason)
	if err != nil {
		return nil, err
	}
	return &data.SilenceAlerts, nil
}

// EndSilence ends a silence now.
func (c *Client) EndSilence(ctx context.Context, id string) (*AlertSilence, error) {
	data, err := endSilence(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.EndSilence, nil
}

// TestAlertRoute sends a message to a receiver of alerts. It returns why that failed, or "".
func (c *Client) TestAlertRoute(ctx context.Context, name string) (string, error) {
	data, err := testAlertRoute(ctx, caller{c}, name)
	if err != nil || data.TestAlertRoute == nil {
		return "", err
	}
	return *data.TestAlertRoute, nil
}
