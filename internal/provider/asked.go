package provider

import (
	"regexp"
	"strings"

	"github.com/shopspring/decimal"
	"github.com/tidwall/gjson"
)

// Asked is what a submit asks for, as far as providers bill by it.
type Asked struct {
	// Model is the provider's name of the model.
	Model string `json:"model"`
	// Seconds is the length of the video, above 0 and up to MaxSeconds, with up to six decimals; nil if the request does not say it.
	Seconds *decimal.Decimal `json:"seconds,omitempty"`
	// Resolution is as the request has it, in lower case: 720p, 4k, or pixels such as 1280:720. "" means that it does not say it.
	Resolution string `json:"resolution,omitempty"`
	// Audio says whether the video has sound; nil if the request does not say it.
	Audio *bool `json:"audio,omitempty"`
}

// MaxSeconds bounds Asked.Seconds.
const MaxSeconds = 3600

const (
	maxAskedModel      = 200 // bytes
	maxAskedResolution = 32  // bytes
)

// Check returns what is wrong with a, as "the seconds must be …", or "".
func (a *Asked) Check() string {
	switch {
	case a.Model == "" || len(a.Model) > maxAskedModel || !plain.MatchString(a.Model):
		return "the model must have 1 to 200 letters, digits and . _ : / -"
	case a.Seconds != nil && !billable(*a.Seconds):
		return "the seconds must be above 0 and up to 3600, with up to six decimals"
	case len(a.Resolution) > maxAskedResolution || a.Resolution != "" && !plain.MatchString(a.Resolution):
		return "the resolution must have up to 32 letters, digits and . _ : / -"
	}
	return ""
}

// billable looks at the exponent first: to compare 1e999999999 takes all memory.
func billable(seconds decimal.Decimal) bool {
	return seconds.Exponent() >= -6 && seconds.Exponent() <= 4 && seconds.IsPositive() && !seconds.GreaterThan(decimal.NewFromInt(MaxSeconds))
}

var (
	plain   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)
	seconds = regexp.MustCompile(`^([0-9]{1,4}(?:\.[0-9]{1,6})?)s?$`)
)

// Reads are the places of Asked in the body of a submit. "" is one that the provider does not have.
type Reads struct{ Seconds, Resolution, Audio string }

// ReadAsked returns what the body of a submit asks for. What it does not say, or says in a way that no provider bills by, is
// unknown.
func (a *Adapter) ReadAsked(model string, body []byte) Asked {
	asked := Asked{Model: model}
	at := func(place string) gjson.Result {
		if place == "" {
			return gjson.Result{}
		}
		return gjson.GetBytes(body, place)
	}
	if found := seconds.FindStringSubmatch(at(a.Asked.Seconds).String()); found != nil {
		if length, err := decimal.NewFromString(found[1]); err == nil && billable(length) {
			asked.Seconds = &length
		}
	}
	if said := strings.ToLower(at(a.Asked.Resolution).String()); len(said) <= maxAskedResolution && plain.MatchString(said) {
		asked.Resolution = said
	}
	switch strings.ToLower(at(a.Asked.Audio).String()) {
	case "true", "on":
		asked.Audio = new(true)
	case "false", "off":
		asked.Audio = new(false)
	}
	return asked
}
