package hosted_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// put replaces what an answer has at a place, if it has something there.
func put(place string, value any) enginetest.Fault {
	return enginetest.Rewrite(func(answer []byte) []byte {
		if gjson.GetBytes(answer, place).Exists() {
			answer, _ = sjson.SetBytes(answer, place, value)
		}
		return answer
	})
}

// answers makes all answers with the result name another video.
func (s spec) answers(f *enginetest.Provider, address string) {
	call := s.result
	if call == "" {
		call = s.poll
	}
	film := fmt.Sprintf(s.film, address)
	f.Fault(call, 0, enginetest.Rewrite(func(answer []byte) []byte {
		if found := gjson.GetBytes(answer, s.file); found.Exists() && len(found.Raw) > len("null") {
			answer, _ = sjson.SetRawBytes(answer, s.file, []byte(film))
		}
		return answer
	}))
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const impatient = 2 * time.Second
	each(t, func(t *testing.T, s spec) {
		require.NotEmpty(t, s.file, "the spec must say where the video is")
		a := provider.Find(s.name)

		// fails runs a job that cannot end well, and wants that it is neither completed nor paid again.
		fails := func(name string, fault func(t *testing.T, f *enginetest.Provider), check func(*testing.T, *runtime.Failure)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := s.fake(t)
				fault(t, f)
				f.Run(10 * time.Millisecond)
				agent := s.patient(t, f, key, impatient)
				agent.Start(s.job("A paper boat"))

				end := agent.End()

				require.Nil(t, end.Result)
				require.NotNil(t, end.Failure)
				require.Len(t, f.Tasks(), 1)
				require.NotEmpty(t, agent.LastHandle(), "the next attempt must adopt the job")
				if check != nil {
					check(t, end.Failure)
				}
			})
		}

		// counts wants that nonsense ends some time: whoever adopts the job gets the same.
		counts := func(t *testing.T, failure *runtime.Failure) {
			require.False(t, failure.Unready, "%+v", failure)
			require.Equal(t, runtime.Transient, failure.Class, failure.Message)
		}
		if a.Same != "" {
			fails("AnotherJobsID", func(_ *testing.T, f *enginetest.Provider) {
				f.Fault(s.poll, 0, put(a.Same, uuid.NewString()))
			}, counts)
		}
		if a.State != "" {
			fails("AStateThatNobodyDocuments", func(_ *testing.T, f *enginetest.Provider) {
				f.Fault(s.poll, 0, put(a.State, "HALF_DONE"))
			}, counts)
		}
		for name, address := range map[string]string{
			"PrivateAddress": "http://10.0.0.1/films/x.mp4", "MetadataServer": "http://169.254.169.254/films/x.mp4",
			"AFile": "file:///etc/passwd", "NoURL": "http://[/films/x.mp4", "AnotherPort": "http://127.0.0.1:1/films/x.mp4",
		} {
			fails("AVideoAt/"+name, func(_ *testing.T, f *enginetest.Provider) { s.answers(f, address) }, nil)
		}
		for name, address := range map[string]string{
			"PrivateAddress": "http://10.0.0.1/films/x.mp4", "MetadataServer": "http://169.254.169.254/", "Itself": "",
		} {
			fails("ARedirectTo/"+name, func(_ *testing.T, f *enginetest.Provider) {
				f.Fault(cmp.Or(s.films, "GET /films/{id}"), 0, func(c *enginetest.Call) {
					http.Redirect(c.Answer, c.Request, cmp.Or(address, c.Request.URL.Path), http.StatusFound)
				})
			}, nil)
		}
		fails("AFilmOf10GB", func(_ *testing.T, f *enginetest.Provider) {
			f.Fault(cmp.Or(s.films, "GET /films/{id}"), 0, func(c *enginetest.Call) {
				c.Answer.Header().Set("Content-Type", "video/mp4")
				c.Answer.Header().Set("Content-Length", fmt.Sprint(10<<30))
				_, _ = c.Answer.Write([]byte("0000ftyp"))
			})
		}, func(t *testing.T, failure *runtime.Failure) {
			requireNotHad(t, failure)
			require.Contains(t, failure.Message, "TOO_LARGE")
		})
		fails("HTMLInsteadOfTheFilm", func(_ *testing.T, f *enginetest.Provider) {
			f.Fault(cmp.Or(s.films, "GET /films/{id}"), 0, enginetest.HTML)
		}, counts)
		fails("HTMLForAState", func(_ *testing.T, f *enginetest.Provider) { f.Fault(s.poll, 0, enginetest.HTML) }, counts)
		fails("ARedirectForAState", func(_ *testing.T, f *enginetest.Provider) {
			f.Fault(s.poll, 0, func(c *enginetest.Call) { http.Redirect(c.Answer, c.Request, c.Request.URL.Path, http.StatusFound) })
		}, counts)
		fails("AnEndlessOutage", func(_ *testing.T, f *enginetest.Provider) { f.Fault(s.poll, 0, enginetest.LoseRequest) },
			func(t *testing.T, failure *runtime.Failure) { require.True(t, failure.Unready, "%+v", failure) })
		fails("AFilmThatIsNotThere", func(_ *testing.T, f *enginetest.Provider) {
			f.Fault(cmp.Or(s.films, "GET /films/{id}"), 0, enginetest.Status(404, "NoSuchKey"))
		}, func(t *testing.T, failure *runtime.Failure) {
			requireNotHad(t, failure)
		})
		fails("SuccessWithoutAFile", func(_ *testing.T, f *enginetest.Provider) {
			call := s.result
			if call == "" {
				call = s.poll
			}
			f.Fault(call, 0, enginetest.Rewrite(func(answer []byte) []byte {
				if len(gjson.GetBytes(answer, s.file).Raw) > len("null") {
					answer, _ = sjson.DeleteBytes(answer, s.file)
				}
				return answer
			}))
		}, func(t *testing.T, failure *runtime.Failure) {
			requireNotHad(t, failure)
		})

		if a.Progress != "" {
			t.Run("ProgressAboveTheWhole", func(t *testing.T) {
				t.Parallel()
				f := s.fake(t)
				f.Fault(s.poll, 0, put(a.Progress, 1e9))
				agent := s.agent(t, f, key)
				agent.Start(s.job("A paper boat"))

				said := agent.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Percent > 0 })

				require.LessOrEqual(t, said.Progress.Percent, 100.0)
				f.Run(10 * time.Millisecond)
				require.NotNil(t, agent.End().Result)
			})
		}

		for name, id := range map[string]string{
			"ASlash": "a/b/c", "Dots": "../../v1/organization", "AQuery": "x?y=z&task_ids=q#f", "Percent": "50%2F",
		} {
			if s.ownIDs {
				break
			}
			t.Run("AnIDWith/"+name, func(t *testing.T) {
				t.Parallel()
				f := enginetest.NewProvider(t, fakeprovider.Config{Provider: s.name, Key: key, ID: func() string { return id }})
				f.Run(10 * time.Millisecond)
				agent := s.agent(t, f, key)
				agent.Start(s.job("A paper boat"))

				end := agent.End()

				require.NotNil(t, end.Result, "%+v", end.Failure)
				require.Len(t, f.Tasks(), 1)
			})
		}

		for name, id := range map[string]string{"Of1MB": strings.Repeat("a", 1<<20), "Empty": "", "ThatIsTheFolderAbove": ".."} {
			t.Run("AnID/"+name, func(t *testing.T) {
				t.Parallel()
				f := s.fake(t)
				f.Fault(s.submit, 1, put(a.Ref, id))
				f.Run(10 * time.Millisecond)
				agent := s.agent(t, f, key)
				agent.Start(s.job("A paper boat"))

				end := agent.End()

				require.Len(t, f.Tasks(), 1)
				if a.Lookup != nil {
					require.NotNil(t, end.Result, "%+v", end.Failure)
					return
				}
				require.NotNil(t, end.Failure)
				require.Equal(t, runtime.SubmitUnknown, end.Failure.Class, end.Failure.Message)
				require.Less(t, len(end.Failure.Message), 2000)
			})
		}

		t.Run("AKeyThatIsReplacedMeanwhile", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			first, job := s.agent(t, f, key), s.job("A paper boat")
			first.Start(job)
			first.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Phase == runtime.PhaseGenerating })
			f.SetKey("another_key")
			end := first.End()
			require.NotNil(t, end.Failure)
			require.True(t, end.Failure.Unready, "%+v", end.Failure)
			job.Handle = first.LastHandle()
			f.Run(10 * time.Millisecond)
			second := s.agent(t, f, "another_key")
			second.Start(job)

			end = second.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Len(t, f.Tasks(), 1)
		})

		t.Run("SucceededAndThenRunning", func(t *testing.T) {
			t.Parallel()
			var success string
			for said, state := range a.States {
				if state == provider.Succeeded {
					success = said
				}
			}
			if success == "" {
				t.Skip("the provider's states are not texts")
			}
			f := s.fake(t)
			film, called := fmt.Sprintf(s.film, f.URL+"/films/of-nobody.mp4"), make(chan struct{})
			f.Fault(s.poll, 1, enginetest.Rewrite(func(answer []byte) []byte {
				close(called)
				answer, _ = sjson.SetBytes(answer, a.State, success)
				if s.result == "" {
					answer, _ = sjson.SetRawBytes(answer, s.file, []byte(film))
				}
				return answer
			}))
			agent := s.agent(t, f, key)
			agent.Start(s.job("A paper boat"))
			<-called
			agent.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Phase == runtime.PhaseGenerating })
			f.Run(10 * time.Millisecond)

			end := agent.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Len(t, f.Tasks(), 1)
		})
	})
}

