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
	primary := "none yet: it is the first that starts"
	if d.Since != nil {
		primary = fmt.Sprintf("%s, since %s (epoch %d)", d.Primary, utc(*d.Since), d.Epoch)
	}
	lines = append(lines, [2]string{"Primary", primary})
	for _, p := range d.Promotions {
		lines = append(lines, [2]string{"Promotion", promotionWords(p)})
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
	if d.Hindrance != "" {
		lines = append(lines, [2]string{"Promote", "not now: " + d.Hindrance})
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

// usualLoss is the age of the newest transaction of a standby above which --yes is not enough.
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
			"A standby lacks what the primary acknowledged without waiting for it. The command says of when the newest transaction is,\n" +
			"and asks. With --yes it continues only if that is at most --max-loss ago.",
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
				if age, known := s.Age(); yes.Yes && !known {
					return errors.New("it is not known how old the newest transaction of this database is, so --yes is not enough: run it " +
						"at a terminal. Nothing was done")
				} else if yes.Yes && age > maxLoss {
					return fmt.Errorf("the newest transaction here is %s old, more than --max-loss %s. What the primary acknowledged later is lost. "+
						"Nothing was done", text.Duration(age.Round(time.Second)), maxLoss)
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
					said.Hindrance = ""
					return document.Print(output.ScreenOf(cmd.OutOrStdout()), said, nil)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "Region %s is the primary (epoch %d). Its api and control processes serve within seconds.\n"+
					"Now let the public name lead to this region, and keep the old one off: docs/operators/regions.md.\n", made.Region, made.Epoch)
				return err
			})
		},
	}
	document.AddDocumentFlags(cmd, &asJSON)
	yes.AddFlag(cmd)
	cmd.Flags().DurationVar(&maxLoss, "max-loss", usualLoss, "with --yes: how old the newest transaction of the standby may be")
	return cmd
}

// promotionQuestion says what is lost.
func promotionQuestion(s *region.Standing) string {
	lost := "Nothing is lost: no other region was the primary."
	if age, known := s.Age(); !known {
		lost = "It is not known of when the newest transaction here is: look whether this database ever followed the primary."
	} else if s.TakesOver() {
		lost = fmt.Sprintf("The newest transaction here is of %s, %s ago, and %d bytes after it were received. What the primary acknowledged later is lost, "+
			"unless it waited for this standby (synchronous_standby_names).", utc(*s.Server.LastCommit), text.Duration(age.Round(time.Second)), s.Server.Unapplied)
	}
	return fmt.Sprintf("%s The other region must stay off. Promote %s?", lost, s.Region)
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

// utc is a time as the logs of two regions have it.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
