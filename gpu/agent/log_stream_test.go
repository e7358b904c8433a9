package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestLogStream(t *testing.T) {
	t.Parallel()

	parts := func(f *fixture) (texts []string, positions []any) {
		for _, call := range f.of("appendLog") {
			texts, positions = append(texts, call.in["text"].(string)), append(positions, call.in["position"])
		}
		return texts, positions
	}

	t.Run("SendsWholeLinesWhileTheJobRuns", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			say := func(text string) {
				before, _ := f.model.output.Load().(string)
				f.model.output.Store(before + text)
				f.model.messages <- &runtime.Progress{Percent: 1} // it must not hang
				time.Sleep(logEvery)
				synctest.Wait()
			}
			say("load\x00ing\ntoken=sec")
			say("retsecret1 used\n 10%\r")
			say("")
			f.lose("appendLog", 1)
			say("lost\n")
			say("found\n")

			texts, positions := parts(f)
			require.Equal(t, []string{"loading\n", "token=[redacted] used\n 10%\r", "lost\n", "lost\nfound\n"}, texts)
			require.Equal(t, positions[2], positions[3], "it is sent again in the same place")
			require.EqualValues(t, len(texts[0]), positions[1])
			require.Equal(t, "token", f.of("appendLog")[0].in["fencingToken"])
		})
	})

	t.Run("LeavesOutWhatIsTooMuch", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.output.Store(strings.Repeat("x", 2*maxLogLine))
			time.Sleep(logEvery)
			synctest.Wait()
			f.model.output.Store(strings.Repeat("x", 3*maxLogLine) + " rest\n" + strings.Repeat("a line\n", 5000))
			time.Sleep(logEvery)
			synctest.Wait()

			texts, _ := parts(f)
			require.Len(t, texts, 1)
			require.LessOrEqual(t, len(texts[0]), maxLogPart)
			require.Regexp(t, `^\[\d+ bytes were left out\]\n(a line\n)+$`, texts[0])
		})
	})

	t.Run("StopsWhereTheAPIDoesNotKnowIt", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			f.set("appendLog", func(object) (object, client.Code) { return nil, "GRAPHQL_VALIDATION_FAILED" })
			<-f.model.started
			for range 3 {
				before, _ := f.model.output.Load().(string)
				f.model.output.Store(before + "a line\n")
				time.Sleep(logEvery)
				synctest.Wait()
			}
			require.Len(t, f.of("appendLog"), 1)
			require.Empty(t, f.of("failJob", "releaseJob"))
		})
	})
}
