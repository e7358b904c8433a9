package comfyapi_test

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	d := open(t)
	const lost = "art_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11"
	save := func(inputs string) string {
		return `{"workflow": {"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"` + inputs + `}}}}`
	}
	for name, refused := range map[string]struct {
		body   string
		status int
		code   string
		says   string
	}{
		"NoJSON":            {`{`, 400, "invalid_request", "JSON"},
		"AList":             {`[]`, 400, "invalid_request", "not what this URL takes"},
		"AKeyTwice":         {`{"workflow": {}, "workflow": {}}`, 400, "invalid_request", "twice"},
		"NoGraph":           {`{}`, 422, "invalid_workflow", "workflow is missing"},
		"AGraphOfTheEditor": {`{"workflow": {"nodes": [], "links": [], "last_node_id": 3}}`, 422, "workflow_format_ui", "Export (API)"},
		"AnotherNode": {`{"workflow": {"7": {"class_type": "RunPython", "inputs": {}}}}`, 422, "invalid_workflow",
			"the node 7 is of the class RunPython"},
		"AFileOfTheEngine": {save(`, "file": "reelay/other.mp4"`), 422, "invalid_workflow", "name of a file"},
		"APath":            {save(`, "file": "/etc/passwd"`), 422, "invalid_workflow", "path"},
		"AnAddress":        {save(`, "file": "http://169.254.169.254/"`), 422, "invalid_workflow", "address"},
		"AModelFile":       {save(`, "file": "other.safetensors"`), 422, "invalid_workflow", "other.safetensors"},
		"AFileThatItLacks": {save(`, "file": "{{files.0}}"`), 422, "invalid_workflow", "has 0 files"},
		"NoNodeThatSaves":  {`{"workflow": {"1": {"class_type": "LoadVideo", "inputs": {}}}}`, 422, "invalid_workflow", "no node saves a file"},
		"ALargeGraph":      {save(`, "text": "` + strings.Repeat("x", 65<<10) + `"`), 422, "invalid_workflow", "65536"},
		"AnUnknownAsset":   {save(`, "file": ` + asset(lost)), 422, "missing_asset", lost},
		"AnAssetThatIsAnAddress": {save(`, "file": ` + asset("https://example.com/a.mp4")), 422, "missing_asset",
			"without a valid info.id"},
		"AnAssetWithoutInfo": {save(`, "file": {"__type": "core/ASSET"}`), 422, "missing_asset", "input file of the node 3"},
		"AnAssetInAList":     {save(`, "files": [` + asset(lost) + `]`), 422, "invalid_workflow", "whole value of an input"},
		"AKeyOfOthers":       {`{"workflow": {}, "extra_data": {"api_key_comfy_org": "secret"}}`, 422, "not_supported", "extra_data"},
		"AWebhook":           {`{"workflow": {}, "webhook_url": "https://example.com"}`, 422, "not_supported", "webhook_url"},
		"AnUnknownField":     {`{"workflow": {}, "wrokflow": {}}`, 400, "invalid_request", "wrokflow"},
		"MetadataOfANumber":  {`{"workflow": {}, "metadata": {"n": 1}}`, 422, "metadata_invalid", "metadata.n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := d.post(t, "/api/v2/jobs", refused.body)
			require.Equal(t, refused.status, got.Status, got.Text)
			require.Equal(t, refused.code, got.code(), got.Text)
			require.Contains(t, got.message(), refused.says)
			require.NotContains(t, got.Text, "secret")
		})
	}

	t.Run("AnOversizedBody", func(t *testing.T) {
		got := d.post(t, "/api/v2/jobs", `{"workflow": "`+strings.Repeat("x", 1<<20)+`"}`)
		require.Equal(t, http.StatusRequestEntityTooLarge, got.Status)
		require.Equal(t, "invalid_request", got.code())
	})
	t.Run("AnotherMediaType", func(t *testing.T) {
		require.Equal(t, http.StatusUnsupportedMediaType, d.do(t, "POST", "/api/v2/jobs", "text/plain", strings.NewReader("{}")).Status)
		require.Equal(t, http.StatusUnsupportedMediaType, d.do(t, "POST", "/api/v2/assets", "application/json", strings.NewReader("{}")).Status)
	})
	t.Run("ALongOrDoubleKey", func(t *testing.T) {
		require.Equal(t, http.StatusUnprocessableEntity, d.post(t, "/api/v2/jobs", save(""), "Idempotency-Key", strings.Repeat("k", 256)).Status)
	})
	t.Run("AnUnknownPathOrMethod", func(t *testing.T) {
		for _, path := range []string{"/api/v2/", "/api/v2/models", "/api/v2/jobs/", "/api/v2/jobs/x/y", "/api/v2/jobs/x/y/z",
			"/comfy/", "/comfy/x",
			"/comfy/x/api/v1/jobs"} {
			got := d.get(t, path)
			require.Equal(t, http.StatusNotFound, got.Status, path)
			require.Equal(t, "not_found", got.code(), path)
		}
		got := d.do(t, http.MethodDelete, "/api/v2/jobs", "", nil)
		require.Equal(t, http.StatusMethodNotAllowed, got.Status)
		require.Equal(t, "GET, POST", got.Header.Get("Allow"))
	})
	t.Run("AWrongKey", func(t *testing.T) {
		got := (&desk{d.Stack, d.url, "rl_live_x"}).get(t, "/api/v2/jobs")
		require.Equal(t, http.StatusUnauthorized, got.Status)
		require.Equal(t, "unauthorized", got.code())
		require.Contains(t, got.message(), "COMFY_API_KEY")
	})
	require.Zero(t, d.Count(t, "jobs"))
}

