package settings

import (
	"cmp"
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
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/prices"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/gpu/provider/local"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/secretfile"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/web/videos"
)

// Config is the configuration of a server process, from the environment and flags.
type Config struct {
	Listen      string
	PublicURL   string
	DatabaseURL string
	DatabaseMax int
	RedisURL    string
	Objects     Objects
	SecretsFile string
	log         string
	name        string
	// SSO is the single sign-on of the console.
	SSO SSO
	// Moderation configures the hook that decides on the content of jobs.
	Moderation Moderation
	// consoleName tells this installation from others in the console; empty for none.
	ConsoleName string
	// LocalProvider is the socket of the local provider, which `up` serves.
	LocalProvider string
	// programs is the folder of the programs of the provider `command`.
	programs string
	// prices is a file of the sources of prices, which check reads.
	prices       string
	PriceSources []*prices.Source
	// providerLimits is a file of the limits of hosted providers, which check reads.
	providerLimits string
	Limits         *hosted.Limits
	// alertsFile is a file of the receivers and rules of alerts, which check reads into alerts.
	alertsFile string
	Alerts     *alert.Config
	// gce is how machines of Compute Engine are made.
	gce gce.Config
	// kubernetes is how pods are made.
	kubernetes kubernetes.Config
	// Outbound says which URLs of customers may be called.
	Outbound outbound.Policy
	// Own are Reelay's own addresses (host:port) besides those of the stores and of the
	// public URL. URLs of customers must not lead there.
	Own []string
	// Hosts are the host names at which the API answers; empty means all.
	Hosts front.Hosts
	// Origins are the hosts of other pages that may call the API; empty means none.
	Origins front.Origins
	// Introspection is on or off.
	Introspection string
	Retention     upkeep.Retention
	TLS           front.TLSFiles
	// VideoModels maps the model names of the Videos API to those of the catalogue.
	VideoModels string
	// StopDelay is how long an api still serves after it was asked to stop.
	StopDelay time.Duration
	// MetricsListen is where control serves its metrics; empty means nowhere.
	MetricsListen string
	// metricsOpen serves the metrics without a key.
	MetricsOpen bool
	// Machines says which machines may register by their identity: those of no project if it
	// is empty.
	Machines identity.Config
	// Scaling is how the scaler divides what regions need.
	Scaling fleet.Policy
	// UserShare is the UserShare of submit.Submitter.
	UserShare int
	// Region is the name of the region of this process, and RegionPeers the URLs of the apis of others; "" if there is only one.
	Region      string
	RegionPeers []string
	// Models is a folder with models in addition to the built-in ones.
	Models string
}

// Read reads the environment. It checks nothing, because flags may still change
// values.
func Read() Config {
	return Config{
		Listen:        env("REELAY_LISTEN", "127.0.0.1:8080"),
		PublicURL:     env("REELAY_PUBLIC_URL", ""),
		DatabaseURL:   env("DATABASE_URL", ""),
		DatabaseMax:   -1, // see check
		RedisURL:      env("REDIS_URL", ""),
		MetricsListen: env("REELAY_METRICS_LISTEN", ""),
		Objects:       readObjects(),
		SecretsFile:   env("REELAY_SECRETS_FILE", ""),
		log:           env("REELAY_LOG", "text"),
		name:          env("REELAY_NAME", ""),
		ConsoleName:   env("REELAY_CONSOLE_NAME", ""),
		SSO:           readSSO(),
		Moderation:    readModeration(),

		LocalProvider:  env("REELAY_LOCAL_PROVIDER", ""),
		programs:       env("REELAY_PROVIDERS", ""),
		prices:         env("REELAY_PRICES", ""),
		providerLimits: env("REELAY_PROVIDER_LIMITS", ""),
		alertsFile:     env("REELAY_ALERTS", ""),
		gce:            gce.Config{APIEndpoint: env("REELAY_GCE_ENDPOINT", ""), Cluster: env("REELAY_CLUSTER", "reelay")},
		kubernetes: kubernetes.Config{
			URL: env("REELAY_KUBERNETES_URL", ""), TokenFile: env("REELAY_KUBERNETES_TOKEN_FILE", ""),
			CAFile: env("REELAY_KUBERNETES_CA_FILE", ""), Namespace: env("REELAY_KUBERNETES_NAMESPACE", ""),
			Cluster: env("REELAY_CLUSTER", "reelay"),
		},
		Introspection: env("REELAY_INTROSPECTION", "on"),

		Machines: identity.Config{
			Audience: env("REELAY_GCE_IDENTITY_AUDIENCE", ""), KeysURL: env("REELAY_GCE_IDENTITY_KEYS_URL", ""),
			Projects: list("REELAY_GCE_IDENTITY_PROJECTS"), Accounts: list("REELAY_GCE_IDENTITY_ACCOUNTS"),
		},
		TLS:         front.TLSFiles{Cert: env("REELAY_TLS_CERT", ""), Key: env("REELAY_TLS_KEY", "")},
		Region:      env("REELAY_REGION", ""),
		RegionPeers: list("REELAY_REGION_PEERS"),
		VideoModels: env("REELAY_VIDEO_MODELS", ""),
		Models:      env("REELAY_MODELS", ""),
	}
}

