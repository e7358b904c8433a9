package agent

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
	"github.com/stretchr/testify/require"
)

type storing = func(*http.Request) (*http.Response, error)

// refuseOnce answers the first request to the store with a status.
func refuseOnce(status int) storing { return refuse(1, status) }

func refuse(times, status int) storing {
	return func(r *http.Request) (*http.Response, error) {
		if times--; times < 0 {
			return nil, nil
		}
		return plain(r, status, []byte("no")), nil
	}
}

// slow lets each request wait, as long as its caller does.
func slow(d time.Duration) storing {
	return func(r *http.Request) (*http.Response, error) { return nil, pause.For(r.Context(), d) }
}

// cut breaks the connection of the first requests.
func cut(times int) storing {
	return func(*http.Request) (*http.Response, error) {
		if times--; times < 0 {
			return nil, nil
		}
		return nil, errors.New("connection reset by peer")
	}
}

// expiring has the store refuse links that are older than ttl.
func (f *fixture) expiring(ttl time.Duration, refused *int) {
	issued := map[string]time.Time{}
	uploads := 0
	f.set("requestUpload", func(in object) (object, client.Code) {
		uploads++
		key := fmt.Sprintf("%v/%d", in["type"], uploads)
		issued["/"+key] = time.Now()
		return object{"objectKey": key, "url": "http://store/" + key, "method": "PUT", "headers": object{}, "expiresAt": time.Now().Add(ttl)}, ""
	})
	f.breakStore(func(r *http.Request) (*http.Response, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if time.Since(issued[r.URL.Path]) > ttl {
			*refused++
			return plain(r, http.StatusForbidden, nil), nil
		}
		return nil, nil
	})
}

func TestStore(t *testing.T) {
	t.Parallel()

	tests := map[string]storing{
		"Unavailable":    refuse(8, http.StatusServiceUnavailable),
		"RateLimited":    refuse(8, http.StatusTooManyRequests),
		"CutConnections": cut(8),
		"WrongChecksum":  refuse(2, http.StatusBadRequest),
		"KeyTaken":       refuseOnce(http.StatusPreconditionFailed),
		"Slow":           slow(20 * time.Second),
	}
	for name, fault := range tests {
		t.Run("IsTriedAgainWithAFreshTarget/"+name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				f.breakStore(fault)
				f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
				time.Sleep(3 * time.Minute)

				ends := f.of("completeJob")
				require.Len(t, ends, 1)
				key := ends[0].in["video"].(object)["objectKey"].(string)
				require.Equal(t, "bytes of video.mp4", f.body("/"+key))
				require.Empty(t, f.of("failJob"))
			})
		})
	}

	for name, fault := range map[string]storing{
		"Unavailable": refuse(1e6, http.StatusServiceUnavailable), "Refusing": refuse(1e6, http.StatusForbidden), "Stalled": slow(time.Hour),
	} {
		t.Run("ThatTakesNoCheckpointStopsNoRender/"+name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				f.breakStore(fault)
				f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
				f.paint(10 * time.Minute)
				require.NotContains(t, drain(f.model.orders), "cancel")
				require.Empty(t, f.of("commitCheckpoint"))
				require.GreaterOrEqual(t, len(f.of("requestUpload")), uploadTries, "it is tried again")
				f.breakStore(nil)
				f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
				time.Sleep(2 * time.Minute)

				require.Len(t, f.of("completeJob"), 1)
			})
		})
	}
}

func TestLastCheckpoint(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		store    storing
		commits  int
		notified time.Duration
	}{
		"IsWaitedFor":           {slow(10 * time.Second), 1, 20 * time.Second}, // the log takes as long
		"IsNotWaitedForForEver": {slow(time.Hour), 0, lastSave + 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				f.breakStore(c.store)
				begun := time.Since(f.began)
				f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
				f.model.messages <- runtime.Failf(runtime.OutOfMemory, "out of memory")
				time.Sleep(2 * time.Minute)

				require.Len(t, f.of("commitCheckpoint"), c.commits)
				failed := f.of("failJob")
				require.Len(t, failed, 1)
				require.InDelta(t, c.notified, failed[0].at-begun, float64(time.Second))
			})
		})
	}
}

func TestBadCheckpoint(t *testing.T) {
	t.Parallel()

	sum, size, err := client.Checksum(strings.NewReader("state"))
	require.NoError(t, err)
	checkpoint := func(id string) object {
		return object{"id": id, "sizeBytes": size, "checksum": sum, "url": "http://store/" + id, "metadata": object{"step": 7, "percent": 62}}
	}

	for name, stored := range map[string]map[string]string{
		"Corrupt": {"/art_new": "rotte"}, "Missing": {}, "Short": {"/art_new": "sta"}, "Long": {"/art_new": "state and more"},
	} {
		t.Run("IsRejectedAndTheOneBeforeIsUsed/"+name, func(t *testing.T) {
			t.Parallel()
			prepare := func(c *control, _ *model) {
				c.queue(checkpoint("art_new"), checkpoint("art_old"))
				for path, text := range stored {
					c.stored[path] = text
				}
				c.stored["/art_old"] = "state"
			}
			story(t, prepare, func(t *testing.T, f *fixture) {
				order := <-f.model.started

				require.Len(t, order.Checkpoints, 1)
				rejected := f.of("rejectCheckpoint")
				require.Len(t, rejected, 1)
				require.Equal(t, "art_new", rejected[0].in["artifactId"])
			})
		})
	}

	t.Run("LeavesAFreshStartIfThereIsNoOther", func(t *testing.T) {
		t.Parallel()
		story(t, func(c *control, _ *model) { c.queue(checkpoint("art_new"), checkpoint("art_old")) }, func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Empty(t, order.Checkpoints)
			require.Len(t, f.of("rejectCheckpoint"), 2)
		})
	})

	t.Run("IsFetchedHoweverTheStoreBehaves", func(t *testing.T) {
		t.Parallel()
		prepare := func(c *control, _ *model) {
			c.queue(checkpoint("art_new"))
			c.stored["/art_new"] = "state"
			c.storing = refuse(20, http.StatusServiceUnavailable)
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Len(t, order.Checkpoints, 1)
			require.Empty(t, f.of("rejectCheckpoint"))
		})
	})

	t.Run("IsToldOfBeforeAnAttemptThatItSpoilsFails", func(t *testing.T) {
		t.Parallel()
		prepare := func(c *control, _ *model) {
			c.queue(checkpoint("art_new"), checkpoint("art_old"))
			c.stored["/art_new"], c.stored["/art_old"] = "state", "state"
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.CheckpointRejected{Path: order.Checkpoints[0].Path, Reason: "torn"}
			f.model.messages <- runtime.Failf(runtime.CheckpointCorrupt, "neither restores")
			time.Sleep(time.Second)

			rejected := f.of("rejectCheckpoint", "failJob")
			require.Equal(t, []string{"rejectCheckpoint", "rejectCheckpoint", "failJob"}, names(rejected))
			require.ElementsMatch(t, []any{"art_new", "art_old"}, []any{rejected[0].in["artifactId"], rejected[1].in["artifactId"]})
		})
	})
}
