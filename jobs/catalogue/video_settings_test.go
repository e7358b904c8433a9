package catalogue_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

func TestExpress(t *testing.T) {
	t.Parallel()

	const (
		words  = `"resolution": {"enum": ["480p", "720p", "1080p"]}, "aspectRatio": {"enum": ["16:9", "9:16", "1:1"]}`
		upper  = `"resolution": {"enum": ["768P", "1080P"]}`
		pixels = `"width": {"type": "integer", "maximum": 1920, "multipleOf": 2}, "height": {"type": "integer", "maximum": 1920}`
		size   = `"size": {"enum": ["1280x720", "832x480"]}`
		star   = `"size": {"enum": ["1280*720"]}`
		ratio  = `"ratio": {"enum": ["1280:720", "720:1280"]}`
		aspect = `"aspect_ratio": {"type": "string"}`
	)
	for name, c := range map[string]struct {
		properties string
		asked      catalogue.Common
		params     string // "" if it is refused
		field      string
	}{
		"words":                       {words, catalogue.Common{Resolution: "720p"}, `{"resolution": "720p"}`, ""},
		"words, upper case":           {words, catalogue.Common{Resolution: "720P"}, `{"resolution": "720p"}`, ""},
		"words for a size":            {words, catalogue.Common{Resolution: "720x1280"}, `{"resolution": "720p", "aspectRatio": "9:16"}`, ""},
		"words for a size and aspect": {words, catalogue.Common{Resolution: "1280x720", AspectRatio: "16:9"}, `{"resolution": "720p", "aspectRatio": "16:9"}`, ""},
		"words and an aspect":         {words, catalogue.Common{Resolution: "480p", AspectRatio: "1:1"}, `{"resolution": "480p", "aspectRatio": "1:1"}`, ""},
		"no such word":                {words, catalogue.Common{Resolution: "721p"}, "", "resolution"},
		"no such size":                {words, catalogue.Common{Resolution: "1024x1792"}, "", "resolution"},
		"no such aspect":              {words, catalogue.Common{AspectRatio: "2:1"}, "", "aspectRatio"},
		"another case":                {upper, catalogue.Common{Resolution: "1080p"}, `{"resolution": "1080P"}`, ""},
		"an aspect that it lacks":     {upper, catalogue.Common{Resolution: "1080p", AspectRatio: "1:1"}, "", "aspectRatio"},
		"pixels":                      {pixels, catalogue.Common{Resolution: "1280x720"}, `{"width": 1280, "height": 720}`, ""},
		"pixels for words":            {pixels, catalogue.Common{Resolution: "720p"}, `{"width": 1280, "height": 720}`, ""},
		"pixels for words and aspect": {pixels, catalogue.Common{Resolution: "720p", AspectRatio: "9:16"}, `{"width": 720, "height": 1280}`, ""},
		"even pixels":                 {pixels, catalogue.Common{Resolution: "480p"}, `{"width": 854, "height": 480}`, ""},
		"too many pixels":             {pixels, catalogue.Common{Resolution: "3840x2160"}, "", "resolution"},
		"one size of a list":          {size, catalogue.Common{Resolution: "832x480"}, `{"size": "832x480"}`, ""},
		"a size with a star":          {star, catalogue.Common{Resolution: "1280x720"}, `{"size": "1280*720"}`, ""},
		"a ratio of pixels":           {ratio, catalogue.Common{Resolution: "720p", AspectRatio: "9:16"}, `{"ratio": "720:1280"}`, ""},
		"only an aspect":              {aspect, catalogue.Common{AspectRatio: "21:9"}, `{"aspect_ratio": "21:9"}`, ""},
		"seconds":                     {`"seconds": {"type": "number"}`, catalogue.Common{DurationSeconds: "5.5"}, `{"seconds": 5.5}`, ""},
		"seconds as a text":           {`"duration": {"enum": ["5", "10"]}`, catalogue.Common{DurationSeconds: "10"}, `{"duration": "10"}`, ""},
		"seconds with their unit":     {`"duration": {"enum": ["5s", "9s"]}`, catalogue.Common{DurationSeconds: "9"}, `{"duration": "9s"}`, ""},
		"seconds of another list":     {`"duration": {"enum": ["5s", "9s"]}`, catalogue.Common{DurationSeconds: "10"}, "", "durationSeconds"},
		"a negative prompt":           {`"negative_prompt": {"type": "string"}`, catalogue.Common{NegativePrompt: new("")}, `{"negative_prompt": ""}`, ""},
		"images as a list": {`"images": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-reelay-input": "image"}`,
			catalogue.Common{Image: "https://a"}, `{"images": ["https://a"]}`, ""},
		"the first of two images": {`"end_image": {"type": "string", "x-reelay-input": "image"}, "start_image": {"type": "string", "x-reelay-input": "image"}`,
			catalogue.Common{Image: "https://a"}, `{"start_image": "https://a"}`, ""},
		"no image":            {`"clip": {"type": "string", "x-reelay-input": "video"}`, catalogue.Common{Image: "https://a"}, "", "imageUrl"},
		"a large seed":        {`"seed": {"type": "integer", "maximum": 9}`, catalogue.Common{Seed: "10"}, "", "seed"},
		"nothing":             {words, catalogue.Common{}, `{}`, ""},
		"no parameter at all": {``, catalogue.Common{Seed: "1"}, "", "seed"},
	} {
		m, err := parsed(c.properties)
		require.NoError(t, err, name)
		known := catalogue.New(m)

		params, _, err := known.Models()[0].Express(c.asked)

		if c.params == "" {
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused, name)
			require.Equal(t, apierror.CodeInvalidInput, refused.Code, name)
			require.Equal(t, c.field, refused.Field, "%s: %s", name, refused.Message)
			continue
		}
		require.NoError(t, err, name)
		raw, err := json.Marshal(params)
		require.NoError(t, err)
		require.JSONEq(t, c.params, string(raw), name)
	}
}