// NewestDatabaseURL and newestRedisURL return the addresses of the stores, with users and passwords that may
// have changed since the start. Those of the stores of `up` are in no setting.
func (c *Config) NewestDatabaseURL() string {
	return cmp.Or(secretfile.Newest("DATABASE_URL"), c.DatabaseURL)
}

func (c *Config) NewestRedisURL() string { return cmp.Or(secretfile.Newest("REDIS_URL"), c.RedisURL) }

// RedisHosts returns the addresses in REDIS_URL.
func (c Config) RedisHosts() []string {
	address, err := redisurl.Parse(c.RedisURL)
	if err != nil {
		return nil
	}
	return address.Hosts
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

// Check returns one line for every invalid setting: its name, its value and the allowed
// values.
func (c *Config) Check() error {
	var wrong []error
	bad := func(name, value, may string) {
		wrong = append(wrong, fmt.Errorf("%s is %q: it must be %s", name, value, may))
	}
	if !front.ValidListen(c.Listen) {
		bad("REELAY_LISTEN (--listen)", c.Listen, "host:port, for example 127.0.0.1:8080, or fd:3 for an inherited listening socket")
	}
	if c.MetricsListen != "" && !front.ValidListen(c.MetricsListen) {
		bad("REELAY_METRICS_LISTEN", c.MetricsListen, "host:port, for example 127.0.0.1:9090")
	}
	if c.PublicURL != "" {
		if u, err := url.Parse(c.PublicURL); err != nil || u.Scheme != "http" && u.Scheme != "https" ||
			u.Host == "" || u.Path != "" && u.Path != "/" {
			bad("REELAY_PUBLIC_URL", c.PublicURL, "the http or https address at which clients reach this API, without a path")
		}
		c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	}
	c.checkGCE(bad)
	c.checkKubernetes(bad)
	c.checkRegion(bad)
	if info, err := os.Stat(c.programs); c.programs != "" && (err != nil || !info.IsDir()) {
		bad("REELAY_PROVIDERS", c.programs, "a folder with the programs of the provider command")
	}
	if c.Introspection != "on" && c.Introspection != "off" {
		bad("REELAY_INTROSPECTION", c.Introspection, "on or off")
	}
	if c.log != "text" && c.log != "json" {
		bad("REELAY_LOG", c.log, "text or json")
	}
	if len(c.ConsoleName) > 40 || !utf8.ValidString(c.ConsoleName) {
		bad("REELAY_CONSOLE_NAME", c.ConsoleName, "up to 40 bytes of UTF-8")
	}
	wrong = append(wrong, c.SSO.check(), c.Moderation.check(bad))
	c.checkNumbers(bad)
	names := os.Getenv("REELAY_HOSTS")
	var err error
	if c.Hosts, err = front.ReadHosts(names); err != nil {
		bad("REELAY_HOSTS", names, "host names without scheme and port, separated by commas")
	}
	c.checkOwn(bad)
	pages := os.Getenv("REELAY_ORIGINS")
	if c.Origins, err = front.ReadOrigins(pages); err != nil {
		bad("REELAY_ORIGINS", pages, "hosts of pages without a scheme, such as app.example,*.studio.example,localhost:5173")
	}
	c.checkRetention(bad)
	for name, is := range map[string]*bool{
		"REELAY_OUTBOUND_LOOPBACK": &c.Outbound.AllowLoopback, "REELAY_METRICS_OPEN": &c.MetricsOpen, "REELAY_FORECAST": &c.Scaling.Forecast,
	} {
		value := env(name, strconv.FormatBool(is == &c.Scaling.Forecast))
		if value != "true" && value != "false" {
			bad(name, value, "true or false")
		}
		*is = value == "true"
	}
	for _, project := range c.Machines.Projects {
		if !identity.IsProject(project) {
			bad("REELAY_GCE_IDENTITY_PROJECTS", project, "ids of projects, such as my-project, separated by commas")
		}
	}
	if u, err := url.Parse(c.Machines.KeysURL); err != nil || c.Machines.KeysURL != "" &&
		(u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		bad("REELAY_GCE_IDENTITY_KEYS_URL", c.Machines.KeysURL, "an https URL, or empty for Google's")
	}
	wrong = append(wrong, c.TLS.Check(), c.checkModels(), c.checkPrices(), c.checkLimits(), c.checkAlerts())
	wrong = append(wrong, c.checkStores(bad))
	return errors.Join(wrong...)
}

// checkNumbers reads and checks the numeric settings.
func (c *Config) checkNumbers(bad func(name, value, may string)) {
	number := func(name, fallback string, least, most int) int {
		value := env(name, fallback)
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			bad(name, value, fmt.Sprintf("a number from %d to %d", least, most))
		}
		return n
	}
	if c.DatabaseMax < 0 {
		c.DatabaseMax = number("REELAY_DATABASE_CONNECTIONS", "32", 4, 1000)
	}
	c.Scaling = fleet.Policy{
		OnDemandShare: 1 - float64(number("REELAY_SPOT_PERCENT", "70", 0, 100))/100,
		Reserve:       float64(number("REELAY_RESERVE_PERCENT", "10", 0, 100)) / 100,
	}
	c.StopDelay = time.Duration(number("REELAY_STOP_DELAY_SECONDS", "0", 0, 60)) * time.Second
	c.UserShare = number("REELAY_USER_QUEUE_PERCENT", strconv.Itoa(submit.DefaultUserShare), 1, 100)
}

