// Package kinds makes the engines of all kinds.
package kinds

import (
	"fmt"

	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/cog"
	"github.com/reelay/reelay/gpu/runtimes/remote/comfyui"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/gpu/runtimes/remote/videosapi"
	"github.com/reelay/reelay/internal/engine"
)

// New returns the engine of a kind at a target. gate is for hosted providers, and may be nil.
func New(kind engine.Kind, target remote.Target, gate hosted.Gate) (remote.Engine, error) {
	if adapter := kind.Hosted(); adapter != nil {
		return hosted.New(adapter, target, gate), nil
	}
	switch kind {
	case engine.ComfyUI:
		return comfyui.New(target), nil
	case engine.VideosAPI:
		return videosapi.New(target), nil
	case engine.Cog:
		return cog.New(target), nil
	}
	return nil, fmt.Errorf("there is no kind of engine %.40q", kind)
}
