package alert

import (
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
)

// Config is the rules and the receivers of alerts.
type Config struct {
	Rules  []*Rule
	Routes []*Route
	Digest *Digest
}

// Route is a receiver of alerts. It has exactly one of Webhook, Slack, PagerDuty and SMTP.
type Route struct {
	Name string `yaml:"name"`
	// Severities are those that it gets; all if there are none.
	Severities []alerts.Severity `yaml:"severities"`
	Webhook    *Webhook          `yaml:"webhook"`
	Slack      *Slack            `yaml:"slack"`
	PagerDuty  *PagerDuty        `yaml:"pagerDuty"`
	SMTP       *SMTP             `yaml:"smtp"`
}

// Webhook is a URL that gets JSON, signed as by Standard Webhooks if there is a secret.
type Webhook struct {
	URL    string `yaml:"url"`
	Secret string `yaml:"secret"`
}

// Slack is an incoming webhook of Slack, or of a server that understands them.
type Slack struct {
	URL string `yaml:"url"`
}

// PagerDuty is a service with an integration of the Events API v2.
type PagerDuty struct {
	RoutingKey string `yaml:"routingKey"`
	// URL is https://events.pagerduty.com/v2/enqueue if it is empty.
	URL string `yaml:"url"`
}

// SMTP is a mail server.
type SMTP struct {
	Address  string   `yaml:"address"` // host:port
	From     string   `yaml:"from"`
	To       []string `yaml:"to"`
	Username string   `yaml:"username"`
	Password string   `yaml:"password"`
	// TLS is starttls (the default), implicit or off.
	TLS string `yaml:"tls"`
}

// Digest is a summary of each day.
type Digest struct {
	At     string   `yaml:"at"`   // such as 08:00
	Zone   string   `yaml:"zone"` // an IANA zone; UTC if it is empty
	Routes []string `yaml:"routes"`

	location *time.Location
	minute   int // of the day
}

// Kind is what receives.
func (r *Route) Kind() string {
	switch {
	case r.Webhook != nil:
		return "webhook"
	case r.Slack != nil:
		return "Slack"
	case r.PagerDuty != nil:
		return "PagerDuty"
	}
	return "mail"
}

// gets reports whether the route gets alerts of a severity.
func (r *Route) gets(s alerts.Severity) bool {
	return len(r.Severities) == 0 || slices.Contains(r.Severities, s)
}

