package runtime

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHandle(t *testing.T) {
	t.Parallel()

	t.Run("MustBeAShortText", func(t *testing.T) {
		t.Parallel()

		for line, want := range map[string]string{
			`{"handle":{"value":"prediction 7\n{\"ü\":1}"}}`:                   "",
			`{"handle":{"value":""}}`:                                          "",
			`{"handle":{}}`:                                                    "",
			`{"handle":{"value":"` + strings.Repeat("s", 2000) + `"}}`:         "",
			`{"handle":{"value":"` + strings.Repeat("s3cret", 150_000) + `"}}`: "a text of 900000 bytes; at most 2000 are allowed",
			`{"handle":{"value":"s3cret\u0000"}}`:                              "not UTF-8 text without NUL characters",
			`{"handle":{"value":"s3cret\ud800"}}`:                              "not UTF-8 text",
			"{\"handle\":{\"value\":\"s3cret\xff\"}}":                          "not UTF-8 text",
			`{"handle":{"value":7}}`:                                           "cannot unmarshal number",
			`{"handle":{"value":["s3cret"]}}`:                                  "cannot unmarshal array",
			`{"handle":"s3cret"}`:                                              "is not an object",
			`{"handle":{"value":"s3cret"},"log":{}}`:                           "it has 2 keys",
		} {
			_, err := parseMessage([]byte(line))
			if want == "" {
				require.NoError(t, err, line)
				continue
			}
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error()+beginning([]byte(line)), "s3cret")
			require.NotContains(t, err.Error()+beginning([]byte(line)), "prediction")
		}
	})

	t.Run("NeedsVersion2", func(t *testing.T) {
		t.Parallel()

		for version, want := range map[int]string{1: "needs version 2", 2: ""} {
			p := &Process{announce: Ready{Protocol: version}, state: running}
			err := p.accept(&Handle{Value: "prediction 7"})
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		}
		require.ErrorContains(t, (&Process{announce: Ready{Protocol: 2}, state: idle}).accept(&Handle{}), "it sent handle while it was idle")
	})

	t.Run("AThousandASecondAreNoFlood", func(t *testing.T) {
		t.Parallel()

		b := newMailbox()
		for i := range 5000 {
			require.True(t, b.put(&Handle{Value: fmt.Sprint(i)}))
			require.True(t, b.put(&Progress{Step: i}))
		}

		require.Equal(t, []Message{&Handle{Value: "4999"}, &Progress{Step: 4999}}, b.waiting)
	})

	t.Run("IsSentByServe", func(t *testing.T) {
		t.Parallel()

		var out strings.Builder
		job := &Job{server: &server{out: &out}}

		require.NoError(t, job.StoreHandle("prediction 7"))
		require.Error(t, job.StoreHandle("a\x00"))
		require.Error(t, job.StoreHandle("a\xff"))
		require.Error(t, job.StoreHandle(strings.Repeat("s", 2001)))

		require.Equal(t, `{"handle":{"value":"prediction 7"}}`+"\n", out.String())
		order, err := json.Marshal(Start{Job: "job_1"})
		require.NoError(t, err)
		require.NotContains(t, string(order), "handle", "without one it is as before")
	})
}
