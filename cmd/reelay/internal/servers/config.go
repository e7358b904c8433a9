package servers

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reelay/reelay/adapters/identity"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/prices"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/local"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/web/videos"
)

// config is the configuration of a server process, from the environment and flags.
type config struct {
	listen      string
	publicURL   string
	databaseURL string
	databaseMax int
	redisURL    string
	objects     objectsConfig
	secretsFile string
	log         string
	name        string
	// sso is the single sign-on of the console.
	sso ssoConfig
	// consoleName tells this installation from others in the console; empty for none.
	consoleName string
	// localProvider is the socket of the local provider, which `up` serves.
	localProvider string
	// programs is the folder of the programs of the provider `command`.
	programs string
	// prices is a file of the sources of prices, which check reads.
	prices       string
	priceSources []*prices.Source
	// alertsFile is a file of the receivers and rules of alerts, which check reads into alerts.
	alertsFile string
	alerts     *alert.Config
	// gce is how machines of Compute Engine are made.
	gce gce.Config
	// outbound says which URLs of customers may be called.
	outbound outbound.Policy
	// own are Reelay's own addresses (host:port) besides those of the stores and of the
	// public URL. URLs of customers must not lead there.
	own []string
	// hosts are the host names at which the API answers; empty means all.
	hosts hosts
	// origins are the hosts of other pages that may call the API; empty means none.
	origins origins
	// introspection is on or off.
	introspection string
	retention     upkeep.Retention
	tls           tlsFiles
	// videoModels maps the model names of the Videos API to those of the catalogue.
	videoModels string
	// metricsListen is where control serves its metrics; empty means nowhere.
	metricsListen string
	// metricsOpen serves the metrics without a key.
	metricsOpen bool
	// machines says which machines may register by their identity: those of no project if it
	// is empty.
	machines identity.Config
	// scaling is how the scaler divides what regions need.
	scaling fleet.Policy
	// userShare is the UserShare of submit.Submitter.
	userShare int
	// models is a folder with models in addition to the built-in ones.
	models string
}

// readConfig reads the environment. It checks nothing, because flags may still change
// values.
func readConfig() config {
	return config{
		listen:        env("REELAY_LISTEN", "127.0.0.1:8080"),
		publicURL:     env("REELAY_PUBLIC_URL", ""),
		databaseURL:   env("DATABASE_URL", ""),
		databaseMax:   -1, // see check
		redisURL:      env("REDIS_URL", ""),
		metricsListen: env("REELAY_METRICS_LISTEN", ""),
		objects:       readObjects(),
		secretsFile:   env("REELAY_SECRETS_FILE", ""),
		log:           env("REELAY_LOG", "text"),
		name:          env("REELAY_NAME", ""),
		consoleName:   env("REELAY_CONSOLE_NAME", ""),
		sso:           readSSO(),

		localProvider: env("REELAY_LOCAL_PROVIDER", ""),
		programs:      env("REELAY_PROVIDERS", ""),
		prices:        env("REELAY_PRICES", ""),
		alertsFile:    env("REELAY_ALERTS", ""),
		gce:           gce.Config{APIEndpoint: env("REELAY_GCE_ENDPOINT", ""), Cluster: env("REELAY_CLUSTER", "reelay")},
		introspection: env("REELAY_INTROSPECTION", "on"),

		machines: identity.Config{
			Audience: env("REELAY_GCE_IDENTITY_AUDIENCE", ""), KeysURL: env("REELAY_GCE_IDENTITY_KEYS_URL", ""),
			Projects: list("REELAY_GCE_IDENTITY_PROJECTS"), Accounts: list("REELAY_GCE_IDENTITY_ACCOUNTS"),
		},
		tls:         tlsFiles{cert: env("REELAY_TLS_CERT", ""), key: env("REELAY_TLS_KEY", "")},
		videoModels: env("REELAY_VIDEO_MODELS", ""),
		models:      env("REELAY_MODELS", ""),
	}
}

