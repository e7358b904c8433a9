package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// quickly returns a context for calls that a person waits for without having asked for them.
func quickly(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, 2*time.Second)
}

// completion returns what a word can be completed to. A failure completes nothing.
type completion = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// fromAPI completes words that the API knows. ask returns them, each with a tab and a
// description if it has one.
func fromAPI(role target, ask func(ctx context.Context, c *client.Client) ([]string, error)) completion {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		t := role
		t.readFlags(cmd.Flags())
		c, err := t.client(io.Discard)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := quickly(cmd.Context())
		defer cancel()
		words, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// What is given already is not offered again.
		words = slices.DeleteFunc(words, func(w string) bool {
			value, _, _ := strings.Cut(w, "\t")
			return !strings.HasPrefix(value, word) || slices.Contains(args, value)
		})
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// readFlags reads the flags of a command that has a target.
func (t *target) readFlags(f *pflag.FlagSet) {
	for name, to := range map[string]*string{"endpoint": &t.endpoint, "key": &t.key, "data": &t.data, "ca-file": &t.caFile, "context": &t.context} {
		if flag := f.Lookup(name); flag != nil {
			*to = flag.Value.String()
			if name == "data" {
				t.dataGiven = flag.Changed
			}
		}
	}
}

// completeIDs completes the ids of a kind, newest first.
func completeIDs(kind string) completion {
	const first = 100
	switch kind {
	case "job":
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.ListedJob](c.Jobs(ctx, client.JobFilter{}, first, ""))
			return described(list, func(j client.ListedJob) (string, string) {
				return j.Id, strings.ToLower(string(j.Status)) + " " + clip(clean(valueOr(j.Prompt, j.Model)), 50)
			}), err
		})
	case "wrk":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.Worker](c.Workers(ctx, client.WorkerFilter{Status: liveWorkers()}, first, ""))
			return described(list, func(w client.Worker) (string, string) {
				return w.Id, strings.ToLower(string(w.Status)) + " " + placeOf(w.ProviderInstanceId, w.Slot)
			}), err
		})
	case "dead":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.DeadLetter](c.DeadLetters(ctx, client.DeadLetterFilter{}, first, ""))
			return described(list, func(d client.DeadLetter) (string, string) { return d.Id, clip(clean(d.Reason), 50) }), err
		})
	case "bulk":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.BulkOperation](c.BulkOperations(ctx, false, first, ""))
			return described(list, func(b client.BulkOperation) (string, string) { return b.Id, bulkActionName(b) + " " + bulkState(b) }), err
		})
	case "key":
		return fromAPI(target{admin: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.APIKeys(ctx, ""))
			return described(list, func(k client.ApiKey) (string, string) { return k.Id, clean(k.Name) }), err
		})
	case "whk":
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.WebhookEndpoints(ctx))
			return described(list, func(e client.WebhookEndpoint) (string, string) { return e.Id, clean(e.Url) }), err
		})
	case "alr":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.Alerts(ctx, true))
			return described(list, func(a client.Alert) (string, string) { return a.Id, clip(clean(a.Message), 60) }), err
		})
	case "sil":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.AlertSilences(ctx))
			return described(list, func(s client.AlertSilence) (string, string) { return s.Id, clip(clean(s.Reason), 60) }), err
		})
	case workflowKind:
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.Workflow](c.Workflows(ctx, "", nil, first, ""))
			return described(list, func(w client.Workflow) (string, string) {
				return w.Id, strings.ToLower(string(w.Status)) + " " + clip(clean(w.Name), 50)
			}), err
		})
	case "whd":
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.WebhookDelivery](c.WebhookDeliveries(ctx, client.WebhookFilter{}, first, ""))
			return described(list, func(d client.WebhookDelivery) (string, string) { return d.Id, d.Event + " " + deliveryState(d) }), err
		})
	}
	return noFiles
}

// described returns the items of a list as completions.
func described[T any](list output.List[T], word func(T) (value, description string)) []string {
	var words []string
	for _, item := range list.Items {
		value, description := word(item)
		words = append(words, value+"\t"+description)
	}
	return words
}

var completeModels = fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.Models(ctx))
	return described(list, func(m client.Model) (string, string) { return m.Name, clip(clean(m.Description), 60) }), err
})

var completePools = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.Pools(ctx))
	return described(list, func(p client.Pool) (string, string) { return p.Name, poolState(&p) }), err
})

var completeAccounts = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Page[client.Account](c.Accounts(ctx, 200, ""))
	return described(list, func(a client.Account) (string, string) { return a.Name, string(a.Tier) }), err
})

var completeMembers = fromAPI(target{admin: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.Members(ctx))
	return described(list, func(m client.Member) (string, string) { return clean(m.Email), strings.ToLower(string(m.Role)) }), err
})

