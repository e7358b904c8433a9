package catalogue

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/internal/httpcall"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Model is one version of an entry of the catalogue: a kind of work, its parameters, what it
// needs, and what it costs. The JSON form is what the database keeps.
type Model struct {
	Name        string `json:"name" yaml:"name"`
	Type        string `json:"type" yaml:"type"`
	Description string `json:"description,omitzero" yaml:"description"`
	// Runtime is the name of the runtime that renders with the model, and Settings what it is
	// given with each job, such as the folder of the weights.
	Runtime  string          `json:"runtime,omitzero" yaml:"runtime"`
	Settings json.RawMessage `json:"settings,omitzero" yaml:"-"`
	// GPUTypes lists the GPU types that can run it, smallest first, or any.
	GPUTypes []string `json:"gpuTypes" yaml:"gpuTypes"`
	// GPUMemoryGB is the GPU memory that it needs, in gigabytes; 0 means unknown.
	GPUMemoryGB   float64 `json:"gpuMemoryGb,omitzero" yaml:"gpuMemoryGb"`
	GPUsPerWorker int     `json:"gpusPerWorker" yaml:"gpusPerWorker"`
	Produces      Product `json:"produces" yaml:"produces"`
	// RequiresPrompt means that a submit must have a prompt.
	RequiresPrompt bool `json:"requiresPrompt,omitzero" yaml:"requiresPrompt"`
	// TimeoutSeconds is the base of an attempt's running time, which factors for
	// resolution and length multiply.
	TimeoutSeconds float64 `json:"timeoutSeconds" yaml:"timeoutSeconds"`
	// GPUSecondsPerSecond is how long one second of video takes to render, until measured
	// times are known.
	GPUSecondsPerSecond float64 `json:"gpuSecondsPerSecond" yaml:"gpuSecondsPerSecond"`
	// TimeDependsOn names the parameters on which the time of a render depends. Render times are
	// learned per class of their values (see TimeClass). Empty means resolution and durationSeconds.
	TimeDependsOn []string `json:"timeDependsOn,omitzero" yaml:"timeDependsOn"`
	// Retry applies to jobs that state no retry policy of their own.
	Retry *Retry `json:"retry,omitzero" yaml:"retry"`
	// Fallback names the models that may render its jobs instead, in order, unless a job has a list of its own.
	Fallback []string `json:"fallback,omitzero" yaml:"fallback"`
	// PriceFactor multiplies the price of a GPU second.
	PriceFactor float64 `json:"priceFactor" yaml:"priceFactor"`
	// Accounts are those that see the model and may submit it; none means all.
	Accounts []models.AccountID `json:"accounts,omitzero" yaml:"accounts"`
	// Drafts says how it makes drafts; nil if it makes none.
	Drafts *Drafts `json:"drafts,omitzero" yaml:"drafts"`
	// Determinism is what a resume with another fingerprint does; empty means BestEffort.
	Determinism Determinism `json:"determinism,omitzero" yaml:"determinism"`
	// Quality adjusts the check of the rendered video, as checkQuality allows.
	Quality json.RawMessage `json:"quality,omitzero" yaml:"-"`
	// Schema is the JSON Schema of params, as published.
	Schema json.RawMessage `json:"params" yaml:"-"`

	// Version counts the changes of the entry, from 1.
	Version int `json:"-" yaml:"-"`
	// Origin says who wrote this version; CreatedAt when. Both are empty before it is stored.
	Origin    capacity.CatalogueOrigin `json:"-" yaml:"-"`
	CreatedAt time.Time                `json:"-" yaml:"-"`
	// RemovedAt is when the model was removed, if this is its newest version, and RemovedBy who did.
	RemovedAt time.Time `json:"-" yaml:"-"`
	RemovedBy string    `json:"-" yaml:"-"`

	compiled *jsonschema.Schema
	outbound *outbound.Policy // of the catalogue that holds the model
	defaults map[string]any
	inputs   []inputParam // the parameters that name files
	timed    []timed      // those that TimeDependsOn names
	// graphs is what graphs may have that jobs bring; nil if they bring none.
	graphs *comfy.Allowed
}

