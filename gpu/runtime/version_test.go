package runtime

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReady(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]string{
		`{"ready":{"protocol":1,"runtime":"r","models":["m"]}}`:                              "",
		`{"ready":{"protocol":2,"runtime":"r","models":["m",{"name":"n","version":"2.2"}]}}`: "",
		`{"ready":{"protocol":2,"runtime":"r","models":[]}}`:                                 "",
		`{"ready":{"protocol":1,"runtime":"r","models":[]}}`:                                 "models is empty",
		`{"ready":{"protocol":3,"runtime":"r","models":["m"]}}`:                              "this agent speaks 1 to 2",
		`{"ready":{"protocol":2,"runtime":"r","models":[{"version":"2.2"}]}}`:                "a model needs a name",
		`{"ready":{"protocol":2,"runtime":"r","models":[7]}}`:                                "cannot unmarshal",
		`{"preview":{"step":1}}`:                                                             "a preview needs a path",
		`{"handle":{"value":"job 7"}}`:                                                       "",
		`{"result":{"preview":"/w/draft.mp4"}}`:                                              "",
		`{"result":{"output":"` + strings.Repeat("o", 256<<10) +
			`"}}`: "an output of 262146 bytes; at most 262144 are allowed",
		`{"metrics":{"gpuMemoryBytes":-1}}`: "a measurement is negative",
	} {
		message, err := parseMessage([]byte(line))
		if want != "" {
			require.ErrorContains(t, err, want, line)
			continue
		}
		require.NoError(t, err, line)
		again, err := json.Marshal(map[string]any{message.name(): message})
		require.NoError(t, err)
		require.JSONEq(t, line, string(again))
	}
}

func TestDraftNeedsVersion2(t *testing.T) {
	t.Parallel()

	p := &Process{announce: Ready{Protocol: 1, Runtime: "old"}}
	err := p.Start(Start{Job: "job_1", DraftSteps: 3})

	failure := new(Failure)
	require.ErrorAs(t, err, &failure)
	require.Equal(t, InvalidInput, failure.Class)
	require.ErrorContains(t, err, "cannot make a draft")
}

func TestMailbox(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheNewestOfEachState", func(t *testing.T) {
		t.Parallel()
		b := newMailbox()

		require.True(t, b.put(&Checkpoint{Step: 1}))
		for i := range 5000 {
			require.True(t, b.put(&Progress{Step: i}))
			require.True(t, b.put(&Preview{Path: fmt.Sprint(i)}))
			require.True(t, b.put(&Metrics{StepSeconds: float64(i)}))
		}
		require.True(t, b.put(&Result{}))

		require.Equal(t, []Message{&Checkpoint{Step: 1}, &Progress{Step: 4999}, &Preview{Path: "4999"}, &Metrics{StepSeconds: 4999}, &Result{}},
			b.waiting)
	})
}