func env(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// list reads names that are separated by commas.
func list(name string) []string {
	return strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return r == ',' || r == ' ' })
}

// check returns one line for every invalid setting: its name, its value and the allowed
// values.
func (c *config) check() error {
	var wrong []error
	bad := func(name, value, may string) {
		wrong = append(wrong, fmt.Errorf("%s is %q: it must be %s", name, value, may))
	}
	if !validListen(c.listen) {
		bad("REELAY_LISTEN (--listen)", c.listen, "host:port, for example 127.0.0.1:8080, or fd:3 for an inherited listening socket")
	}
	if c.metricsListen != "" && !validListen(c.metricsListen) {
		bad("REELAY_METRICS_LISTEN", c.metricsListen, "host:port, for example 127.0.0.1:9090")
	}
	if c.publicURL != "" {
		if u, err := url.Parse(c.publicURL); err != nil || u.Scheme != "http" && u.Scheme != "https" ||
			u.Host == "" || u.Path != "" && u.Path != "/" {
			bad("REELAY_PUBLIC_URL", c.publicURL, "the http or https address at which clients reach this API, without a path")
		}
		c.publicURL = strings.TrimSuffix(c.publicURL, "/")
	}
	c.checkGCE(bad)
	if info, err := os.Stat(c.programs); c.programs != "" && (err != nil || !info.IsDir()) {
		bad("REELAY_PROVIDERS", c.programs, "a folder with the programs of the provider command")
	}
	if c.introspection != "on" && c.introspection != "off" {
		bad("REELAY_INTROSPECTION", c.introspection, "on or off")
	}
	if c.log != "text" && c.log != "json" {
		bad("REELAY_LOG", c.log, "text or json")
	}
	if len(c.consoleName) > 40 || !utf8.ValidString(c.consoleName) {
		bad("REELAY_CONSOLE_NAME", c.consoleName, "up to 40 bytes of UTF-8")
	}
	wrong = append(wrong, c.sso.check())
	c.checkNumbers(bad)
	names := os.Getenv("REELAY_HOSTS")
	var err error
	if c.hosts, err = readHosts(names); err != nil {
		bad("REELAY_HOSTS", names, "host names without scheme and port, separated by commas")
	}
	c.checkOwn(bad)
	pages := os.Getenv("REELAY_ORIGINS")
	if c.origins, err = readOrigins(pages); err != nil {
		bad("REELAY_ORIGINS", pages, "hosts of pages without a scheme, such as app.example,*.studio.example,localhost:5173")
	}
	c.checkRetention(bad)
	for name, is := range map[string]*bool{
		"REELAY_OUTBOUND_LOOPBACK": &c.outbound.AllowLoopback, "REELAY_METRICS_OPEN": &c.metricsOpen, "REELAY_FORECAST": &c.scaling.Forecast,
	} {
		value := env(name, strconv.FormatBool(is == &c.scaling.Forecast))
		if value != "true" && value != "false" {
			bad(name, value, "true or false")
		}
		*is = value == "true"
	}
	for _, project := range c.machines.Projects {
		if !identity.IsProject(project) {
			bad("REELAY_GCE_IDENTITY_PROJECTS", project, "ids of projects, such as my-project, separated by commas")
		}
	}
	if u, err := url.Parse(c.machines.KeysURL); err != nil || c.machines.KeysURL != "" &&
		(u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		bad("REELAY_GCE_IDENTITY_KEYS_URL", c.machines.KeysURL, "an https URL, or empty for Google's")
	}
	wrong = append(wrong, c.tls.check(), c.checkModels(), c.checkPrices(), c.checkAlerts())
	wrong = append(wrong, c.checkStores(bad))
	return errors.Join(wrong...)
}

