package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// WebhooksCommand returns `reelay webhooks`.
func WebhooksCommand() *cobra.Command {
	cmd := listWebhooks(&cobra.Command{
		Use:   "webhooks",
		Short: "Manage webhook endpoints and deliveries",
		Long: "Lists the endpoints that are notified when the account's jobs end. Its subcommands change them, and show the\n" +
			"deliveries to them. docs/users/webhooks.md describes the events and how to verify them.",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(listWebhooks(&cobra.Command{Use: "list", Short: "List the endpoints", Args: cobra.NoArgs}),
		webhooksCreateCommand(), webhooksBucketCommand(), webhooksKeysCommand(),
		webhooksRotateCommand(), webhooksDeleteCommand(),
		webhooksDisableCommand(), webhooksEnableCommand(), webhooksTestCommand(), webhooksDeliveriesCommand(), webhooksRedeliverCommand())
	return cmd
}

func listWebhooks(cmd *cobra.Command) *cobra.Command {
	list := &connect.Lister[client.WebhookEndpoint]{
		Table: webhookTable, Whole: true,
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.WebhookEndpoint], error) {
			return output.Complete(c.WebhookEndpoints(ctx))
		},
	}
	return list.Command(cmd)
}

var webhookTable = output.Table[client.WebhookEndpoint]{
	Columns: []output.Column[client.WebhookEndpoint]{
		{Title: "ENDPOINT", Kind: output.ID, Value: func(e client.WebhookEndpoint) any { return e.Id }},
		{Title: "URL", Kind: output.Long, Value: func(e client.WebhookEndpoint) any { return e.Url }},
		{Title: "FORMAT", Value: func(e client.WebhookEndpoint) any { return strings.ToLower(string(e.Format)) }},
		{Title: "EVENTS", Kind: output.Long, Value: func(e client.WebhookEndpoint) any { return e.Events }},
		{Title: "CREATED", Value: func(e client.WebhookEndpoint) any { return e.CreatedAt }},
		{Title: "STATE", Kind: output.State, Value: func(e client.WebhookEndpoint) any {
			if e.Disabled {
				return "disabled: " + output.OrDash(e.DisabledReason)
			}
			return "enabled"
		}},
	},
	Name: func(e client.WebhookEndpoint) string { return e.Id },
	None: "No webhook endpoints.",
}

func webhooksCreateCommand() *cobra.Command {
	var events []string
	var openAI bool
	cmd := &cobra.Command{
		Use:     "create URL",
		Short:   "Send a webhook to a URL when a job ends",
		Example: "  reelay webhooks create https://example.com/hook --events job.completed,job.failed",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringSliceVar(&events, "events", nil,
		"job.completed, job.failed, job.cancelled, workflow.completed, workflow.failed, workflow.cancelled, workflow.approval_requested (default: all)")
	cmd.Flags().BoolVar(&openAI, "openai", false, "send the bodies of OpenAI's webhooks (video.completed, video.failed)")
	return new(connect.Call).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		format := client.WebhookFormatStandard
		if openAI {
			format = client.WebhookFormatOpenai
		}
		made, err := c.CreateWebhookEndpoint(ctx, args[0], format, events)
		if err != nil {
			return nil, nil, err
		}
		return made, output.Line("%s is enabled. Store its secret now, it is not shown again: %s", made.Endpoint.Id, made.Secret), nil
	})
}

func webhooksRotateCommand() *cobra.Command {
	var account bool
	cmd := &cobra.Command{
		Use:   "rotate ENDPOINT | --account",
		Short: "Replace a secret; the old one also signs for 24 hours",
		Args: func(cmd *cobra.Command, args []string) error {
			if account {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&account, "account", false, "replace the account's own secret, which signs the callbacks of single jobs")
	return (&connect.Call{Kind: "whk"}).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if account {
			secret, err := c.RotateAccountWebhookSecret(ctx)
			return map[string]string{"secret": secret}, output.Line("Store the new secret of callbacks now, it is not shown again: %s", secret), err
		}
		made, err := c.RotateWebhookSecret(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		return made, output.Line("Store the new secret of %s now, it is not shown again: %s", made.Endpoint.Id, made.Secret), nil
	})
}

func webhooksDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "delete ENDPOINT", Short: "Delete an endpoint", Args: cobra.ExactArgs(1)}
	return (&connect.Call{Kind: "whk", Danger: connect.Question("Delete the endpoint %s?")}).Command(cmd,
		func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
			return map[string]string{"id": args[0]}, output.Line("%s is deleted", args[0]), c.DeleteWebhookEndpoint(ctx, args[0])
		})
}

func webhooksDisableCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "disable ENDPOINT", Short: "Send nothing to an endpoint until it is enabled again", Args: cobra.ExactArgs(1),
		Long: "Sends nothing to an endpoint until it is enabled again. Its pending deliveries are given up, and the events in the\n" +
			"meantime are not sent later.",
	}
	return (&connect.Call{Kind: "whk", Danger: connect.Question("Disable the endpoint %s?")}).Command(cmd,
		func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
			endpoint, err := c.DisableWebhookEndpoint(ctx, args[0])
			return endpoint, output.Line("%s is disabled", args[0]), err
		})
}

func webhooksEnableCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "enable ENDPOINT", Short: "Enable a disabled endpoint again", Args: cobra.ExactArgs(1)}
	return (&connect.Call{Kind: "whk"}).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		endpoint, err := c.EnableWebhookEndpoint(ctx, args[0])
		return endpoint, output.Line("%s is enabled", args[0]), err
	})
}

func webhooksTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test ENDPOINT",
		Short: "Send a signed webhook.test to an endpoint and show the outcome",
		Long:  "Sends a signed webhook.test once and waits for the outcome. The exit status is 1 if the endpoint did not accept it.",
		Args:  cobra.ExactArgs(1),
	}
	var sent *client.WebhookDelivery
	w := &connect.Call{Kind: "whk"}
	w.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		var err error
		if sent, err = c.SendTestWebhook(ctx, args[0]); err == nil {
			sent, err = outcomeOf(ctx, c, args[0], sent)
		}
		if err != nil {
			return nil, nil, err
		}
		return sent, output.Line("%s: %s", sent.Id, DeliveryState(*sent)), nil
	})
	call := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := call(cmd, args); err != nil || sent.Delivered {
			return err
		}
		return errors.New("the endpoint did not accept the test")
	}
	return cmd
}

// outcomeOf waits until a delivery has succeeded or was given up.
func outcomeOf(ctx context.Context, c *client.Client, endpoint string, d *client.WebhookDelivery) (*client.WebhookDelivery, error) {
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for d.NextAttemptAt != nil {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped before %s ended: `reelay webhooks deliveries --to %s` shows the outcome", d.Id, endpoint)
		}
		found, err := c.WebhookDeliveries(ctx, client.WebhookFilter{JobID: d.JobId, EndpointID: endpoint}, 1, "")
		if err != nil {
			return nil, err
		}
		if len(found.Edges) == 1 {
			d = &found.Edges[0].Node
		}
	}
	return d, nil
}

func webhooksDeliveriesCommand() *cobra.Command {
	var filter client.WebhookFilter
	cmd := &cobra.Command{
		Use:     "deliveries",
		Short:   "List deliveries, newest first",
		Example: "  reelay webhooks deliveries --failed\n  reelay webhooks deliveries --job job_… --json | jq '.items[].tries'",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&filter.JobID, "job", "", "only deliveries about this job")
	cmd.Flags().StringVar(&filter.EndpointID, "to", "", "only deliveries to this `endpoint`")
	cmd.Flags().BoolVar(&filter.FailedOnly, "failed", false, "only deliveries that failed, finally or so far")
	list := &connect.Lister[client.WebhookDelivery]{
		Table: output.Table[client.WebhookDelivery]{
			Columns: []output.Column[client.WebhookDelivery]{
				{Title: "DELIVERY", Kind: output.ID, Value: func(d client.WebhookDelivery) any { return d.Id }},
				{Title: "JOB", Kind: output.ID, Value: func(d client.WebhookDelivery) any { return d.JobId }},
				{Title: "EVENT", Value: func(d client.WebhookDelivery) any { return d.Event }},
				{Title: "URL", Kind: output.Long, Value: func(d client.WebhookDelivery) any { return d.Url }},
				{Title: "TRIES", Value: func(d client.WebhookDelivery) any { return d.Attempts }},
				{Title: "CREATED", Value: func(d client.WebhookDelivery) any { return d.CreatedAt }},
				{Title: "STATE", Kind: output.State, Value: func(d client.WebhookDelivery) any { return DeliveryState(d) }},
			},
			Name: func(d client.WebhookDelivery) string { return d.Id },
			None: "No deliveries.",
		},
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (list output.List[client.WebhookDelivery], err error) {
			if filter.JobID, err = connect.FullID(ctx, c, "job", filter.JobID); err != nil {
				return list, err
			}
			if filter.EndpointID, err = connect.FullID(ctx, c, "whk", filter.EndpointID); err != nil {
				return list, err
			}
			return output.Page[client.WebhookDelivery](c.WebhookDeliveries(ctx, filter, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

// DeliveryState returns what became of a delivery of a webhook.
func DeliveryState(d client.WebhookDelivery) string {
	switch {
	case d.Delivered:
		return "delivered"
	case d.NextAttemptAt != nil && d.LastError != nil:
		return "will be retried: " + *d.LastError
	case d.NextAttemptAt != nil:
		return "pending"
	}
	return "given up: " + output.OrDash(d.LastError)
}

func webhooksRedeliverCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "redeliver DELIVERY", Short: "Send a delivery again", Args: cobra.ExactArgs(1)}
	return (&connect.Call{Kind: "whd"}).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		delivery, err := c.RedeliverWebhook(ctx, args[0])
		return delivery, output.Line("%s will be sent again", args[0]), err
	})
}