// checkGCE checks the settings for Compute Engine.
func (c *Config) checkGCE(bad func(name, value, may string)) {
	if u, err := url.Parse(c.gce.APIEndpoint); c.gce.APIEndpoint != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		bad("REELAY_GCE_ENDPOINT", c.gce.APIEndpoint, "the http or https address of a server that imitates Compute Engine")
	}
	if len(c.gce.Cluster) > 63 {
		bad("REELAY_CLUSTER", c.gce.Cluster, "a name of up to 63 bytes")
	}
}

// checkKubernetes checks the settings for the API server of Kubernetes.
func (c *Config) checkKubernetes(bad func(name, value, may string)) {
	k := c.kubernetes
	if u, err := url.Parse(k.URL); k.URL != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "") {
		bad("REELAY_KUBERNETES_URL", k.URL, "the https address of an API server of Kubernetes, without a name, a password or a query")
	}
	for name, path := range map[string]string{"REELAY_KUBERNETES_TOKEN_FILE": k.TokenFile, "REELAY_KUBERNETES_CA_FILE": k.CAFile} {
		if info, err := os.Stat(path); path != "" && (err != nil || info.IsDir()) {
			bad(name, path, "a file that this process can read")
		}
	}
	if k.URL != "" && k.TokenFile == "" {
		bad("REELAY_KUBERNETES_TOKEN_FILE", "", "a file with the token of a service account, because REELAY_KUBERNETES_URL is set")
	}
	switch {
	case k.Namespace != "" && !kubernetes.IsNamespace(k.Namespace):
		bad("REELAY_KUBERNETES_NAMESPACE", k.Namespace, "the name of a namespace")
	case k.Namespace == "" && k.URL != "":
		bad("REELAY_KUBERNETES_NAMESPACE", "", "the namespace of templates and pods, because REELAY_KUBERNETES_URL is set")
	}
}

// checkOwn reads the addresses that customers' URLs must not reach.
func (c *Config) checkOwn(bad func(name, value, may string)) {
	c.Own = nil
	for address := range strings.SplitSeq(os.Getenv("REELAY_OUTBOUND_EXCEPT"), ",") {
		if address = strings.TrimSpace(address); address == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(address); err != nil || !front.ValidPort(port) {
			bad("REELAY_OUTBOUND_EXCEPT", address, "host:port, several of them separated by commas")
		}
		c.Own = append(c.Own, address)
	}
}

// checkStores checks the addresses of the stores. An error never shows a URL, because it
// contains a password.
func (c *Config) checkStores(bad func(name, value, may string)) error {
	var wrong []error
	if u, err := url.Parse(c.DatabaseURL); c.DatabaseURL != "" && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		wrong = append(wrong, errors.New("DATABASE_URL is malformed: it must be postgres://user:password@host:5432/name"))
	}
	if c.RedisURL != "" {
		if _, err := redisurl.Parse(c.RedisURL); err != nil {
			wrong = append(wrong, fmt.Errorf("REDIS_URL is malformed: %w", err))
		}
	}
	return errors.Join(append(wrong, c.Objects.check(bad))...)
}

// checkModels checks that the models, and their names in the Videos API, can be read.
func (c *Config) checkModels() error {
	if _, _, err := c.LoadModels(); err != nil {
		return fmt.Errorf("REELAY_MODELS is %q: it must be a folder with a models.yaml: %w", c.Models, err)
	}
	if _, err := videos.ReadModels(c.VideoModels); err != nil {
		return fmt.Errorf("REELAY_VIDEO_MODELS is %q: it must be pairs such as sora-2=testcard, separated by commas: %w", c.VideoModels, err)
	}
	return nil
}