// checkNumbers reads and checks the numeric settings.
func (c *config) checkNumbers(bad func(name, value, may string)) {
	number := func(name, fallback string, least, most int) int {
		value := env(name, fallback)
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			bad(name, value, fmt.Sprintf("a number from %d to %d", least, most))
		}
		return n
	}
	if c.databaseMax < 0 {
		c.databaseMax = number("REELAY_DATABASE_CONNECTIONS", "32", 4, 1000)
	}
	c.scaling = fleet.Policy{
		OnDemandShare: 1 - float64(number("REELAY_SPOT_PERCENT", "70", 0, 100))/100,
		Reserve:       float64(number("REELAY_RESERVE_PERCENT", "10", 0, 100)) / 100,
	}
	c.userShare = number("REELAY_USER_QUEUE_PERCENT", strconv.Itoa(submit.DefaultUserShare), 1, 100)
}

// checkGCE checks the settings for Compute Engine.
func (c *config) checkGCE(bad func(name, value, may string)) {
	if u, err := url.Parse(c.gce.APIEndpoint); c.gce.APIEndpoint != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		bad("REELAY_GCE_ENDPOINT", c.gce.APIEndpoint, "the http or https address of a server that imitates Compute Engine")
	}
	if len(c.gce.Cluster) > 63 {
		bad("REELAY_CLUSTER", c.gce.Cluster, "a name of up to 63 bytes")
	}
}

// checkOwn reads the addresses that customers' URLs must not reach.
func (c *config) checkOwn(bad func(name, value, may string)) {
	c.own = nil
	for address := range strings.SplitSeq(os.Getenv("REELAY_OUTBOUND_EXCEPT"), ",") {
		if address = strings.TrimSpace(address); address == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(address); err != nil || !validPort(port) {
			bad("REELAY_OUTBOUND_EXCEPT", address, "host:port, several of them separated by commas")
		}
		c.own = append(c.own, address)
	}
}

// checkStores checks the addresses of the stores. An error never shows a URL, because it
// contains a password.
func (c *config) checkStores(bad func(name, value, may string)) error {
	var wrong []error
	if u, err := url.Parse(c.databaseURL); c.databaseURL != "" && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		wrong = append(wrong, errors.New("DATABASE_URL is malformed: it must be postgres://user:password@host:5432/name"))
	}
	if c.redisURL != "" {
		if _, err := redisurl.Parse(c.redisURL); err != nil {
			wrong = append(wrong, fmt.Errorf("REDIS_URL is malformed: %w", err))
		}
	}
	return errors.Join(append(wrong, c.objects.check(bad))...)
}

// checkModels checks that the models, and their names in the Videos API, can be read.
func (c *config) checkModels() error {
	if _, _, err := c.loadModels(); err != nil {
		return fmt.Errorf("REELAY_MODELS is %q: it must be a folder with a models.yaml: %w", c.models, err)
	}
	if _, err := videos.ReadModels(c.videoModels); err != nil {
		return fmt.Errorf("REELAY_VIDEO_MODELS is %q: it must be pairs such as sora-2=testcard, separated by commas: %w", c.videoModels, err)
	}
	return nil
}

// loadModels returns the entries of REELAY_MODELS, or nil, and the models that jobs can use
// until the database's are read.
func (c *config) loadModels() (*catalogue.Source, *catalogue.Snapshot, error) {
	if c.models == "" {
		known, err := catalogue.Load()
		return nil, known, err
	}
	folder, err := catalogue.ReadFolder(os.DirFS(c.models))
	if err != nil {
		return nil, nil, err
	}
	known, err := catalogue.Load(folder)
	return folder, known, err
}

func validListen(address string) bool {
	if _, ok := inherited(address); ok {
		return true
	}
	host, port, err := net.SplitHostPort(address)
	return err == nil && !strings.ContainsAny(host, "/ ") && validPort(port)
}

// maxDays is the longest retention: ten years.
const maxDays = 3650

