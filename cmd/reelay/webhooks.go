package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func webhooksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Have the ends of jobs told to a URL",
		Long: "Endpoints that hear of the ends of all the account's jobs, and what came of it.\n" +
			"docs/users/webhooks.md has the events, and how to verify them.",
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(webhooksListCommand(), webhooksCreateCommand(), webhooksRotateCommand(), webhooksDeleteCommand(),
		webhooksEnableCommand(), webhooksTestCommand(), webhooksDeliveriesCommand(), webhooksRedeliverCommand())
	return cmd
}

// apiCall is what commands with one call have in common: do asks and
// returns what --json prints, and how else it is said.
type apiCall struct {
	target target
	asJSON bool
}

func (w *apiCall) command(cmd *cobra.Command, do func(ctx context.Context, c *client.Client, args []string) (answer any, say func(io.Writer) error, err error)) *cobra.Command {
	w.target.addFlags(cmd)
	cmd.Flags().BoolVar(&w.asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := w.target.client(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		answer, say, err := do(cmd.Context(), c, args)
		if err != nil {
			return apiError(err)
		}
		if w.asJSON {
			return printJSON(cmd.OutOrStdout(), answer)
		}
		return say(cmd.OutOrStdout())
	}
	return cmd
}

// line is a sentence to print.
func line(format string, args ...any) func(io.Writer) error {
	return func(out io.Writer) error {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	}
}

func webhooksListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the endpoints", Args: cobra.NoArgs}
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, func(io.Writer) error, error) {
		endpoints, err := c.WebhookEndpoints(ctx)
		return items[client.WebhookEndpoint]{endpoints}, func(out io.Writer) error {
			var rows [][]string
			for _, e := range endpoints {
				state := "enabled"
				if e.Disabled {
					state = "disabled: " + orDash(e.DisabledReason)
				}
				rows = append(rows, []string{e.Id, e.Url, strings.ToLower(string(e.Format)), strings.Join(e.Events, ","), ago(&e.CreatedAt), state})
			}
			return printTable(out, []string{"ENDPOINT", "URL", "FORMAT", "EVENTS", "CREATED", "STATE"}, rows)
		}, err
	})
}

func webhooksCreateCommand() *cobra.Command {
	var events []string
	var openAI bool
	cmd := &cobra.Command{
		Use:     "create URL",
		Short:   "Have the ends of jobs told to a URL",
		Example: "  reelay webhooks create https://example.com/hook --events job.completed,job.failed",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringSliceVar(&events, "events", nil, "job.completed, job.failed, job.cancelled (default: all)")
	cmd.Flags().BoolVar(&openAI, "openai", false, "send the bodies of OpenAI's webhooks (video.completed, video.failed)")
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, func(io.Writer) error, error) {
		format := client.WebhookFormatStandard
		if openAI {
			format = client.WebhookFormatOpenai
		}
		made, err := c.CreateWebhookEndpoint(ctx, args[0], format, events)
		if err != nil {
			return nil, nil, err
		}
		return made, line("%s is told from now on. Its secret, shown this once: %s", made.Endpoint.Id, made.Secret), nil
	})
}

func webhooksRotateCommand() *cobra.Command {
	var account bool
	cmd := &cobra.Command{
		Use:   "rotate ENDPOINT | --account",
		Short: "Make a secret anew; the old one signs too for 24 h",
		Args: func(cmd *cobra.Command, args []string) error {
			if account {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&account, "account", false, "the account's own, which signs the callbacks of single jobs")
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, func(io.Writer) error, error) {
		if account {
			secret, err := c.RotateAccountWebhookSecret(ctx)
			return map[string]string{"secret": secret}, line("The secret of callbacks, shown this once: %s", secret), err
		}
		made, err := c.RotateWebhookSecret(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		return made, line("The new secret of %s, shown this once: %s", made.Endpoint.Id, made.Secret), nil
	})
}

func webhooksDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "delete ENDPOINT", Short: "Tell an endpoint nothing any more", Args: cobra.ExactArgs(1)}
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, func(io.Writer) error, error) {
		return map[string]string{"id": args[0]}, line("%s is told nothing any more", args[0]), c.DeleteWebhookEndpoint(ctx, args[0])
	})
}

func webhooksEnableCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "enable ENDPOINT", Short: "Tell an endpoint again that was disabled", Args: cobra.ExactArgs(1)}
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, func(io.Writer) error, error) {
		endpoint, err := c.EnableWebhookEndpoint(ctx, args[0])
		return endpoint, line("%s is told from now on", args[0]), err
	})
}

func webhooksTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test ENDPOINT",
		Short: "Send an endpoint a signed webhook.test, and say what came of it",
		Long:  "Sends a signed webhook.test in one try, and waits for its outcome. The status is 1 if it was not taken.",
		Args:  cobra.ExactArgs(1),
	}
	var sent *client.WebhookDelivery
	w := new(apiCall)
	w.command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, func(io.Writer) error, error) {
		var err error
		if sent, err = c.SendTestWebhook(ctx, args[0]); err == nil {
			sent, err = outcomeOf(ctx, c, args[0], sent)
		}
		if err != nil {
			return nil, nil, err
		}
		return sent, line("%s: %s", sent.Id, deliveryState(*sent)), nil
	})
	call := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := call(cmd, args); err != nil || sent.Delivered {
			return err
		}
		return errors.New("the endpoint did not take the test")
	}
	return cmd
}

// outcomeOf waits until a delivery is over.
func outcomeOf(ctx context.Context, c *client.Client, endpoint string, d *client.WebhookDelivery) (*client.WebhookDelivery, error) {
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for d.NextAttemptAt != nil {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped before %s was over: reelay webhooks deliveries --to %s shows what comes of it", d.Id, endpoint)
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
		Short:   "List what was told to whom, newest first",
		Example: "  reelay webhooks deliveries --failed\n  reelay webhooks deliveries --job job_… --json | jq '.items[].tries'",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&filter.JobID, "job", "", "only of this job")
	cmd.Flags().StringVar(&filter.EndpointID, "to", "", "only to this `endpoint`")
	cmd.Flags().BoolVar(&filter.FailedOnly, "failed", false, "only those that failed so far, or for good")
	list := &lister[client.WebhookDelivery]{
		header: []string{"DELIVERY", "JOB", "EVENT", "URL", "TRIES", "CREATED", "STATE"},
		row: func(d client.WebhookDelivery) []string {
			return []string{d.Id, d.JobId, d.Event, d.Url, fmt.Sprint(d.Attempts), ago(&d.CreatedAt), deliveryState(d)}
		},
		ask: func(ctx context.Context, c *client.Client, p page) (listed[client.WebhookDelivery], error) {
			found, err := c.WebhookDeliveries(ctx, filter, p.first, p.after)
			if err != nil {
				return listed[client.WebhookDelivery]{}, err
			}
			return listOf[client.WebhookDelivery](found.Edges, found.PageInfo, nil), nil
		},
	}
	return list.command(cmd)
}

func deliveryState(d client.WebhookDelivery) string {
	switch {
	case d.Delivered:
		return "delivered"
	case d.NextAttemptAt != nil && d.LastError != nil:
		return "tried again: " + *d.LastError
	case d.NextAttemptAt != nil:
		return "on its way"
	}
	return "given up: " + orDash(d.LastError)
}

func webhooksRedeliverCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "redeliver DELIVERY", Short: "Send a delivery once more", Args: cobra.ExactArgs(1)}
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, func(io.Writer) error, error) {
		delivery, err := c.RedeliverWebhook(ctx, args[0])
		return delivery, line("%s is sent once more", args[0]), err
	})
}
