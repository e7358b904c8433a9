package agent

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// values returns the handles that were sent to the control plane.
func (c *control) values() []string {
	var all []string
	for _, call := range c.of("storeHandle") {
		all = append(all, call.in["value"].(string))
	}
	return all
}

// adopting queues a job whose earlier attempt stored a handle.
func adopting(c *control, _ *model) {
	leased := lease()
	leased["handle"] = "prediction 7"
	c.leases = append(c.leases, leased)
}

func TestHandle(t *testing.T) {
	t.Parallel()

	t.Run("IsStoredAtOnceUnderTheToken", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			require.Empty(t, order.Handle)
			f.model.messages <- &runtime.Handle{Value: "prediction 7"}
			synctest.Wait()

			stored := f.of("storeHandle")
			require.Len(t, stored, 1)
			require.Equal(t, "prediction 7", stored[0].in["value"])
			require.Equal(t, "att_1", stored[0].in["attemptId"])
			require.Equal(t, "token", stored[0].in["fencingToken"])
			require.NotContains(t, f.log.String(), "prediction 7")
		})
	})

	t.Run("IsAcknowledgedOnceItIsStored", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.messages <- &runtime.Handle{Value: "none yet", Ack: true}
			require.Equal(t, "stored", <-f.model.orders)
			require.Equal(t, []string{"none yet"}, f.values())

			f.model.messages <- &runtime.Handle{Value: "none yet", Ack: true} // the control plane has it
			require.Equal(t, "stored", <-f.model.orders)
			f.model.messages <- &runtime.Handle{Value: "prediction 7"}
			time.Sleep(2 * handleEvery)
			require.Equal(t, []string{"none yet", "prediction 7"}, f.values())
			require.Empty(t, f.model.orders, "it did not ask")
		})
	})

	t.Run("IsGivenToTheNextAttempt", func(t *testing.T) {
		t.Parallel()
		story(t, adopting, func(t *testing.T, f *fixture) {
			require.Equal(t, "prediction 7", (<-f.model.started).Handle)
			f.model.messages <- &runtime.Handle{Value: "prediction 7"} // it has this one
			time.Sleep(2 * handleEvery)
			require.Empty(t, f.values())
			f.model.messages <- &runtime.Handle{}
			synctest.Wait()
			require.Equal(t, []string{""}, f.values())
		})
	})

	t.Run("IsStoredAtMostOnceASecond", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			for i := range 3000 {
				f.model.messages <- &runtime.Handle{Value: fmt.Sprint(i)}
				time.Sleep(time.Millisecond)
			}
			time.Sleep(handleEvery)
			synctest.Wait()

			values := f.values()
			require.Len(t, values, 4)
			require.Equal(t, "0", values[0])
			require.Equal(t, "2999", values[3])
		})
	})

	t.Run("IsStoredBeforeAnyEndOfTheAttempt", func(t *testing.T) {
		t.Parallel()
		for end, by := range map[string]func(t *testing.T, f *fixture, order runtime.Start){
			"failJob": func(_ *testing.T, f *fixture, _ runtime.Start) {
				f.model.messages <- runtime.Failf(runtime.Transient, "the poll failed")
			},
			"completeJob": func(t *testing.T, f *fixture, order runtime.Start) {
				f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			},
			"releaseJob": func(t *testing.T, f *fixture, _ runtime.Start) {
				f.notices <- Notice{Reason: "test", Deadline: time.Now().Add(30 * time.Second)}
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{}
				require.NoError(t, <-f.ended)
			},
		} {
			story(t, oneJob, func(t *testing.T, f *fixture) {
				order := <-f.model.started
				drain(f.model.orders)
				f.model.messages <- &runtime.Handle{Value: "prediction 6"}
				synctest.Wait()
				f.model.messages <- &runtime.Handle{Value: "prediction 7"}
				synctest.Wait()
				require.Equal(t, []string{"prediction 6"}, f.values())
				before := time.Now()
				by(t, f, order)
				synctest.Wait()

				require.Equal(t, []string{"storeHandle", "storeHandle", end}, names(f.of("storeHandle", end)), end)
				require.Equal(t, []string{"prediction 6", "prediction 7"}, f.values())
				require.Less(t, time.Since(before), handleEvery, end)
			})
		}
	})

	t.Run("IsStoredAfterAnOutage", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.goAway(refusing)
			f.model.messages <- &runtime.Handle{Value: "prediction 7"}
			time.Sleep(20 * time.Second)
			f.comeBack()
			time.Sleep(20 * time.Second)

			require.Equal(t, []string{"prediction 7"}, f.values())
		})
	})

	t.Run("IsRefusedWithAStaleToken", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.set("storeHandle", lost)
			f.model.messages <- &runtime.Handle{Value: "prediction 7"}
			time.Sleep(time.Second)

			require.Equal(t, "cancel, keep", <-f.model.orders)
			require.Empty(t, f.of("failJob", "releaseJob", "completeJob"))
		})
	})

	t.Run("ThatIsRefusedDoesNotFailTheJob", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.set("storeHandle", func(object) (object, client.Code) { return nil, client.CodeInvalidInput })
			f.model.messages <- &runtime.Handle{Value: "prediction 7"}
			f.model.messages <- &runtime.Result{Video: file(t, order, "video.mp4")}
			time.Sleep(5 * time.Second)

			require.Len(t, f.of("completeJob"), 1)
			require.Contains(t, f.log.String(), "a handle was not stored")
			require.NotContains(t, f.log.String(), "prediction 7")
		})
	})
}
