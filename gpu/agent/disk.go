package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
)

// diskRest is how long the agent takes no job after one failed because a disk is full, so that it
// does not fail one job after another that other workers could do.
const diskRest = time.Minute

func (a *Agent) rest(ctx context.Context) {
	if !a.resting {
		return
	}
	a.resting = false
	a.log.Warn("no job is taken for a while, because a disk of this host is full", "for", diskRest)
	ctx, stop := until(ctx, a.going.draining, errHandOver)
	defer stop()
	_ = pause(ctx, diskRest)
}

var noSpace = regexp.MustCompile(`(?i)no space left on device|disk quota exceeded|\bENOSPC\b`)

// fullDisk returns a failure of class TRANSIENT if err says that a disk of this machine is full, or
// nil. It is the host's fault, whatever the runtime calls it: another host has space.
func fullDisk(err error) *runtime.Failure {
	said, detail := err.Error(), ""
	if failure, ok := errors.AsType[*runtime.Failure](err); ok {
		if failure.Class != runtime.ModelCrash && failure.Class != runtime.Transient {
			return nil // its own judgement, such as INVALID_INPUT
		}
		detail = failure.Detail
	}
	if _, theirs := errors.AsType[*client.Error](err); theirs {
		return nil // the disk of the control plane or the store
	}
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || noSpace.MatchString(said) || noSpace.MatchString(detail)
	if !full {
		return nil
	}
	host, _ := os.Hostname()
	return &runtime.Failure{Class: runtime.Transient, Detail: detail, Message: fmt.Sprintf(
		"A disk of the host %s is full: %s. Free space there, or start its agent with a --work-dir on a larger disk.", host, said)}
}