var completeAlertRules = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.AlertRules(ctx))
	return described(list, func(r client.AlertRule) (string, string) { return r.Name, clean(r.Title) }), err
})

var completeReceivers = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.AlertRoutes(ctx))
	return described(list, func(r client.AlertRoute) (string, string) { return clean(r.Name), string(r.Kind) }), err
})

// noFiles completes nothing, instead of the names of files.
func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// choices completes fixed words. After a comma, it completes the next word of a list.
func choices[T ~string](all []T) completion {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		before := word[:strings.LastIndex(word, ",")+1]
		var found []string
		for _, one := range all {
			if value := before + strings.ToLower(string(one)); strings.HasPrefix(value, word) {
				found = append(found, value)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// flagWords are the completions of flags that mean the same for all commands.
var flagWords = map[string]completion{
	"tier": choices(client.AllTier), "to": choices(client.AllTier), "role": choices(keyRoles), "class": choices(client.AllFailureClass), "audience": choices([]string{"operator", "customer", "all"}),
	"resolution": choices([]string{"480p", "720p", "1080p"}), "aspect-ratio": choices([]string{"16:9", "9:16", "1:1", "4:3", "3:4", "21:9"}),
	"model": completeModels, "account": completeAccounts, "job": completeIDs("job"), "after": completeIDs("job"),
	"context": completeContexts, "as": choices(roles), "backoff": choices(client.AllBackoff),
}

// fileFlags are flags whose values name files or folders.
var fileFlags = []string{"file", "output", "prompt-file", "image", "input", "params", "ca-file", "data", "sheet", "html", "secrets-file"}

// completeFlags adds the completions of flags to a command and its subcommands, and keeps the
// names of files out where there are none.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, has := cmd.GetFlagCompletionFunc(f.Name)
		if has || f.Value.Type() == "bool" || slices.Contains(fileFlags, f.Name) {
			return
		}
		complete := flagWords[f.Name]
		switch {
		case f.Name == "status" && (cmd.Name() == "workers" || cmd.HasParent() && cmd.Parent().Name() == "workers"):
			complete = choices(client.AllWorkerStatus)
		case f.Name == "status":
			complete = choices(client.AllJobStatus)
		case f.Name == "to" && cmd.Name() == "deliveries":
			complete = completeIDs("whk")
		case f.Name == "after" && cmd.Name() != "submit" && cmd.Name() != "draft" && cmd.Name() != "estimate":
			complete = noFiles // a cursor
		case f.Name == "kind" && cmd.Name() == "download":
			complete = choices(kindNames())
		case complete == nil:
			complete = noFiles
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = argWords(cmd)
	}
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// argWords completes the arguments of a command by what its usage calls them.
func argWords(cmd *cobra.Command) completion {
	_, argument, _ := strings.Cut(cmd.Use, " ")
	switch {
	case strings.HasPrefix(argument, "JOB"):
		return completeIDs("job")
	case strings.HasPrefix(argument, "LANE"):
		return firstOnly(choices(client.AllTier), noFiles)
	case strings.HasPrefix(argument, "TIER JOB"):
		return firstOnly(choices(client.AllTier), completeIDs("job"))
	case strings.HasPrefix(argument, "PRIORITY JOB"):
		return firstOnly(noFiles, completeIDs("job"))
	case strings.HasPrefix(argument, "ACCOUNT"):
		return firstOnly(completeAccounts, noFiles)
	case strings.HasPrefix(argument, "CONTEXT"):
		return firstOnly(completeContexts, noFiles)
	case strings.HasPrefix(argument, "MEMBER"):
		return firstOnly(completeMembers, noFiles)
	case strings.HasPrefix(argument, "ROLE MEMBER"):
		return firstOnly(choices(memberRoles), completeMembers)
	case strings.HasPrefix(argument, "WORKFLOW"):
		return firstOnly(completeIDs(workflowKind), noFiles)
	case strings.HasPrefix(argument, "[RULE]"):
		return firstOnly(completeAlertRules, noFiles)
	case strings.HasPrefix(argument, "RECEIVER"):
		return firstOnly(completeReceivers, noFiles)
	case strings.HasPrefix(argument, "NAME") && cmd.HasParent() && cmd.Parent().Name() == "pools":
		return firstOnly(completePools, noFiles)
	case strings.HasPrefix(argument, "NAME") && cmd.HasParent() && cmd.Parent().Name() == "models":
		return firstOnly(completeModels, noFiles)
	}
	return noFiles
}

// firstOnly completes the first argument by one function, and those after it by another.
func firstOnly(first, others completion) completion {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return first(cmd, args, word)
		}
		return others(cmd, args, word)
	}
}