func TestAssets(t *testing.T) {
	t.Parallel()
	sum := blake3.Sum256([]byte(mp4))
	hash := "blake3:" + hex.EncodeToString(sum[:])

	t.Run("AreUploadedOnce", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		require.Equal(t, http.StatusNotFound, d.do(t, http.MethodHead, "/api/v2/assets/by-hash/"+hash, "", nil).Status)
		require.Equal(t, "blob_not_found", d.post(t, "/api/v2/assets/from-hash", `{"hash": "`+hash+`"}`).code())
		up := d.upload(t, mp4, "content_type", "video/mp4", "file_path", "fox.mp4", "expected_hash", hash)
		require.Equal(t, http.StatusCreated, up.Status, up.Text)
		require.Equal(t, true, up.Body["created_new"])
		require.Equal(t, hash, up.Body["hash"])
		require.Equal(t, "fox.mp4", up.Body["file_path"])
		require.NotContains(t, up.Text, "0001-01-01")

		require.Equal(t, http.StatusOK, d.do(t, http.MethodHead, "/api/v2/assets/by-hash/"+hash, "", nil).Status)
		minted := d.post(t, "/api/v2/assets/from-hash", `{"hash": "`+hash+`", "file_path": "fox.mp4"}`)
		require.Equal(t, http.StatusOK, minted.Status, minted.Text)
		require.Equal(t, up.Body["id"], minted.Body["id"])
		require.Equal(t, false, minted.Body["created_new"])
		got := d.get(t, "/api/v2/assets/"+up.Body["id"].(string))
		require.InDelta(t, len(mp4), got.Body["size_bytes"], 0)
		require.Equal(t, http.StatusFound, d.get(t, "/api/v2/assets/"+up.Body["id"].(string)+"/content").Status)
	})

	t.Run("AreDeletedUnlessAJobUsesThem", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		id := d.upload(t, mp4, "content_type", "video/mp4").Body["id"].(string)
		path := "/api/v2/assets/" + id
		d.submit(t, graph(asset(id)))
		got := d.do(t, http.MethodDelete, path, "", nil)
		require.Equal(t, http.StatusConflict, got.Status)
		require.Equal(t, "asset_in_use", got.code())
		path = "/api/v2/assets/" + d.upload(t, mp4+"2", "content_type", "video/mp4").Body["id"].(string)
		require.Equal(t, http.StatusNoContent, d.do(t, http.MethodDelete, path, "", nil).Status)
		require.Equal(t, http.StatusNotFound, d.get(t, path).Status)
	})

	t.Run("AreRefused", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		for name, refused := range map[string]struct {
			data   string
			fields []string
			status int
			code   string
		}{
			"OfAnotherHash":   {mp4 + "x", []string{"content_type", "video/mp4", "expected_hash", hash}, 409, "hash_mismatch"},
			"OfNoHash":        {mp4, []string{"content_type", "video/mp4", "expected_hash", "md5:1"}, 422, "invalid_request"},
			"OfAnotherKind":   {"#!/bin/sh", []string{"content_type", "video/mp4"}, 422, "invalid_request"},
			"OfNoKind":        {"MZ a program", []string{"content_type", "application/x-msdownload"}, 422, "invalid_request"},
			"Empty":           {"", []string{"content_type", "video/mp4"}, 422, "invalid_request"},
			"WithTags":        {mp4, []string{"content_type", "video/mp4", "tags", "a"}, 422, "not_supported"},
			"WithOtherFields": {mp4, []string{"path", "/etc"}, 422, "invalid_request"},
			"WithAFieldTwice": {mp4, []string{"file_path", "a", "file_path", "b"}, 400, "invalid_request"},
			"WithALongField":  {mp4, []string{"file_path", strings.Repeat("x", 5<<10)}, 422, "invalid_request"},
		} {
			got := d.upload(t, refused.data, refused.fields...)
			require.Equal(t, refused.status, got.Status, name+got.Text)
			require.Equal(t, refused.code, got.code(), name)
			require.NotEmpty(t, got.message(), name)
		}
		const form = "multipart/form-data; boundary=b"
		require.Equal(t, http.StatusUnprocessableEntity, d.do(t, "POST", "/api/v2/assets", form, strings.NewReader("--b--\r\n")).Status)
		require.Equal(t, http.StatusBadRequest, d.do(t, "POST", "/api/v2/assets", form, strings.NewReader("--b\r\nContent-Disp")).Status)
		require.Equal(t, "invalid_request", d.post(t, "/api/v2/assets/from-hash", `{"hash": "x"}`).code())
		require.Equal(t, "not_supported", d.post(t, "/api/v2/assets/from-hash", `{"hash": "x", "tags": ["a"]}`).code())
		require.Zero(t, d.Count(t, "uploads"))
	})
}

func TestModels(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := `{"workflow": {"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"}}}}`
	d.offer(t, graphs("hidden", models.NewAccountID()))
	got := d.post(t, "/api/v2/jobs", body)
	require.Equal(t, "forbidden", got.code())
	require.Contains(t, got.message(), "ask the operator")

	d.offer(t, graphs("a", d.Client.AccountID), graphs("b"), graphs("hidden", models.NewAccountID()))
	got = d.post(t, "/api/v2/jobs", body)
	require.Equal(t, "ambiguous_model", got.code())
	require.Contains(t, got.message(), "(a, b)")
	got = d.post(t, "/comfy/b/api/v2/jobs", body)
	require.Equal(t, http.StatusCreated, got.Status, got.Text)
	require.Equal(t, "b", d.Reload(t, models.JobID(got.Body["id"].(string))).Model)
	require.Len(t, d.get(t, "/comfy/b/api/v2/jobs").Body["jobs"], 1)
	require.Empty(t, d.get(t, "/comfy/a/api/v2/jobs").Body["jobs"])
	require.Equal(t, "not_found", d.post(t, "/comfy/hidden/api/v2/jobs", body).code())
}
