package fakes

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/jobs"
)

// setup is what differs between the fakes.
type setup struct {
	path  string         // of the provider's API, behind the fake's address
	model string         // the provider's name of its model, if it is not model-1
	fixed map[string]any // parameters that the provider requires
}

var setups = map[string]setup{
	"fal":       {model: "fal-ai/kling-video/v2/master/text-to-video"},
	"kling":     {model: "text-to-video/kling-3.0", fixed: map[string]any{"settings.duration": 5}},
	"luma":      {path: "/v1"},
	"minimax":   {fixed: map[string]any{"duration": 6}},
	"replicate": {path: "/v1", model: "kwaivgi/kling-v2.1"},
	"runpod":    {path: "/v2/a1b2c3d4"},
	"runway":    {fixed: map[string]any{"duration": 5}},
	"veo":       {path: "/v1/projects/p1/locations/us-central1", fixed: map[string]any{"parameters.durationSeconds": 4}},
}

// Pool returns the name of the pool, and of the model, of the fake of a provider, such as fake-veo.
func Pool(provider string) string { return "fake-" + provider }

// Pools returns the pools of the fakes. An agent must serve each.
func (f *Fakes) Pools() (all []string) {
	if f != nil {
		for _, name := range f.names {
			all = append(all, Pool(name))
		}
	}
	return all
}

// Apply writes a model and a pool for each fake.
func (f *Fakes) Apply(ctx context.Context, models *registry.Registry, pools *fleet.Pools) error {
	if f == nil {
		return nil
	}
	var entries, pooled []map[string]any
	for _, name := range f.names {
		entries = append(entries, modelOf(name))
		pooled = append(pooled, map[string]any{
			"name": Pool(name), "provider": engine.Provider, "engineKind": name, "engines": []string{f.urls[name]}, "models": []string{Pool(name)},
		})
	}
	source, err := json.Marshal(map[string]any{"models": entries})
	if err != nil {
		return err
	}
	if _, err := models.Apply(ctx, jobs.Host, registry.Application{File: flag, Source: string(source)}); err != nil {
		return fmt.Errorf("write the models of the fakes: %w", err)
	}
	if source, err = json.Marshal(map[string]any{"pools": pooled}); err != nil {
		return err
	}
	if _, err := pools.Apply(ctx, jobs.Host, fleet.PoolFile{File: flag, Source: string(source)}); err != nil {
		return fmt.Errorf("write the pools of the fakes: %w", err)
	}
	return nil
}

// flag is named as the source of the models and pools.
const flag = "--fake-providers"

// modelOf returns the entry of a fake's model in the catalogue.
func modelOf(name string) map[string]any {
	settings := map[string]any{"fixed": setups[name].fixed}
	switch model := setups[name].model; {
	case model != "":
		settings["model"] = model
	case name != "runpod": // there an endpoint has one model, which its address names
		settings["model"] = "model-1"
	}
	return map[string]any{
		"name": Pool(name), "type": "video.generate",
		"description": "A fake of " + provider.Find(name).Title + ", for trying Reelay without an account.",
		"runtime":     name, "settings": settings, "gpuTypes": []string{"any"}, "timeoutSeconds": 600, "gpuSecondsPerSecond": 3,
		"params": map[string]any{"type": "object", "properties": map[string]any{
			"durationSeconds": map[string]any{"type": "number", "minimum": shortest, "maximum": longest}}},
	}
}
