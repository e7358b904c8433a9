package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/pause"
)

// run is one attempt of a job.
type run struct {
	*host
	job    *runtime.Job
	asked  *Job
	handle handle
	engine Engine // that of the handle
	report *report
	// seen is when the engine last gave a valid answer.
	seen time.Time
	// sent reports whether the engine may have the work of the handle.
	sent bool
	// refetched reports whether the engine was asked again for the result of the handle.
	refetched bool
	// lost counts how often an engine lost the work of this attempt.
	lost int
}

// awayPause is the longest wait between two tries while an engine does not answer. It delays
// the job once the engine is back.
const awayPause = 2 * time.Second

// maxLost is how often work may be lost in one attempt before the job itself is suspected.
const maxLost = 3

// do starts the job, or adopts its work, and returns what the engine made.
func (r *run) do(ctx context.Context) (result runtime.Result, err error) {
	adopted, err := r.adopt(ctx)
	if err != nil {
		return result, err
	}
	for {
		if !adopted {
			if err := r.start(ctx); err != nil {
				return result, err
			}
		}
		adopted = false
		status, err := r.follow(ctx)
		if late, ok := errors.AsType[*unready](err); ok && r.elsewhere() {
			r.log("warn", fmt.Sprintf("%s. The job starts again on %s.", late.why, r.own))
			r.report.restart()
			r.begin()
			continue
		}
		if err != nil {
			return result, err
		}
		if status.State == Gone {
			if status, err = r.salvage(ctx, status); err != nil {
				return result, err
			}
		}
		if status.State == Gone && r.account != "" && r.engines[r.handle.URL] == nil {
			return result, r.lostByMove()
		}
		switch status.State {
		case Succeeded:
			r.made(status)
			if result, err = r.result(ctx, status); !errors.Is(err, errLostFile) {
				if failure, ok := errors.AsType[*runtime.Failure](err); ok && status.Paid {
					err = r.notHad(failure)
				}
				return result, err
			}
			if !r.refetched { // the file may be late, or its address too old
				r.refetched, adopted = true, true
				if err := pause.For(ctx, r.every); err != nil {
					return result, context.Cause(ctx)
				}
				continue
			}
			if status.Paid {
				return result, r.notHad(err)
			}
			r.log("warn", err.Error()+" The job starts again.")
		case Failed:
			r.clear()
			if status.Failure == nil {
				status.Failure = runtime.Failf(runtime.ModelCrash, "The engine %s reports a failure without a reason.", r.handle.URL)
			}
			return result, status.Failure
		case Cancelled:
			r.log("warn", "The engine cancelled the work, although Reelay did not ask for it. The job starts again.")
		case Gone:
			if r.handle.Missed > 0 || r.account != "" && r.refetched {
				return result, r.notHad(fmt.Errorf("%s no longer knows the job, which it had finished", r.handle.URL))
			}
			r.log("warn", fmt.Sprintf("The engine %s was restarted and lost the work. The job starts again.", r.handle.URL))
		}
		if r.lost++; r.lost >= maxLost || r.account != "" { // what is paid is started again by Reelay's rules of retries alone
			r.clear()
			if errors.Is(err, errLostFile) {
				return result, runtime.Failf(runtime.DefectiveResult,
					"NO_RESULT: The engine %s reported success %d times, but does not have the result. Look at the engine's own log.",
					r.handle.URL, r.lost)
			}
			return result, runtime.Failf(runtime.ModelCrash,
				"The engine %s lost the work %d times: it ended or was restarted while it rendered this job. Look at the engine's own log.",
				r.handle.URL, r.lost)
		}
		r.report.restart()
		r.begin()
	}
}

// begin makes the handle of the next run, on this worker's own engine.
func (r *run) begin() {
	r.handle, r.sent, r.refetched = newHandle(r.kind, r.own), false, false
	r.handle.Account = r.account
	r.engine = r.engines[r.own]
}

// clear forgets the work: the next attempt has nothing to adopt.
func (r *run) clear() {
	if err := r.job.StoreHandle(""); err != nil {
		r.log("warn", err.Error())
	}
}

