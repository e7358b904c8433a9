package fakeprovider

import (
	"fmt"
	"net/http"
	"time"
)

// shapes are all providers.
var shapes = map[string]shape{
	"fal":       fal,
	"gemini":    gemini,
	"kling":     kling,
	"luma":      luma,
	"minimax":   minimax,
	"replicate": replicate,
	"runpod":    runpod,
	"runway":    runway,
	"veo":       veo,
}

// New returns the fake of a provider.
func New(c Config) (*Fake, error) {
	s, ok := shapes[c.Provider]
	if !ok {
		return nil, fmt.Errorf("there is no fake of %.40q", c.Provider)
	}
	if c.Steps == 0 {
		c.Steps = 4
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	f := &Fake{config: c, shape: s, mux: http.NewServeMux()}
	for pattern, handle := range s.routes {
		f.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if e := f.admit(r); e != nil {
				s.refuse(w, *e)
				return
			}
			handle(f, w, r)
		})
	}
	f.mux.HandleFunc("GET /billed", func(w http.ResponseWriter, _ *http.Request) { // no part of the provider's API
		respond(w, http.StatusOK, object{"jobs": len(f.Tasks()), "most": f.Most()})
	})
	f.mux.HandleFunc("GET /films/{id}", f.film) // where the results lie
	return f, nil
}
