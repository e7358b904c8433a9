package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/regions"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// RegionCommand returns `reelay region`.
func RegionCommand() *cobra.Command {
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "region",
		Short: "Show whether this region is the primary, or how far its standby is behind",
		Long: "Shows which region is the primary, what PostgreSQL at DATABASE_URL is, and what the regions of REELAY_REGION_PEERS say.\n\n" +
			"Needs DATABASE_URL, REELAY_REGION and REELAY_SECRETS_FILE of an api. See docs/operators/regions.md.",
		Args: terminal.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withPromoter(cmd.Context(), func(p *region.Promoter) error {
				s, err := p.Look(cmd.Context())
				if err != nil {
					return err
				}
				said := s.Report()
				if asJSON {
					return document.Print(output.ScreenOf(cmd.OutOrStdout()), said, nil)
				}
				return printRegion(cmd.OutOrStdout(), said)
			})
		},
	}
	document.AddDocumentFlags(cmd, &asJSON)
	cmd.AddCommand(promoteCommand())
	return cmd
}

// printRegion writes what is known of the regions for a person.
func printRegion(out io.Writer, d *region.Report) error {
	database := "can be written to"
	switch {
	case d.Database == "standby" && d.Receiving:
		database = "is a standby, and receives from the primary"
	case d.Database == "standby":
		database = "is a standby, and receives nothing"
	case len(d.Standbys) > 0:
		database += "; followed by " + strings.Join(lo.Map(d.Standbys, standbyWords), ", ")
	}
	lines := [][2]string{{"Region", d.Region}, {"Database", database}}
	if d.NewestTransaction != nil {
		lines = append(lines, [2]string{"Newest", fmt.Sprintf("a transaction of %s, %s ago; %d bytes to replay", utc(*d.NewestTransaction),
			text.Duration(time.Duration(*d.AgeSeconds*float64(time.Second)).Round(time.Second)), d.UnappliedBytes)})
	}
	if d.PrimaryHeardAt != nil {
		lines = append(lines, [2]string{"Heard", "the primary, at " + utc(*d.PrimaryHeardAt) + " for the last time"})
	}
	primary := "none yet: it is the first that starts"
	if d.Since != nil {
		primary = fmt.Sprintf("%s, since %s (epoch %d)", d.Primary, utc(*d.Since), d.Epoch)
	}
	lines = append(lines, [2]string{"Primary", primary})
	for _, p := range d.Promotions {
		lines = append(lines, [2]string{"Promotion", promotionWords(p)})
	}
	if len(d.Peers) == 0 {
		lines = append(lines, [2]string{"Peer", "no peers are set: nothing was asked"})
	}
	for _, peer := range d.Peers {
		says := cmp.Or(peer.Region, peer.Address)
		switch {
		case !peer.Answers:
		case peer.Serves:
			says += fmt.Sprintf(", serves (epoch %d)", peer.Epoch)
		case peer.Epoch > 0:
			says += fmt.Sprintf(", waits (epoch %d)", peer.Epoch)
		default:
			says += ", waits"
		}
		if peer.Problem != "" {
			says += ": " + peer.Problem + " " + peer.Fix
		}
		lines = append(lines, [2]string{"Peer", says})
	}
	for _, w := range d.Warnings {
		lines = append(lines, [2]string{"Warning", w.Problem + " " + w.Fix})
	}
	for _, why := range d.Hindrances {
		lines = append(lines, [2]string{"Promote", "not now: " + why})
	}
	if len(d.Hindrances) == 0 {
		lines = append(lines, [2]string{"Promote", "possible: run `reelay region promote` to make this region the primary"})
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(out, "%-10s %s\n", line[0], output.Clean(line[1])); err != nil {
			return err
		}
	}
	return nil
}

// standbyWords describes a standby that follows the database.
func standbyWords(s regions.Standby, _ int) string {
	words := s.Name
	switch s.State {
	case "sync", "quorum":
		words += " (commits wait for it"
	case "":
		return words
	default:
		words += " (commits do not wait for it"
	}
	if s.BehindBytes != nil {
		words += fmt.Sprintf("; %d bytes to replay", *s.BehindBytes)
	}
	return words + ")"
}

// promotionWords describes a promotion.
func promotionWords(p region.ReportedPromotion) string {
	words := fmt.Sprintf("%d: %s at %s", p.Epoch, p.Region, utc(p.At))
	switch {
	case p.Learned:
		words += ", as another region told"
	case p.By != "":
		words += " by " + p.By
	}
	if p.From != "" {
		words += ", after " + p.From
	}
	if p.NewestAt != nil {
		words += fmt.Sprintf("; the newest transaction that came over is of %s", utc(*p.NewestAt))
		if p.HeardAt != nil {
			words += fmt.Sprintf(", and the primary before was last heard at %s", utc(*p.HeardAt))
		}
	}
	return words
}

// promoterName is who runs this program, such as root@db2.
func promoterName() string {
	who, host := "somebody", "an unknown machine"
	if known, err := user.Current(); err == nil {
		who = known.Username
	}
	if known, err := os.Hostname(); err == nil {
		host = known
	}
	return text.Clip(text.Printable(who+"@"+host), 200)
}

// usualLoss is the loss above which --yes is not enough.
const usualLoss = 30 * time.Second

