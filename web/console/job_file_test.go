package console

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

// attached is a file of a form.
type attached struct{ field, contentType, content string }

// postFiles posts a form as a browser does that has file inputs.
func (b *browser) postFiles(t *testing.T, path string, form url.Values, files ...attached) answer {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, values := range form {
		require.NoError(t, w.WriteField(name, values[0]))
	}
	require.NoError(t, w.WriteField("csrf", b.token(t)))
	for _, file := range files {
		name := "../<b>.bin"
		if file.content == "" { // none was chosen
			name = ""
		}
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {`form-data; name="` + file.field + `"; filename="` + name + `"`}, "Content-Type": {file.contentType},
		})
		require.NoError(t, err)
		_, err = io.WriteString(part, file.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+path, &body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", w.FormDataContentType())
	res, err := b.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answered, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res.StatusCode, res.Header, string(answered)}
}

// with returns the form with other values.
func with(form, changes url.Values) url.Values {
	all := maps.Clone(form)
	maps.Copy(all, changes)
	return all
}

func TestJobFiles(t *testing.T) {
	t.Parallel()

	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 64, 64))))
	const upload = "params." + catalogue.ReferenceImage + ".file"
	form := url.Values{"model": {"testcard"}, "prompt": {"<i>fog"}, "key": {"once"}}

	t.Run("StartFromAnUploadedImage", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		require.Regexp(t, `name="`+upload+`" accept="image/jpeg,image/png,image/webp"`, b.get(t, "/jobs/new").Body)

		estimated := b.postFiles(t, "/jobs/new", with(form, url.Values{"estimate": {"1"}, "userId": {"u-1"}}),
			attached{upload, "image/png", picture.String()})

		require.Equal(t, http.StatusOK, estimated.Status, estimated.Body)
		require.Contains(t, estimated.Body, "Starts in about")
		id := regexp.MustCompile(`name="params.referenceImage" value="(art_[^"]+)"`).FindStringSubmatch(estimated.Body)[1]
		got := b.postFiles(t, "/jobs/new", with(form, url.Values{"params.referenceImage": {id}}),
			attached{field: upload, contentType: "application/octet-stream"})
		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		var params map[string]any
		require.NoError(t, json.Unmarshal(b.jobs(t)[0].Params, &params))
		require.Equal(t, id, params["referenceImage"])
	})

	t.Run("StayWhereTheyAreIfSomethingElseIsWrong", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		refused := b.postFiles(t, "/jobs/new", with(form, url.Values{"params.fps": {"-3"}}), attached{upload, "image/png", picture.String()})

		require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
		require.Contains(t, refused.Body, `id="params.fps-error"`)
		require.Contains(t, refused.Body, "&lt;i&gt;fog</textarea>")
		require.Regexp(t, `name="params.referenceImage" value="art_`, refused.Body)
		changed := b.postFiles(t, "/jobs/new", with(form, url.Values{"model": {"drill"}, "change": {"1"}, "params.referenceImage": {"art_7"}}))
		require.Regexp(t, `type="hidden" name="params.referenceImage" value="art_7"`, changed.Body, "for the way back")
	})

	t.Run("AreRefusedBesideTheirField", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		for name, file := range map[string]attached{
			"no image":  {upload, "image/png", "<script>"},
			"a video":   {upload, "video/mp4", "not a video"},
			"too large": {upload, "image/png", string(make([]byte, 20<<20+1))},
			"nothing":   {upload, "video/mp4; codecs=x", " "},
		} {
			got := b.postFiles(t, "/jobs/new", form, file)

			require.Equal(t, http.StatusUnprocessableEntity, got.Status, name)
			require.Contains(t, got.Body, `id="params.referenceImage-error"`, name)
			require.Contains(t, got.Body, "&lt;i&gt;fog</textarea>", name)
			require.NotContains(t, got.Body, "<script>\"", name)
		}
		require.Empty(t, b.jobs(t))
		forged := url.Values{"csrf": {"x"}}
		require.Equal(t, http.StatusForbidden, b.post(t, "/jobs/new", forged).Status)
	})

	t.Run("ReachTheModelsOfVideosAndSounds", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		stitch := url.Values{"model": {"video.stitch"}, "params.clips": {"art_1"}}

		got := b.postFiles(t, "/jobs/new", stitch, attached{"params.clips.file", "video/mp4", "\x00\x00\x00\x18ftypmp42"},
			attached{"params.clips.file", "video/webm", "\x1aE\xdf\xa3\x87B\x82\x84webm"})

		require.Equal(t, http.StatusUnprocessableEntity, got.Status)
		require.Regexp(t, `(?s)id="params.clips"[^>]*>art_1\nart_[^\n]+\nart_[^\n]+</textarea>`, got.Body)
	})
}