// Rule returns a rule by its name, or nil.
func (c *Config) Rule(name string) *Rule {
	for _, r := range c.Rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func (c *Config) route(name string) *Route {
	for _, r := range c.Routes {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// notices are those to write when an alert fires.
func (c *Config) notices(a *alerts.Alert, event alerts.NoticeEvent) (all []*alerts.Notice) {
	for _, r := range c.Routes {
		if r.gets(a.Severity) {
			all = append(all, &alerts.Notice{ID: models.NewNoticeID(), AlertID: a.ID, Event: event, Route: r.Name})
		}
	}
	return all
}

const (
	maxRoutes     = 20
	maxRecipients = 50
	pagerDutyURL  = "https://events.pagerduty.com/v2/enqueue"
)

var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// override is what a file says of a rule.
type override struct {
	Threshold  *float64        `yaml:"threshold"`
	ForMinutes *float64        `yaml:"forMinutes"`
	Severity   alerts.Severity `yaml:"severity"`
	Off        bool            `yaml:"off"`
}

// Default returns the rules without receivers.
func Default() *Config { return &Config{Rules: Defaults()} }

// Read reads a file of receivers and changes of rules. ${NAME} in a value stands for a variable
// of the environment, for secrets. An error names the line of each problem, and no secret.
func Read(path string, data []byte) (*Config, error) {
	var in struct {
		Routes []*Route            `yaml:"routes"`
		Digest *Digest             `yaml:"digest"`
		Rules  map[string]override `yaml:"rules"`
	}
	file, err := yamlfile.Read(path, "receivers and rules of alerts", data, &in)
	if err != nil {
		return nil, err
	}
	c := Default()
	c.Routes, c.Digest = in.Routes, in.Digest
	if len(c.Routes) > maxRoutes {
		file.Problem("$.routes", "there may be %d routes", maxRoutes)
	}
	names := map[string]bool{}
	for i, r := range c.Routes {
		place := fmt.Sprintf("$.routes[%d]", i)
		if r == nil {
			file.Problem(place, "a route must have a name and a receiver")
			continue
		}
		if names[r.Name] {
			file.Problem(place+".name", "there are two routes with the name %s", text.Clip(r.Name, 64))
		}
		names[r.Name] = true
		if field, fault := r.check(); fault != "" {
			file.Problem(place+"."+field, "%s", fault)
		}
	}
	if c.Digest != nil {
		if field, fault := c.Digest.check(names); fault != "" {
			file.Problem("$.digest."+field, "%s", fault)
		}
	}
	for name, o := range in.Rules {
		if fault := c.change(name, o); fault != "" {
			file.Problem("$.rules."+name, "%s", fault)
		}
	}
	return c, file.Err()
}

// change changes a rule. It returns what is wrong, or "".
func (c *Config) change(name string, o override) string {
	r := c.Rule(name)
	switch {
	case r == nil:
		return fmt.Sprintf("there is no rule %s: docs/operators/runbooks.md lists them", text.Clip(name, 64))
	case o.Severity != "" && !slices.Contains(alerts.Severities, o.Severity):
		return "severity must be P1, P2 or P3"
	case o.ForMinutes != nil && (*o.ForMinutes < 0 || *o.ForMinutes > 24*60):
		return "forMinutes must be from 0 to 1440"
	case o.Threshold != nil && *o.Threshold < 0:
		return "threshold must be at least 0, in seconds, a share from 0 to 1, or a number, as the rule has it"
	}
	if o.Threshold != nil {
		r.Threshold = *o.Threshold
	}
	if o.ForMinutes != nil {
		r.For = time.Duration(*o.ForMinutes * float64(time.Minute))
	}
	if o.Severity != "" {
		r.Severity = o.Severity
	}
	r.Off = o.Off
	return ""
}

// check fills in what was left out, and returns the first field that is wrong, and why.
func (r *Route) check() (field, fault string) {
	kinds := 0
	for _, has := range []bool{r.Webhook != nil, r.Slack != nil, r.PagerDuty != nil, r.SMTP != nil} {
		if has {
			kinds++
		}
	}
	switch {
	case !validName.MatchString(r.Name):
		return "name", "name must have 1 to 40 lower-case letters, digits and hyphens, begin with a letter, and not end with a hyphen"
	case kinds != 1:
		return "name", "a route has exactly one of webhook, slack, pagerDuty and smtp"
	}
	for _, s := range r.Severities {
		if !slices.Contains(alerts.Severities, s) {
			return "severities", "severities are P1, P2 and P3"
		}
	}
	switch {
	case r.Webhook != nil:
		return r.Webhook.check()
	case r.Slack != nil:
		return checkURL("slack.url", &r.Slack.URL)
	case r.PagerDuty != nil:
		return r.PagerDuty.check()
	}
	return r.SMTP.check()
}

func (w *Webhook) check() (field, fault string) {
	if fault := expand(&w.Secret); fault != "" {
		return "webhook.secret", fault
	}
	if w.Secret != "" && !canSign(w.Secret) {
		return "webhook.secret", "secret must be whsec_ and 24 to 64 bytes in base64"
	}
	return checkURL("webhook.url", &w.URL)
}

func (p *PagerDuty) check() (field, fault string) {
	if fault := expand(&p.RoutingKey); fault != "" {
		return "pagerDuty.routingKey", fault
	}
	if p.RoutingKey == "" || len(p.RoutingKey) > 100 {
		return "pagerDuty.routingKey", "routingKey must be the integration key of a service"
	}
	if p.URL == "" {
		p.URL = pagerDutyURL
	}
	return checkURL("pagerDuty.url", &p.URL)
}

func (s *SMTP) check() (field, fault string) {
	for name, value := range map[string]*string{"username": &s.Username, "password": &s.Password, "address": &s.Address} {
		if fault := expand(value); fault != "" {
			return "smtp." + name, fault
		}
	}
	if s.TLS == "" {
		s.TLS = "starttls"
	}
	_, port, err := net.SplitHostPort(s.Address)
	switch {
	case err != nil || port == "":
		return "smtp.address", "address must be host:port, such as smtp.example.com:587"
	case !slices.Contains([]string{"starttls", "implicit", "off"}, s.TLS):
		return "smtp.tls", "tls must be starttls, implicit or off"
	case s.TLS == "off" && s.Password != "":
		return "smtp.tls", "a password is only sent over TLS: use starttls or implicit"
	case len(s.To) == 0 || len(s.To) > maxRecipients:
		return "smtp.to", fmt.Sprintf("to must have 1 to %d addresses", maxRecipients)
	}
	for _, address := range append([]string{s.From}, s.To...) {
		if _, err := mail.ParseAddress(address); err != nil {
			return "smtp.to", "from and to must be mail addresses, such as ops@example.com"
		}
	}
	return "", ""
}

func (d *Digest) check(routes map[string]bool) (field, fault string) {
	at, err := time.Parse("15:04", d.At)
	if err != nil {
		return "at", "at must be a time such as 08:00"
	}
	d.minute = at.Hour()*60 + at.Minute()
	if d.location, err = time.LoadLocation(d.Zone); err != nil || d.Zone == "Local" {
		return "zone", "zone must be a zone such as Europe/Berlin"
	}
	if len(d.Routes) == 0 {
		return "routes", "routes must name at least one route"
	}
	for _, name := range d.Routes {
		if !routes[name] {
			return "routes", fmt.Sprintf("there is no route %s", text.Clip(name, 64))
		}
	}
	return "", ""
}

// checkURL expands and checks an address. It may hold a secret: no message shows it.
func checkURL(field string, address *string) (string, string) {
	if fault := expand(address); fault != "" {
		return field, fault
	}
	u, err := url.Parse(*address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(*address) > 4096 {
		return field, "url must be an https or http address"
	}
	return "", ""
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand replaces ${NAME} by the variables of the environment. It returns what is wrong, or "".
func expand(value *string) (fault string) {
	var missing []string
	*value = variable.ReplaceAllStringFunc(*value, func(name string) string {
		name = name[2 : len(name)-1]
		found := os.Getenv(name)
		if found == "" {
			missing = append(missing, name)
		}
		return found
	})
	if len(missing) > 0 {
		return "the environment has no " + strings.Join(missing, ", ")
	}
	return ""
}