// checkRetention reads the retention times. The data of a job cannot be kept longer than
// the job.
func (c *config) checkRetention(bad func(name, value, may string)) {
	c.retention = upkeep.DefaultRetention
	days := func(name string, keep *time.Duration, most int) {
		value := os.Getenv(name)
		if value == "" {
			*keep = min(*keep, time.Duration(most)*day)
			return
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > most {
			bad(name, value, fmt.Sprintf("a number of days from 1 to %d", most))
			return
		}
		*keep = time.Duration(n) * day
	}
	days("REELAY_RETENTION_JOBS_DAYS", &c.retention.Jobs, maxDays)
	jobsDays := int(c.retention.Jobs / day)
	days("REELAY_RETENTION_EVENTS_DAYS", &c.retention.Events, jobsDays)
	days("REELAY_RETENTION_FILMS_DAYS", &c.retention.Videos, jobsDays)
}

const day = 24 * time.Hour

func validPort(port string) bool {
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// need checks the settings of a process that does not start its own stores.
func (c *config) need() error {
	wrong := []error{c.check()}
	for name, value := range map[string]string{
		"DATABASE_URL":        c.databaseURL,
		"REDIS_URL":           c.redisURL,
		"REELAY_SECRETS_FILE": c.secretsFile,
	} {
		if value == "" {
			wrong = append(wrong, fmt.Errorf("%s is not set: this process needs it (only `reelay up` starts its own stores)", name))
		}
	}
	if !c.objects.named() {
		wrong = append(wrong, errors.New("REELAY_STORE is not set: this process needs it, such as s3://BUCKET or gs://BUCKET "+
			"(only `reelay up` starts its own stores)"))
	}
	return errors.Join(wrong...)
}

// setUpLog configures the process's log.
func (c *config) setUpLog() {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if os.Getenv("REELAY_DEBUG") != "" {
		options.Level = slog.LevelDebug
	}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, options)
	if c.log == "json" {
		handler = slog.NewJSONHandler(os.Stderr, options)
	}
	log := slog.New(handler)
	if c.name != "" {
		log = log.With("process", c.name)
	}
	slog.SetDefault(log)
}

// providers returns the providers with which this process can start and stop machines.
func (c *config) providers() map[string]fleet.Provider {
	all := map[string]fleet.Provider{gce.Name: c.gceProvider()}
	if c.localProvider != "" {
		all[local.Name] = local.Dial(c.localProvider)
	}
	if c.programs != "" {
		all[command.Name] = command.New(command.Config{Folder: c.programs, Enrolment: c.enrolment()})
	}
	return all
}

// gceProvider returns the provider for Compute Engine, which connects when it is used.
func (c *config) gceProvider() *gce.Provider {
	config := c.gce
	config.Enrolment = c.enrolment()
	config.Enrolment.ByIdentity = len(c.machines.Projects) > 0
	config.Enrolment.Audience = c.machines.Audience
	return gce.New(config)
}

// enrolment returns the endpoint and the key file of agents on other machines.
func (c *config) enrolment() fleet.Enrolment {
	return fleet.Enrolment{Endpoint: c.publicURL, KeyFile: os.Getenv("REELAY_AGENT_KEY_FILE")}
}

// checkAlerts reads the receivers and rules of alerts.
func (c *config) checkAlerts() error {
	c.alerts = alert.Default()
	if c.alertsFile == "" {
		return nil
	}
	data, err := os.ReadFile(c.alertsFile)
	if err == nil {
		c.alerts, err = alert.Read(c.alertsFile, data)
	}
	if err != nil {
		return fmt.Errorf("REELAY_ALERTS is %q: it must be a file of receivers of alerts: %w", c.alertsFile, err)
	}
	return nil
}

// checkPrices reads the sources of prices.
func (c *config) checkPrices() error {
	c.priceSources = nil
	if c.prices == "" {
		return nil
	}
	data, err := os.ReadFile(c.prices)
	if err == nil {
		c.priceSources, err = prices.ReadSources(c.prices, data)
	}
	if err != nil {
		return fmt.Errorf("REELAY_PRICES is %q: it must be a file of sources of prices: %w", c.prices, err)
	}
	return nil
}
