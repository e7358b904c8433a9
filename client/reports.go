package client

import (
	"context"
	"net/url"
	"time"
)

// Reports returns the reports of operators; retries and flakiness are of the last days (1 to 90).
func (c *Client) Reports(ctx context.Context, days int) (*Reports, error) {
	data, err := reports(ctx, repeater{c}, days)
	if err != nil {
		return nil, err
	}
	return &data.Reports, nil
}

// Statement returns what an account pays for a month such as 2026-10: the key's own account if none is given.
func (c *Client) Statement(ctx context.Context, month, account string) (*Statement, error) {
	data, err := statement(ctx, repeater{c}, month, Optional(account))
	if err != nil {
		return nil, err
	}
	return &data.Statement, nil
}

// maxStatement bounds the file of a statement, in bytes.
const maxStatement = 16 << 20

// StatementFile is Statement as a file: csv, or html for a page to print.
func (c *Client) StatementFile(ctx context.Context, month, account, format string) ([]byte, error) {
	query := url.Values{}
	if account != "" {
		query.Set("account", account)
	}
	return c.get(ctx, "/api/v1/statements/"+url.PathEscape(month)+"."+format, query.Encode(), maxStatement)
}

// ProviderTasks returns up to first attempts (1 to 200) that ended in a span of at most a day and for which a hosted
// provider had a task, after an entry of the ledger.
func (c *Client) ProviderTasks(ctx context.Context, from, to time.Time, after int64, first int) ([]ProviderTask, error) {
	data, err := providerTasks(ctx, repeater{c}, from, to, after, first)
	if err != nil {
		return nil, err
	}
	return data.ProviderTasks, nil
}