// adopt takes over the work that an earlier attempt started. It reports false if there is none.
func (r *run) adopt(ctx context.Context) (bool, error) {
	former, ok := parseHandle(r.job.Handle)
	if !ok || former.Kind != r.kind {
		r.begin()
		return false, nil
	}
	if former.Account != r.account {
		return false, runtime.Failf(runtime.SubmitUnknown, "The work of an earlier attempt is paid by the pool %s, which this worker does not "+
			"see: to start it again pays for it twice.", former.Account)
	}
	r.handle = former
	r.engine, r.sent = r.engines[former.URL], true
	if r.engine == nil && r.account != "" {
		return r.adoptMoved(ctx)
	}
	if r.engine == nil {
		r.log("warn", fmt.Sprintf("The engine %s, which rendered the job, is not an engine of this agent. The job starts again.",
			former.URL))
		r.begin()
		return false, nil
	}
	r.log("info", "adopting the work on the engine "+former.URL)
	if former.Ref != "" {
		return true, nil
	}
	adopted, err := r.find(ctx)
	if _, gaveUp := errors.AsType[*unready](err); gaveUp && r.elsewhere() {
		r.log("warn", fmt.Sprintf("%s. The job starts again on %s.", err, r.own))
		r.begin()
		return false, nil
	}
	return adopted, err
}

// elsewhere reports whether the work is on the engine of another worker, although this worker's own can start it
// again. What is paid is never started again because of that.
func (r *run) elsewhere() bool { return r.handle.URL != r.own && r.account == "" }

// adoptMoved takes over paid work whose address is no longer one of the pool's. The account is the same, so it is
// looked for at the new address. The stored handle keeps the old one: an answer of the new one that does not know
// the work proves nothing.
func (r *run) adoptMoved(ctx context.Context) (bool, error) {
	if len(r.engines) > 1 {
		return false, r.lostByMove()
	}
	r.engine = r.engines[r.own]
	r.log("warn", fmt.Sprintf("The address of the pool %s has changed from %s to %s since the job was submitted. Its work is adopted there.",
		r.account, r.handle.URL, r.own))
	if r.handle.Ref != "" {
		return true, nil
	}
	adopted, err := r.find(ctx)
	if err == nil && !adopted {
		err = r.lostByMove()
	}
	return adopted, err
}

func (r *run) lostByMove() error {
	return runtime.Failf(runtime.SubmitUnknown, "The job was submitted to %s, and the address of the pool %s has changed since: whether its "+
		"work goes on cannot be seen, and to start it again may pay for it twice. Set the address back, or decide.", r.handle.URL, r.account)
}

