package testrun

import (
	"testing"
	"time"
)

// WaitLimit is after how long a wait counts as a hang. It is no measure of
// speed: what takes a second on an idle machine may take minutes on a busy one.
const WaitLimit = 5 * time.Minute

const longestPause = 50 * time.Millisecond

// Eventually calls check until it returns true. It is for events that cannot be
// waited for otherwise, such as those in other processes. After [WaitLimit] it
// fails the test and says what did not happen.
func Eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	limit := time.Now().Add(WaitLimit)
	for pause := time.Millisecond; !check(); pause = min(2*pause, longestPause) {
		if time.Now().After(limit) {
			t.Fatalf("not within %s: %s", WaitLimit, what)
		}
		time.Sleep(pause)
	}
}

// Receive returns the next value of a channel, or the zero value if it is closed.
// After [WaitLimit] it fails the test and says what did not happen.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	limit := time.NewTimer(WaitLimit)
	defer limit.Stop()
	select {
	case value := <-from:
		return value
	case <-limit.C:
		t.Fatalf("not within %s: %s", WaitLimit, what)
		panic("unreachable")
	}
}
