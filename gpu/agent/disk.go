package agent

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"syscall"

	"github.com/reelay/reelay/gpu/runtime"
)

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
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || noSpace.MatchString(said) || noSpace.MatchString(detail)
	if !full {
		return nil
	}
	host, _ := os.Hostname()
	return &runtime.Failure{Class: runtime.Transient, Detail: detail, Message: fmt.Sprintf(
		"A disk of the host %s is full: %s. Free space there, or start its agent with a --work-dir on a larger disk.", host, said)}
}
