package rest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/web/rest"
	"github.com/stretchr/testify/require"
)

// FuzzFields passes any params and payload through the code that handles them before the
// domain does.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{`{"fps": 9}`, `{"prompt": "x", "seed": 1e400}`, `null`, `{}`, `[]`, `{"prompt": null}`, `{"prompt": 7}`,
		``} {
		f.Add([]byte(seed), "x", "4.0")
	}
	catalogue, err := catalogue.Load()
	require.NoError(f, err)
	model, err := catalogue.Model("testcard")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw []byte, text, digits string) {
		if len(raw) > 0 && wellformed.JSON(raw) != nil || !json.Valid([]byte(digits)) {
			return // the middleware refuses these
		}
		number := rest.Number(digits)
		fields := []rest.Field{rest.NewField("resolution", "resolution", &text), rest.NewField("fps", "fps", &number)}
		if merged, err := rest.Merge(model, rest.Object(raw), fields); err == nil {
			require.True(t, json.Valid(merged))
			_, _ = model.Params(merged)
		}
		if _, params, err := rest.ReadPayload(rest.Object(raw)); err == nil {
			require.True(t, json.Valid(params))
		}
	})
}

func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"text/event-stream", "*/*", "application/json;q=0", ",,;", "text/html, */*;q=0.1", "a/b;c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest(http.MethodGet, "/api/video-generations/x", nil)
		r.Header.Set("Accept", accept)
		stream, _ := rest.WantsStream(r)
		require.False(t, stream, "there is no stream at this path")
	})
}
