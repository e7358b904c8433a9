package localstack

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Follow returns a context that ends with ctx or when one of the processes ends. It is
// for programs started by a task runner, which neither forwards signals nor ends its
// children when it is killed. pids are process ids separated by spaces; anything else is
// an error.
func Follow(ctx context.Context, pids string) (context.Context, error) {
	var followed []int
	for field := range strings.FieldsSeq(pids) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("%q is not a process id", field)
		}
		followed = append(followed, pid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		defer cancel(errors.New("a process that it follows has ended"))
		look := time.NewTicker(250 * time.Millisecond)
		defer look.Stop()
		for allAlive(followed) {
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, nil
}

func allAlive(pids []int) bool {
	for _, pid := range pids {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return false
		}
	}
	return true
}
