package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestUploadInput(t *testing.T) {
	t.Parallel()

	t.Run("SendsTheBytesAgainToANewLink", func(t *testing.T) {
		t.Parallel()
		links, stored, asked := 0, map[string]string{}, ""
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch {
			case r.URL.Path == "/graphql":
				asked = string(body)
				links++
				fmt.Fprintf(w, `{"data":{"requestInputUpload":{"artifactId":"art_%[1]d","target":{"url":"/put/%[1]d","method":"PUT","headers":{"x-link":"yes"}}}}}`, links)
			case r.URL.Path == "/put/1":
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				stored[r.URL.Path] = r.Method + " " + r.Header.Get("X-Link") + r.Header.Get("Authorization") + " " + string(body)
			}
		})

		id, err := c.UploadInput(t.Context(), "image/png", strings.NewReader("hello world"))

		require.NoError(t, err)
		require.Equal(t, "art_2", id)
		require.Contains(t, asked, `"contentType":"image/png","sizeBytes":11,"checksum":"yZRlqg=="`)
		require.Equal(t, map[string]string{"/put/2": "PUT yes hello world"}, stored)
	})

	t.Run("GivesUpWhenItIsRefused", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"errors":[{"message":"not that type","extensions":{"code":"INVALID_INPUT"}}]}`)
		})

		_, err := c.UploadInput(t.Context(), "image/gif", strings.NewReader("GIF"))

		require.Equal(t, client.CodeInvalidInput, client.ErrorCode(err))
	})
}
