package localstack_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/stretchr/testify/require"
)

func TestObjectsGuard(t *testing.T) {
	t.Parallel()

	const key, secret = "clips%2Fvictim", "a secret"
	objects, err := localstack.StartObjects(localstack.ObjectsConfig{Dir: t.TempDir(), Bucket: "reelay", Secret: secret})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, objects.Stop(context.Background())) })
	call := func(t *testing.T, method, path, password, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+objects.Host()+path, strings.NewReader(body))
		require.NoError(t, err)
		req.SetBasicAuth("reelay", password)
		if strings.HasPrefix(body, "--part") {
			req.Header.Set("Content-Type", "multipart/related; boundary=part")
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(answer)
	}
	video := func(content string) string {
		return "--part\r\nContent-Type: application/json\r\n\r\n{\"name\":\"clips/victim\"}\r\n--part\r\nContent-Type: video/mp4\r\n\r\n" +
			content + "\r\n--part--\r\n"
	}
	const upload = "/upload/storage/v1/b/reelay/o?uploadType=multipart&name=" + key
	status, answer := call(t, http.MethodPost, upload+"&ifGenerationMatch=0", secret, video("the victim's video"))
	require.Equal(t, http.StatusOK, status, answer)

	for name, c := range map[string]struct {
		method, path, password, body string
		want                         int
	}{
		"AReadWithoutTheSecret":   {http.MethodGet, "/storage/v1/b/reelay/o/" + key + "?alt=media", "", "", 401},
		"AWriteWithAnotherSecret": {http.MethodPost, upload + "&ifGenerationMatch=0", "guessed", video("forged"), 401},
		"AWebhooksWrite":          {http.MethodPost, "/upload/storage/v1/b/reelay/o?uploadType=media&name=" + key, "", "{}", 401},
		"AWriteOverAnObject":      {http.MethodPost, "/upload/storage/v1/b/reelay/o?uploadType=media&name=" + key, secret, "forged", 403},
		"AMediaWriteAsIfItWereNew": {http.MethodPost, "/upload/storage/v1/b/reelay/o?uploadType=media&ifGenerationMatch=0&name=" + key, secret,
			"forged", 403},
		"AnUnconditionalWrite": {http.MethodPost, upload, secret, video("forged"), 403},
		"AConditionThatHolds":  {http.MethodPost, upload + "&ifGenerationMatch=1", secret, video("forged"), 403},
		"AnObjectThatIsThere":  {http.MethodPost, upload + "&ifGenerationMatch=0", secret, video("forged"), 412},
		"AResumableWrite": {http.MethodPost, "/upload/storage/v1/b/reelay/o?uploadType=resumable&ifGenerationMatch=0&name=" + key,
			secret, "{}", 403},
		"ACopyToAnotherKey":   {http.MethodPost, "/storage/v1/b/reelay/o/" + key + "/rewriteTo/b/reelay/o/own", secret, "{}", 403},
		"ACopyByItsOtherName": {http.MethodPost, "/storage/v1/b/reelay/o/" + key + "/copyTo/b/reelay/o/own", secret, "{}", 403},
		"ACopyWhoseSlashesAreHidden": {http.MethodPost, "/storage/v1/b/reelay/o/" + key + "%2FrewriteTo%2Fb%2Freelay%2Fo%2Fown", secret, "{}",
			403},
		"AComposition":      {http.MethodPost, "/storage/v1/b/reelay/o/" + key + "/compose", secret, "{}", 403},
		"AChangeOfMetadata": {http.MethodPatch, "/storage/v1/b/reelay/o/" + key, secret, "{}", 403},
		"AnUpdate":          {http.MethodPut, "/storage/v1/b/reelay/o/" + key, secret, "{}", 403},
		"AWriteAsXML":       {http.MethodPut, "/reelay/clips/victim", secret, "forged", 403},
		"AForm":             {http.MethodPost, "/reelay", secret, "forged", 403},
		"ABatch":            {http.MethodPost, "/batch/storage/v1", secret, "", 403},
		"ABucket":           {http.MethodDelete, "/storage/v1/b/reelay", secret, "", 403},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()

			status, answer := call(t, c.method, c.path, c.password, c.body)

			require.Equal(t, c.want, status, answer)
			_, content := call(t, http.MethodGet, "/storage/v1/b/reelay/o/"+key+"?alt=media", secret, "")
			require.Equal(t, "the victim's video", content)
			status, _ = call(t, http.MethodGet, "/storage/v1/b/reelay/o/own", secret, "")
			require.Equal(t, http.StatusNotFound, status)
		})
	}
}
