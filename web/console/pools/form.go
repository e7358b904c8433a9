package pools

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// poolForm is the view of the form for a pool. Fields have their names in the API.
type poolForm struct {
	// Pool is the pool that is edited, or nil for a new one.
	Pool *capacity.Pool
	// Seen is the version of the pool that the values come from.
	Seen      string
	Values    url.Values
	Providers []string
	Kinds     []engine.Kind
	Models    []string
	// Errors are messages by the name of the field; "" is the whole form.
	Errors map[string]string
	// Newer are the values of the pool that differ from the form's, if it changed since the form
	// was opened; else nil.
	Newer map[string]string
}

// poolField is a field of one line.
type poolField struct {
	Name, Label, Hint string
	// Step is the step of a number; "" for a text.
	Step     string
	Required bool
}

var (
	poolPlaces = []poolField{
		{Name: "region", Label: "Region", Hint: "Where the machines are. Empty for a pool of engines: local."},
		{Name: "zones", Label: "Zones", Hint: "Preferred zone first (comma-separated). Empty: the provider chooses."},
		{Name: "gpuType", Label: "GPU type", Hint: "The name that models use in gpuTypes, such as H100. Empty for a pool of engines: engine."},
		{Name: "machineType", Label: "Machine type", Hint: "The provider's name, such as a3-highgpu-1g."},
		{Name: "priceSource", Label: "Price source", Hint: "The configured source of the price. Empty: the constant price below."},
		{Name: "accounts", Label: "Accounts", Hint: "Account ids this pool is reserved for (comma-separated). Empty: all accounts."},
	}
	poolNumbers = []poolField{
		{Name: "minWorkers", Label: "Minimum workers", Step: "1", Hint: "Kept even if no job waits."},
		{Name: "maxWorkers", Label: "Maximum workers", Step: "1", Hint: "0 to 10,000. 0 for a pool of engines: one for each.", Required: true},
		{Name: "warmWorkers", Label: "Warm workers", Step: "1", Hint: "Idle workers beyond what the waiting jobs need."},
		{Name: "workersPerMachine", Label: "Workers per machine", Step: "1"},
		{Name: "gpusPerWorker", Label: "GPUs per worker", Step: "1"},
		{Name: "pricePerHourUsd", Label: "Price per worker and hour in USD", Step: "any"},
		{Name: "maxPricePerHourUsd", Label: "Maximum price per worker and hour in USD", Step: "any",
			Hint: "While the price is higher, no worker is added. 0: no limit."},
		{Name: "scaleDownCooldownSeconds", Label: "Idle time before draining in seconds", Step: "1",
			Hint: "For workers above the minimum. Empty: as long as a boot and a load take."},
		{Name: "bootLimitSeconds", Label: "Boot timeout in seconds", Step: "1", Hint: "From the creation of a worker to its registration."},
	}
	poolHours = poolField{Name: "activeHours", Label: "Active hours",
		Hint: "When the pool may have workers, such as 0 2 * * * for 6h Europe/Berlin. Empty: always."}
)

// path is where the form is sent.
func (f *poolForm) path() string {
	if f.Pool == nil {
		return "/pools/new"
	}
	return string(address.Pool(f.Pool.ID)) + "/edit"
}

// newer returns what differs between a pool as it is now and as it was entered, by field.
func newer(now, entered capacity.PoolSpec) map[string]string {
	differing, mine := map[string]string{}, poolValues(entered)
	for name, values := range poolValues(now) {
		if !slices.Equal(slices.Sorted(slices.Values(values)), slices.Sorted(slices.Values(mine[name]))) {
			differing[name] = orWord(strings.Join(values, ", "), "empty")
		}
	}
	return differing
}

// newPoolForm returns a form without its pool.
func (c *controller) newPoolForm(values url.Values) *poolForm {
	known := lo.Map(c.Reads.Models.Catalogue.Current().Models(), func(m *catalogue.Model, _ int) string { return m.Name })
	return &poolForm{
		Values: values, Providers: c.Pools.Providers(), Kinds: engine.Kinds, Errors: map[string]string{},
		// A pool may have a model that was removed.
		Models: lo.Uniq(append(known, values["models"]...)),
	}
}