// The key of work is new at each start: otherwise Kling answers with the work that has failed.
func TestAKeyIsUsedOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s spec) {
		f := s.fake(t)
		f.Run(10 * time.Millisecond)
		first, job := s.agent(t, f, key), s.job("This fails")
		first.Start(job)
		require.NotNil(t, first.End().Failure)
		job.Handle, job.Prompt = first.LastHandle(), "A paper boat"
		second := s.agent(t, f, key)
		second.Start(job)

		end := second.End()

		require.NotNil(t, end.Result, "%+v", end.Failure)
		require.Len(t, f.Tasks(), 2)
	})
}

func TestKlingRefusesAKeyThatItKnows(t *testing.T) {
	t.Parallel()
	for _, s := range specs {
		if s.name != "kling" {
			continue
		}
		f := s.fake(t)
		f.Fault(s.submit, 1, enginetest.LoseAnswer)
		f.Fault(s.poll, 1, enginetest.Rewrite(func([]byte) []byte { return []byte(`{"code": 0, "data": []}`) })) // the lookup is late
		f.Run(10 * time.Millisecond)
		a := s.agent(t, f, key)
		a.Start(s.job("A paper boat"))

		end := a.End()

		require.NotNil(t, end.Result, "%+v", end.Failure)
		require.Len(t, f.Tasks(), 1, "the second submit is refused, and the job is found")
	}
}