// start submits the job as a new run. On return the engine has it, and the control plane knows.
func (r *run) start(ctx context.Context) error {
	health, err := r.awaitIdle(ctx)
	if err != nil {
		return err
	}
	r.handle.Since = health.Now
	if biller, ok := r.engine.(Biller); ok {
		if r.handle.Asked, err = biller.Asked(r.asked); err != nil {
			return err
		}
	}
	var submit func(context.Context) (string, error)
	err = r.insist(ctx, "preparing the job", func() (err error) {
		submit, err = r.engine.Prepare(ctx, r.handle.Key, r.asked)
		return err
	})
	if err != nil {
		return err
	}
	for {
		if err := r.admit(ctx); err != nil {
			return err
		}
		ref, err := submit(ctx)
		if err == nil {
			return r.submitted(ref)
		}
		lost, unsent := errors.AsType[*Unreachable](err)
		unsent = unsent && !lost.Sent
		failure, refused := errors.AsType[*runtime.Failure](err)
		later := errors.Is(err, ErrLater)
		if unsent || refused || later { // nothing can have begun
			r.sent = false
			r.clear()
		}
		switch {
		case refused:
			return failure
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case later:
			r.touch()
			r.report.say("the engine has no room for the job now; the job waits")
			err = pause.For(ctx, r.every)
		case unsent:
			r.log("warn", "the submit could not be sent: "+err.Error())
			err = r.away(ctx, err)
		default:
			r.log("warn", "the submit got no answer: "+err.Error())
			var found bool
			if found, err = r.find(ctx); found {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// admit waits until the job may be submitted, and then stores its handle: what is stored without Ref may have begun.
func (r *run) admit(ctx context.Context) error {
	if admitter, ok := r.engine.(Admitter); ok {
		if err := admitter.Admit(ctx); err != nil {
			return err
		}
	}
	if r.sent {
		return nil
	}
	if err := r.job.KeepHandle(ctx, r.handle.String()); err != nil {
		return err
	}
	r.sent = true
	return nil
}

func (r *run) submitted(ref string) error {
	r.handle.Ref = ref
	r.touch()
	return r.job.StoreHandle(r.handle.String())
}

// made stores that the video of paid work is made, which is what the provider charges for.
func (r *run) made(status Status) {
	if !status.Paid || r.handle.Made {
		return
	}
	r.handle.Made = true
	if err := r.job.StoreHandle(r.handle.String()); err != nil {
		r.log("warn", err.Error())
	}
}

// find looks for work whose submit was not answered. It reports false if the engine surely does not
// have it: then it may be submitted. An engine that cannot say it surely does not have it once it
// has nothing to do: it had nothing else.
func (r *run) find(ctx context.Context) (bool, error) {
	found, ref, idle := FoundUnknown, "", 0
	err := r.insist(ctx, "looking for the job", func() (err error) {
		if ref, found, err = r.engine.Find(ctx, r.handle.Key, r.handle.Since, r.asked); err != nil || found != FoundUnknown {
			return err
		}
		health, err := r.engine.Health(ctx)
		if err != nil {
			return err
		}
		if health.Busy {
			idle = 0
		} else if idle++; idle >= 2 {
			found = FoundNothing
			return nil
		}
		return errAgain
	})
	if err == nil && found == FoundDoubt {
		return false, runtime.Failf(runtime.SubmitUnknown, "The submit to %s was not answered, and the provider cannot say whether it began: "+
			"to submit the job again may pay for it twice.", r.handle.URL)
	}
	if err != nil || found != FoundWork {
		return false, err
	}
	return true, r.submitted(ref)
}

// errAgain makes insist repeat a call although the engine answers.
var errAgain = errors.New("again")

// unready is the failure of an engine that takes no job now.
type unready struct {
	why   string
	cause error // of the last call; nil if the engine answered
}

// failure is what the end of the patience means for the job. An account's work that is answered with nonsense counts
// as a failed attempt: the provider can be reached, and adopted work would get the same answers for ever.
func (e *unready) failure(account string) *runtime.Failure {
	_, confused := errors.AsType[*Confused](e.cause)
	_, moved := errors.AsType[*Moved](e.cause)
	if account != "" && (confused || moved) {
		return runtime.Failf(runtime.Transient, "%s", e.why)
	}
	return &runtime.Failure{Class: runtime.ProviderUnavailable, Message: e.why, Unready: true}
}

func (e *unready) Error() string { return e.why }

// insist repeats a call until the engine answers. It gives up with *unready once the engine has
// given no valid answer for too long.
func (r *run) insist(ctx context.Context, what string, call func() error) error {
	for {
		err := call()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			r.touch()
			return nil
		case errors.Is(err, errAgain):
			r.touch()
			r.report.say(what)
			if err := pause.For(ctx, r.every); err != nil {
				return err
			}
			continue
		}
		if _, refused := errors.AsType[*runtime.Failure](err); refused {
			return err
		}
		if _, late := errors.AsType[*unready](err); late || errors.Is(err, errLostFile) {
			return err
		}
		if err := r.away(ctx, err); err != nil {
			return err
		}
	}
}

// touch records a valid answer.
func (r *run) touch() { r.seen = time.Now() }

// away waits a moment for an engine that gave no valid answer. It returns *unready if that lasts
// too long: shorter for the engine of another worker, since this worker's own could render.
func (r *run) away(ctx context.Context, cause error) error {
	limit := r.patience
	if r.elsewhere() {
		limit /= 4
	}
	silent := time.Since(r.seen)
	if silent > limit {
		return &unready{fmt.Sprintf("The engine %s gave no valid answer for %s: %s", r.handle.URL, silent.Round(time.Second), cause), cause}
	}
	r.report.say(fmt.Sprintf("the engine %s does not answer; the job waits for it", r.handle.URL))
	return pause.For(ctx, min(max(silent/4, r.every), awayPause))
}

// awaitIdle waits until the engine has nothing to do: the backlog stays with Reelay.
func (r *run) awaitIdle(ctx context.Context) (health Health, err error) {
	begun := time.Now()
	err = r.insist(ctx, "waiting for the engine", func() (err error) {
		health, err = r.engine.Health(ctx)
		why := health.Loading
		if health.Busy {
			why = "it renders something else"
		}
		if err != nil || why == "" {
			return err
		}
		if time.Since(begun) > r.patience {
			return &unready{fmt.Sprintf("The engine %s takes no job: %s", r.handle.URL, why), nil}
		}
		return errAgain
	})
	return health, err
}

func (r *run) log(level, message string) { r.job.Log(level, message) }