// LeasedSettings returns the settings that a worker gets with a job. Those of HTTP requests name
// Reelay's own addresses, which a worker cannot know and must not call.
func (m *Model) LeasedSettings() json.RawMessage {
	if m.Runtime != httpcall.Runtime || m.outbound == nil {
		return m.Settings
	}
	settings, err := json.Marshal(httpcall.Settings{Except: m.outbound.Own()})
	if err != nil {
		return m.Settings // it consists of texts
	}
	return settings
}

// Product is what a job of a model ends with.
type Product string

const (
	ProducesVideo  Product = "VIDEO"
	ProducesImage  Product = "IMAGE"
	ProducesOutput Product = "OUTPUT"
)

// GPUMemory is GPUMemoryGB, or nil if it is unknown.
func (m *Model) GPUMemory() *float64 {
	if m.GPUMemoryGB == 0 {
		return nil
	}
	return &m.GPUMemoryGB
}

// RequiresVideo reports whether completeJob must name a video.
func (m *Model) RequiresVideo() bool { return m.Produces == ProducesVideo }

// Retry is a model's own retry policy.
type Retry struct {
	// MaxAttempts is 1 to 20; nil means the tier's.
	MaxAttempts         *int           `json:"maxAttempts,omitzero" yaml:"maxAttempts"`
	Backoff             models.Backoff `json:"backoff,omitzero" yaml:"backoff"`
	InitialDelaySeconds *float64       `json:"initialDelaySeconds,omitzero" yaml:"initialDelaySeconds"`
	MaxDelaySeconds     *float64       `json:"maxDelaySeconds,omitzero" yaml:"maxDelaySeconds"`
}

// Policy returns the delays between attempts, or nil if r sets none.
func (r *Retry) Policy() *models.RetryPolicy {
	if r.Backoff == "" && r.InitialDelaySeconds == nil && r.MaxDelaySeconds == nil {
		return nil
	}
	backoff := cmp.Or(r.Backoff, models.BackoffExponential)
	return &models.RetryPolicy{Backoff: backoff, InitialDelaySeconds: r.InitialDelaySeconds, MaxDelaySeconds: r.MaxDelaySeconds}
}

// reckoning holds the parameters that determine the cost. A model without them counts
// as one second of video.
type reckoning struct {
	DurationSeconds *float64 `json:"durationSeconds"`
	Resolution      string   `json:"resolution"`
	Pace            *float64 `json:"pace"`
}

func ReadReckoning(params json.RawMessage) (seconds float64, r reckoning) {
	// The params match the schema: one that does not decode here is not set.
	_ = json.Unmarshal(params, &r)
	if r.DurationSeconds == nil {
		return 1, r
	}
	return *r.DurationSeconds, r
}

// EstimateGPUSeconds is the estimated work of a job. Accounts share a lane by it. It is in
// proportion to the numbers that TimeDependsOn names.
func (m *Model) EstimateGPUSeconds(params json.RawMessage) float64 {
	seconds, r := ReadReckoning(params)
	perSecond := m.GPUSecondsPerSecond
	if r.Pace != nil {
		perSecond = *r.Pace
	}
	return 1 + seconds*perSecond*resolutionFactor(r.Resolution)*m.proportion(params)
}

// MaxWorkerModels is how many models one worker may name.
const MaxWorkerModels = 100

// MaxFallback is how many models may be named that render a job instead of its own.
const MaxFallback = 5

// MaxTimeout is the longest running time of one attempt, in seconds.
const MaxTimeout = 5 * 60 * 60

// Timeout is how many seconds one attempt may run: the base times 1.5 for 1080p
// or 2 for 4K, times 1.5 for more than ten seconds of video.
func (m *Model) Timeout(params json.RawMessage) int {
	seconds, r := ReadReckoning(params)
	t := m.TimeoutSeconds * resolutionFactor(r.Resolution)
	if seconds > 10 {
		t *= 1.5
	}
	if r.Pace != nil {
		t += seconds * *r.Pace
	}
	return int(math.Min(math.Ceil(t), MaxTimeout))
}

func resolutionFactor(resolution string) float64 {
	switch resolution {
	case "1080p":
		return 1.5
	case "4k", "2160p":
		return 2
	}
	return 1
}