func (c *controller) poolNew(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, poolFormPage(c.newPoolForm(poolValues(capacity.PoolSpec{
		CapacityClass: models.CapacitySpot, BootLimitSeconds: models.DefaultBootLimitSeconds,
	}))))
}

func (c *controller) poolCreate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	f := c.newPoolForm(r.PostForm)
	spec := f.spec()
	if len(f.Errors) > 0 {
		return shell.Render(w, r, http.StatusUnprocessableEntity, poolFormPage(f))
	}
	pool, err := c.Pools.Create(r.Context(), p, spec)
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused) && refused.Code == apierror.CodeConflict:
		f.Errors["name"] = refused.Message
		return shell.Render(w, r, http.StatusConflict, poolFormPage(f))
	case errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput:
		f.refuse(refused)
		return shell.Render(w, r, http.StatusUnprocessableEntity, poolFormPage(f))
	case err != nil:
		return err
	}
	return c.toPool(w, r, pool, nil, "Created %s.")
}

func (c *controller) poolEdit(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	pool, err := c.Reads.Fleet.Pool(r.Context(), poolID(r))
	if err != nil {
		return err
	}
	f := c.newPoolForm(poolValues(pool.PoolSpec))
	f.Pool, f.Seen = pool.Pool, pool.Version()
	return shell.Render(w, r, http.StatusOK, poolFormPage(f))
}

func (c *controller) poolUpdate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	f := c.newPoolForm(r.PostForm)
	f.Seen = r.PostForm.Get("seen")
	spec := f.spec()
	var err error
	if len(f.Errors) == 0 {
		var saved *capacity.Pool
		if saved, err = c.Pools.UpdateIf(r.Context(), p, poolID(r), f.Seen, spec); err == nil {
			return c.toPool(w, r, saved, nil, "Saved %s.")
		}
	}
	var refused *apierror.Error
	if err != nil && (!errors.As(err, &refused) || refused.Code != apierror.CodeConflict && refused.Code != apierror.CodeInvalidInput) {
		return err
	}
	pool, readErr := c.Reads.Fleet.Pool(r.Context(), poolID(r))
	if readErr != nil {
		return readErr
	}
	f.Pool = pool.Pool
	status := http.StatusUnprocessableEntity
	switch {
	case refused == nil: // the form has errors of its own
	case refused.Code == apierror.CodeConflict && pool.Version() != f.Seen:
		f.Newer, f.Seen, status = newer(pool.PoolSpec, spec), pool.Version(), http.StatusConflict
	case refused.Code == apierror.CodeConflict:
		f.Errors["provider"], status = refused.Message, http.StatusConflict
	default:
		f.refuse(refused)
	}
	return shell.Render(w, r, status, poolFormPage(f))
}

// poolFieldNames are the names of all fields of the form.
var poolFieldNames = append([]string{"name", "provider", "capacityClass", "models", "tiers", "yieldingTiers", "holdOnFailure",
	"activeHours", "settings", "engineKind", "engines"},
	lo.Map(slices.Concat(poolPlaces, poolNumbers), func(f poolField, _ int) string { return f.Name })...)

// refuse shows an error beside its field.
func (f *poolForm) refuse(err *apierror.Error) {
	name, _, _ := strings.Cut(err.Field, ".") // settings.project is a part of settings
	if !slices.Contains(poolFieldNames, name) {
		name = ""
	}
	f.Errors[name] = err.Message
}