func TestKlingOverTheConcurrency(t *testing.T) {
	t.Parallel()
	for _, s := range specs {
		if s.name != "kling" {
			continue
		}
		f := enginetest.NewProvider(t, fakeprovider.Config{Provider: s.name, Concurrent: 1, Key: key})
		first, second := s.agent(t, f, key), s.agent(t, f, key)
		first.Start(s.job("A paper boat"))
		first.Handle(func(value string) bool {
			var h struct{ Ref string }
			return json.Unmarshal([]byte(value), &h) == nil && h.Ref != ""
		})
		second.Start(s.job("A paper plane"))
		testrun.Eventually(t, "that the provider has refused a job", func() bool { return f.Limited() > 0 })
		f.Run(10 * time.Millisecond)

		require.NotNil(t, first.End().Result)
		require.NotNil(t, second.End().Result)
		require.Equal(t, 1, f.Most())
	}
}

// gate lets calls pass as enter says, and keeps what it is told.
type gate struct {
	enter func(ctx context.Context, use hosted.Use) error // nil lets all pass

	mu   sync.Mutex
	told []provider.Meaning
}

func (g *gate) Enter(ctx context.Context, use hosted.Use) error {
	if g.enter == nil {
		return nil
	}
	return g.enter(ctx, use)
}

