package ready

import (
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
)

// Rights are the rules of the ACL that Reelay needs. The keys and channels are those of the
// ready index, the notifications and the rates, and those of asynq.
func Rights(mode redisurl.Mode) []string {
	rules := []string{"~{reelay}:*", "~asynq:*", "&{reelay}:*", "&asynq:*"}
	for _, command := range commandsOf(mode) {
		rules = append(rules, rightOf(command))
	}
	return rules
}

// Access is the part of Examine that makes no call.
func (x *Examiner) Access() doctor.Finding { return x.access() }

// Patient makes calls wait however long a busy machine takes.
func (x *Index) Patient() *Index {
	x.timeout = testrun.WaitLimit
	return x
}

// Patient makes calls wait however long a busy machine takes.
func (n *Notifications) Patient() *Notifications {
	n.timeout = testrun.WaitLimit
	return n
}
