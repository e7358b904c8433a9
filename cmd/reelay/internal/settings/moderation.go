package settings

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/adapters/moderation"
	"github.com/reelay/reelay/internal/secretfile"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/submit"
)

// Moderation configures the hook that decides on the content of jobs. Without a URL there is none.
type Moderation struct {
	URL, secret, timeout, onFailure string
	// limit is the timeout, which check reads.
	limit time.Duration
}

func readModeration() Moderation {
	return Moderation{
		URL: env("REELAY_MODERATION_URL", ""), secret: env("REELAY_MODERATION_SECRET", ""),
		timeout: env("REELAY_MODERATION_TIMEOUT", "2s"), onFailure: env("REELAY_MODERATION_ON_FAILURE", "closed"),
	}
}

// check never shows the URL, which may hold a password.
func (c *Moderation) check(bad func(name, value, may string)) error {
	var wrong []error
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
		wrong = append(wrong, errors.New("REELAY_MODERATION_URL is malformed: it must be an http or https URL"))
	}
	if strings.ContainsFunc(c.secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		wrong = append(wrong, errors.New("REELAY_MODERATION_SECRET must have printable characters of ASCII only, without spaces"))
	}
	var err error
	if c.limit, err = time.ParseDuration(c.timeout); err != nil || c.limit < moderation.MinTimeout || c.limit > moderation.MaxTimeout {
		bad("REELAY_MODERATION_TIMEOUT", c.timeout, fmt.Sprintf("a time from %s to %s, such as 2s or 500ms",
			moderation.MinTimeout, text.Setting(moderation.MaxTimeout)))
	}
	if c.onFailure != "closed" && c.onFailure != "open" {
		bad("REELAY_MODERATION_ON_FAILURE", c.onFailure, "closed or open")
	}
	return errors.Join(wrong...)
}

// Hook returns the hook, or nil if none is configured.
func (c *Moderation) Hook(observe func(submit.Moderation, time.Duration)) *moderation.Hook {
	if c.URL == "" {
		return nil
	}
	return moderation.New(moderation.Config{
		URL: c.URL, Timeout: c.limit, Open: c.onFailure == "open", Observe: observe,
		Secret: func() string { return secretfile.Newest("REELAY_MODERATION_SECRET") },
	})
}
