package provider

import (
	"slices"
	"strings"
)

// All are all adapters, in the order of their names.
var All = sorted(
	Fal,
	Gemini,
	Kling,
	Luma,
	MiniMax,
	Replicate,
	RunPod,
	Runway,
	Veo,
)

func sorted(all ...*Adapter) []*Adapter {
	slices.SortFunc(all, func(a, b *Adapter) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Find returns the adapter of a name, or nil.
func Find(name string) *Adapter {
	if i := slices.IndexFunc(All, func(a *Adapter) bool { return a.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}