// poolValues returns the form's values of a pool.
func poolValues(s capacity.PoolSpec) url.Values {
	s = s.Written()
	if s.HasEngines() {
		s.MaxWorkers = 0 // the number of its engines, as they are entered
	}
	settings := pretty(s.Settings)
	if settings == "{}" {
		settings = ""
	}
	values := url.Values{
		"name": {s.Name}, "provider": {s.Provider}, "region": {s.Region}, "zones": {strings.Join(s.Zones, ", ")},
		"gpuType": {s.GPUType}, "machineType": {s.MachineType}, "capacityClass": {string(s.CapacityClass)}, "models": s.Models,
		"minWorkers": {strconv.Itoa(s.MinWorkers)}, "maxWorkers": {strconv.Itoa(s.MaxWorkers)}, "warmWorkers": {strconv.Itoa(s.WarmWorkers)},
		"scaleDownCooldownSeconds": {""}, "bootLimitSeconds": {strconv.Itoa(s.BootLimitSeconds)},
		"pricePerHourUsd": {strconv.FormatFloat(s.PricePerHourUSD, 'f', -1, 64)}, "activeHours": {s.ActiveHours}, "settings": {settings},
		"priceSource": {s.PriceSource}, "maxPricePerHourUsd": {strconv.FormatFloat(s.MaxPricePerHourUSD, 'f', -1, 64)},
		"workersPerMachine": {strconv.Itoa(s.WorkersPerMachine)}, "gpusPerWorker": {strconv.Itoa(s.GPUsPerWorker)},
		"engineKind": {string(s.EngineKind)}, "engines": {strings.Join(s.Engines, "\n")},
		"accounts": {text.Join(s.Accounts)}, "tiers": texts[string](s.Tiers), "yieldingTiers": texts[string](s.YieldingTiers),
	}
	if s.IdleSeconds != nil {
		values.Set("scaleDownCooldownSeconds", strconv.Itoa(*s.IdleSeconds))
	}
	if s.HoldOnFailure {
		values["holdOnFailure"] = []string{"true"}
	}
	return values
}

// spec reads the form's values. Those that cannot be read are in Errors.
func (f *poolForm) spec() capacity.PoolSpec {
	get := func(name string) string { return strings.TrimSpace(f.Values.Get(name)) }
	whole := func(name string) int {
		n, err := strconv.Atoi(get(name))
		if err != nil {
			f.Errors[name] = "This must be a whole number."
		}
		return n
	}
	number := func(name string) float64 {
		n, err := strconv.ParseFloat(get(name), 64)
		if err != nil {
			f.Errors[name] = "This must be a number."
		}
		return n
	}
	s := capacity.PoolSpec{
		Name: get("name"), Provider: get("provider"), Region: get("region"), Zones: words(get("zones")),
		GPUType: get("gpuType"), MachineType: get("machineType"), CapacityClass: models.CapacityClass(get("capacityClass")),
		Models:     f.Values["models"],
		EngineKind: engine.Kind(get("engineKind")), Engines: words(get("engines")),
		MinWorkers: whole("minWorkers"), MaxWorkers: whole("maxWorkers"), WarmWorkers: whole("warmWorkers"),
		BootLimitSeconds: whole("bootLimitSeconds"), ActiveHours: get("activeHours"),
		WorkersPerMachine: whole("workersPerMachine"), GPUsPerWorker: whole("gpusPerWorker"),
		PricePerHourUSD: number("pricePerHourUsd"), MaxPricePerHourUSD: number("maxPricePerHourUsd"), PriceSource: get("priceSource"),
		Accounts: texts[models.AccountID](words(get("accounts"))),
		Tiers:    texts[models.Tier](f.Values["tiers"]), YieldingTiers: texts[models.Tier](f.Values["yieldingTiers"]),
		HoldOnFailure: get("holdOnFailure") != "",
	}
	if get("scaleDownCooldownSeconds") != "" {
		s.IdleSeconds = new(whole("scaleDownCooldownSeconds"))
	}
	if settings := get("settings"); settings != "" {
		s.Settings = json.RawMessage(settings)
	}
	return s
}

// texts converts a list of texts.
func texts[To, From ~string](all []From) []To {
	return lo.Map(all, func(one From, _ int) To { return To(one) })
}

// words splits a list at commas and spaces.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}
