package shell

import (
	"net/http"

	"github.com/reelay/reelay/jobs"
)

// shortcut is a line of the page of the keys.
type shortcut struct {
	keys []string
	does string
}

// shortcuts are the keys that keys.js knows, besides those of the navigation.
var shortcuts = []shortcut{
	{[]string{"?"}, "Show these keys"},
	{[]string{"Ctrl K", "p"}, "Go to a page, act, or open a job by its id"},
	{[]string{"/"}, "Search"},
	{[]string{"j", "k"}, "Select the next or the previous row"},
	{[]string{"Enter"}, "Open the selected row"},
	{[]string{"x"}, "Check the selected row"},
	{[]string{"r"}, "Retry, or what the page or row has for it"},
	{[]string{"c"}, "Cancel, or what the page or row has for it"},
	{[]string{"."}, "Pause or resume live updates"},
	{[]string{"t"}, "Theme: auto, dark, light"},
	{[]string{"z"}, "Times in your zone or in UTC"},
	{[]string{"Esc"}, "Close, or leave a field"},
}

func (c *Shell) keyboard(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return Render(w, r, http.StatusOK, keyboardPage())
}