// LoadModels returns the entries of REELAY_MODELS, or nil, and the models that jobs can use
// until the database's are read.
func (c *Config) LoadModels() (*catalogue.Source, *catalogue.Snapshot, error) {
	if c.Models == "" {
		known, err := catalogue.Load()
		return nil, known, err
	}
	folder, err := catalogue.ReadFolder(os.DirFS(c.Models))
	if err != nil {
		return nil, nil, err
	}
	known, err := catalogue.Load(folder)
	return folder, known, err
}

// maxDays is the longest retention: ten years.
const maxDays = 3650

// checkRetention reads the retention times. The data of a job cannot be kept longer than
// the job.
func (c *Config) checkRetention(bad func(name, value, may string)) {
	c.Retention = upkeep.DefaultRetention
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
	days("REELAY_RETENTION_JOBS_DAYS", &c.Retention.Jobs, maxDays)
	jobsDays := int(c.Retention.Jobs / day)
	days("REELAY_RETENTION_EVENTS_DAYS", &c.Retention.Events, jobsDays)
	days("REELAY_RETENTION_FILMS_DAYS", &c.Retention.Videos, jobsDays)
}

const day = 24 * time.Hour

// Need checks the settings of a process that does not start its own stores.
func (c *Config) Need() error {
	wrong := []error{c.Check()}
	for name, value := range map[string]string{
		"DATABASE_URL":        c.DatabaseURL,
		"REDIS_URL":           c.RedisURL,
		"REELAY_SECRETS_FILE": c.SecretsFile,
	} {
		if value == "" {
			wrong = append(wrong, fmt.Errorf("%s is not set: this process needs it (only `reelay up` starts its own stores)", name))
		}
	}
	if !c.Objects.Named() {
		wrong = append(wrong, errors.New("REELAY_STORE is not set: this process needs it, such as s3://BUCKET or gs://BUCKET "+
			"(only `reelay up` starts its own stores)"))
	}
	return errors.Join(wrong...)
}

// SetUpLog configures the process's log.
func (c *Config) SetUpLog() {
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
	for _, stranger := range Strangers(os.Environ()) {
		slog.Warn(stranger)
	}
}

// Providers returns the providers with which this process can start and stop machines.
func (c *Config) Providers() map[string]fleet.Provider {
	all := map[string]fleet.Provider{gce.Name: c.GCEProvider(), kubernetes.Name: c.KubernetesProvider()}
	if c.LocalProvider != "" {
		all[local.Name] = local.Dial(c.LocalProvider)
	}
	if c.programs != "" {
		all[command.Name] = command.New(command.Config{Folder: c.programs, Enrolment: c.enrolment()})
	}
	return all
}

// GCEProvider returns the provider for Compute Engine, which connects when it is used.
func (c *Config) GCEProvider() *gce.Provider {
	config := c.gce
	config.Enrolment = c.enrolment()
	config.Enrolment.ByIdentity = len(c.Machines.Projects) > 0
	config.Enrolment.Audience = c.Machines.Audience
	return gce.New(config)
}

// KubernetesProvider returns the provider for pods of Kubernetes, which connects when it is used.
func (c *Config) KubernetesProvider() *kubernetes.Provider {
	config := c.kubernetes
	config.Endpoint = c.PublicURL
	return kubernetes.New(config)
}

// enrolment returns the endpoint and the key file of agents on other machines.
func (c *Config) enrolment() fleet.Enrolment {
	return fleet.Enrolment{Endpoint: c.PublicURL, KeyFile: os.Getenv("REELAY_AGENT_KEY_FILE")}
}

// checkAlerts reads the receivers and rules of alerts.
func (c *Config) checkAlerts() error {
	c.Alerts = alert.Default()
	if c.alertsFile == "" {
		return nil
	}
	data, err := os.ReadFile(c.alertsFile)
	if err == nil {
		c.Alerts, err = alert.Read(c.alertsFile, data)
	}
	if err != nil {
		return fmt.Errorf("REELAY_ALERTS is %q: it must be a file of receivers of alerts: %w", c.alertsFile, err)
	}
	return nil
}

// checkLimits reads the limits of hosted providers.
func (c *Config) checkLimits() (err error) {
	if c.Limits, err = hosted.ReadLimits(c.providerLimits); err != nil {
		return fmt.Errorf("REELAY_PROVIDER_LIMITS is %q: it must be a file of limits of providers: %w", c.providerLimits, err)
	}
	return nil
}

// checkPrices reads the sources of prices.
func (c *Config) checkPrices() error {
	c.PriceSources = nil
	if c.prices == "" {
		return nil
	}
	data, err := os.ReadFile(c.prices)
	if err == nil {
		c.PriceSources, err = prices.ReadSources(c.prices, data)
	}
	if err != nil {
		return fmt.Errorf("REELAY_PRICES is %q: it must be a file of sources of prices: %w", c.prices, err)
	}
	return nil
}
