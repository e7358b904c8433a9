package pools

import (
	"fmt"
	"net/http"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/ui"
)

// unknownWords say what becomes of a submit that was not answered.
var unknownWords = map[capacity.UnknownSubmit]string{
	capacity.UnknownWait: "waits for a decision", capacity.UnknownGiveUp: "fails", capacity.UnknownPayAgain: "is submitted and paid again",
}

// errorName names an error of a provider in a few words.
func errorName(e *capacity.ProviderError) string {
	name := fmt.Sprintf("status %d", e.Status)
	if e.Status == 0 {
		name = "no answer"
	}
	if e.Code != "" {
		name += ", " + ui.Upright(e.Code)
	}
	return name
}

// resetProvider closes the circuit of the pool's hosted provider.
func (c *controller) resetProvider(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := c.Providers.Reset(r.Context(), p, poolID(r)); err != nil {
		return err
	}
	return c.Done(w, r, string(address.Pool(poolID(r))), "The circuit is closed: the provider is called again.")
}
