package submit

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

// DefaultUserShare is the default of Submitter.UserShare, in percent.
const DefaultUserShare = 50

// userQueues counts how many more waiting jobs each user may have.
type userQueues struct {
	// share is Submitter.UserShare.
	share int
	// left contains the limited users, with the number of jobs that each may add.
	left map[backlog.UserQueue]int
}

// readUsers reads how many jobs of the submissions' users wait, if users are limited. It runs
// no query for submissions without a user.
func (b *submitBatch) readUsers(ctx context.Context) error {
	b.users.left = map[backlog.UserQueue]int{}
	var asked []backlog.UserQueue
	var most []int
	for call, one := range b.open() {
		if one.asked.UserID == "" {
			continue
		}
		user := backlog.UserQueue{AccountID: call.account, UserID: one.asked.UserID}
		_, known := b.users.left[user]
		limit, limited := b.users.limit(b.accounts[call.account])
		if known || !limited {
			continue
		}
		b.users.left[user] = limit
		asked, most = append(asked, user), append(most, limit)
	}
	if len(asked) == 0 {
		return nil
	}
	counts, err := backlog.CountUserQueues(ctx, b.tx, asked, most)
	if err != nil {
		return fmt.Errorf("count the waiting jobs of users: %w", err)
	}
	for i, n := range counts {
		b.users.left[asked[i]] -= n
	}
	return nil
}

// limitsUsers reports whether a share, in percent, is a limit.
func limitsUsers(share int) bool { return share > 0 && share < 100 }

// limit returns how many waiting jobs one user of an account may have, and whether that is
// limited.
func (u *userQueues) limit(account *models.Account) (most int, limited bool) {
	if !limitsUsers(u.share) || account.MaxQueued >= jobs.Unlimited {
		return 0, false
	}
	return (account.MaxQueued*u.share + 99) / 100, true
}

// enter takes a place in the queue for a user's job, or refuses the job. keeps means that the job
// keeps its place.
func (u *userQueues) enter(job *models.Job, keeps bool) error {
	user := backlog.UserQueue{AccountID: job.AccountID, UserID: job.UserID}
	left, limited := u.left[user]
	if !limited {
		return nil
	}
	if left <= 0 {
		return errUserQueueFull
	}
	if keeps {
		u.left[user]--
	}
	return nil
}

var errUserQueueFull = func() *apierror.Error {
	e := apierror.Later(apierror.CodeQuotaExceeded, 10*time.Second,
		"This user has as many waiting jobs as one user of this account may have: wait for some to start, or cancel some.")
	e.Field = "userId"
	return e
}()