func promoteCommand() *cobra.Command {
	var asJSON bool
	var document output.Options
	var yes terminal.YesFlag
	maxLoss := usualLoss
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "Make this region the primary",
		Long: "Ends the recovery of the standby at DATABASE_URL, and makes this region the primary. Its api and control processes, which\n" +
			"wait, serve within seconds. It refuses while the primary still sends or serves.\n\n" +
			"A standby lacks what the primary acknowledged without waiting for it. The command says of when the newest transaction is, and\n" +
			"when the primary was last heard, and asks. With --yes it continues only if the time between the two is at most --max-loss. If\n" +
			"PostgreSQL does not say when the primary was last heard, the time until now counts. Both times are recorded.",
		Example: "  reelay region promote\n  reelay region promote --yes --max-loss 10m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withPromoter(cmd.Context(), func(p *region.Promoter) error {
				s, err := p.Look(cmd.Context())
				if err != nil {
					return err
				}
				if err := s.Refusal(); err != nil {
					return fmt.Errorf("region %s cannot be promoted: %w", p.Region, err)
				}
				if yes.Yes {
					if err := tooMuch(s, maxLoss); err != nil {
						return err
					}
					fmt.Fprintln(cmd.ErrOrStderr(), promotionLoss(s))
				}
				if err := yes.Insist(cmd, promotionQuestion(s)); err != nil {
					return err
				}
				made, err := p.Promote(cmd.Context(), s, func(step string) { fmt.Fprintln(cmd.ErrOrStderr(), step) })
				if err != nil {
					return err
				}
				if s.Server.Synchronous != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "Commits here wait for standbys (synchronous_standby_names is %q). If none of them "+
						"follows this server, nothing can be written: run ALTER SYSTEM RESET synchronous_standby_names and SELECT pg_reload_conf().\n", s.Server.Synchronous)
				}
				if asJSON {
					after, err := p.Look(cmd.Context())
					if err != nil {
						return err
					}
					said := after.Report()
					said.Hindrances = nil
					return document.Print(output.ScreenOf(cmd.OutOrStdout()), said, nil)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(),
					"Region %s is the primary (epoch %d). Its api and control processes serve within seconds.\n"+
						"Now let the public name lead to this region, and keep the old one off: docs/operators/regions.md.\n", made.Region, made.Epoch)
				return err
			})
		},
	}
	document.AddDocumentFlags(cmd, &asJSON)
	yes.AddFlag(cmd)
	cmd.Flags().DurationVar(&maxLoss,
		"max-loss", usualLoss, "with --yes: for how long before the primary was last heard its newest transactions may be missing")
	return cmd
}

// tooMuch returns an error if --yes is not enough, which says how to go on.
func tooMuch(s *region.Standing, most time.Duration) error {
	loss, known, heard := s.Loss()
	switch {
	case !known:
		return errors.New("it is not known of when the newest transaction of this database is, so --yes is not enough. Nothing was done. " +
			"To go on, run it at a terminal without --yes")
	case loss <= most:
		return nil
	}
	until := "the primary was last heard at " + utcOf(s.Server.HeardAt)
	if !heard {
		until = "it is not known when the primary was last heard (GRANT pg_monitor TO " + s.Server.Role + " lets PostgreSQL say it), so the time until now counts"
	}
	return fmt.Errorf("the newest transaction here is of %s, and %s: that is %s, more than --max-loss %s. Nothing was done. If that loss is acceptable, "+
		"give --max-loss %dm, or run it at a terminal without --yes", utcOf(s.Server.LastCommit), until, text.Duration(loss.Round(time.Second)), most,
		loss/time.Minute+1)
}

// promotionLoss says what is lost, and what is not known.
func promotionLoss(s *region.Standing) string {
	words := []string{"Nothing is lost: no other region was the primary."}
	if _, known := s.Age(); !known {
		words[0] = "It is not known of when the newest transaction here is: look whether this database ever followed the primary."
	} else if s.TakesOver() {
		received := "nothing after it was received"
		if s.Server.Unapplied > 0 {
			received = fmt.Sprintf("%d bytes that were received after it are replayed first", s.Server.Unapplied)
		}
		words[0] = fmt.Sprintf("The newest transaction is of %s, and %s.", utcOf(s.Server.LastCommit), received)
		if s.Server.HeardAt != nil {
			words = append(words, fmt.Sprintf("The primary was last heard at %s.", utcOf(s.Server.HeardAt)))
		} else {
			words = append(words,
				fmt.Sprintf("It is not known when the primary was last heard (GRANT pg_monitor TO %s lets PostgreSQL say it).", s.Server.Role))
		}
		words = append(words, "What it acknowledged since is lost, unless it waited for this standby (synchronous_standby_names).")
	}
	for _, unheard := range s.Unheard() {
		words = append(words, unheard+".")
	}
	return strings.Join(words, " ")
}

// promotionQuestion asks whether to promote.
func promotionQuestion(s *region.Standing) string {
	return fmt.Sprintf("%s The other region must stay off. Promote %s?", promotionLoss(s), s.Region)
}

// withPromoter calls do with what the settings say of this region.
func withPromoter(ctx context.Context, do func(*region.Promoter) error) error {
	cfg := settings.Read()
	if cfg.DatabaseURL == "" || cfg.Region == "" || cfg.SecretsFile == "" {
		return errors.New("DATABASE_URL, REELAY_REGION and REELAY_SECRETS_FILE must be set as for the api of this region: see docs/operators/regions.md")
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	secrets, err := seal.OpenFile(cfg.SecretsFile)
	if err != nil {
		return err
	}
	db, done, err := postgres.OpenPatient(ctx, cfg.DatabaseURL, 2)
	if err != nil {
		return err
	}
	defer done()
	return do(&region.Promoter{Region: cfg.Region, Peers: cfg.Peers(secrets.LinkKeys), DB: db, By: promoterName()})
}

// utcOf is utc of a time that may not be known.
func utcOf(t *time.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return utc(*t)
}

// utc is a time as the logs of two regions have it.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