func (g *gate) Tell(_ context.Context, fault *provider.Fault, _ time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fault != nil {
		g.told = append(g.told, fault.Rule.Means)
	}
}

func (g *gate) faults() []provider.Meaning {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.told)
}

func (*gate) Webhook(context.Context, string) (string, error) { return "", nil }
func (*gate) Webhooks(context.Context, string, func()) error  { return nil }
func (s spec) target(f *enginetest.Provider) remote.Target {
	return remote.Target{URL: f.URL + s.path, Secrets: s.secrets(key)}
}

// A job that the provider accepted is paid. Its failure counts as an attempt even if the reason is the account's.
func TestAJobThatFailsForReasonsOfTheAccount(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s spec) {
		a := provider.Find(s.name)
		for _, rule := range a.Errors {
			ofAccount := []provider.Meaning{provider.KeyRefused, provider.NoCredit, provider.Limited}
			if rule.Code == "" || rule.Status != 0 && rule.Status != http.StatusOK || !slices.Contains(ofAccount, rule.Means) {
				continue
			}
			t.Run(rule.Code, func(t *testing.T) {
				t.Parallel()
				f, g := s.fake(t), &gate{}
				f.Fault(s.poll, 0, enginetest.Rewrite(func(answer []byte) []byte {
					for _, place := range append(slices.Clone(a.Codes), a.State) {
						if found := gjson.GetBytes(answer, place); found.Exists() && found.Raw != "null" {
							answer, _ = sjson.SetBytes(answer, place, rule.Code)
							break
						}
					}
					return answer
				}))
				f.Run(10 * time.Millisecond)
				agent := s.run(t, s.target(f), g, 2*time.Minute)
				agent.Start(s.job("This fails"))

				end := agent.End()

				require.NotNil(t, end.Failure)
				require.False(t, end.Failure.Unready, "it is released without a count, and paid again: %+v", end.Failure)
				require.Contains(t, []runtime.FailureClass{runtime.ProviderUnavailable, runtime.RateLimited}, end.Failure.Class)
				require.Contains(t, end.Failure.Message, rule.Code)
				require.Len(t, f.Tasks(), 1)
				require.Contains(t, g.faults(), rule.Means, "the other jobs of the account must wait")
			})
		}
	})
}

// A key that may not use one model is no refused key: the jobs of other models go on.
func TestKlingRefusesAModel(t *testing.T) {
	t.Parallel()
	for _, s := range specs {
		if s.name != "kling" {
			continue
		}
		f, g := s.fake(t), &gate{}
		f.Fault(s.submit, 1, enginetest.Status(http.StatusForbidden, `{"code": 1103, "message": "Unauthorized access to requested resource"}`))
		a := s.run(t, s.target(f), g, 2*time.Minute)
		a.Start(s.job("A paper boat"))

		end := a.End()

		require.NotNil(t, end.Failure)
		require.Equal(t, runtime.InvalidInput, end.Failure.Class, end.Failure.Message)
		require.False(t, end.Failure.Unready)
		require.NotContains(t, g.faults(), provider.KeyRefused)
		require.Empty(t, f.Tasks())
	}
}
