package schedule

import (
	"cmp"
	"slices"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
)

const (
	// firePlaces is how many slots a process submits at once. The submitter batches them.
	firePlaces = 24
	// fireShare is how many of them are of one account, so that slow submits of some accounts leave
	// places for others.
	fireShare = 8
	// fireTurn is how many places a process waits for before it takes slots, while others are under
	// way.
	fireTurn = 6
)

// turns says whose slots a process takes next: each tier and each account in it has its turn, however
// many slots others have. Slots of one account and tier follow each other by time.
type turns struct {
	turn   int
	served map[flow]int // the turn in which it was last served
}

type flow struct {
	tier    models.Tier
	account models.AccountID
}

// share gives out free places to flows whose slots are due. busy is how many places each account
// has, and counts those that are given.
//
// Each tier gets one place first, so that none starves. The others go to the tiers in order. In a tier
// they go round its accounts, which begin with the one whose turn is the longest ago.
func (t *turns) share(due []schedules.SlotFlow, free int, busy map[models.AccountID]int) []schedules.SlotShare {
	if len(t.served) > 2*len(due)+1000 { // most are gone
		t.served = nil
	}
	if t.served == nil {
		t.served = map[flow]int{}
	}
	lines := make([][]*schedules.SlotShare, len(models.Tiers))
	var all []*schedules.SlotShare
	for _, f := range due {
		one := &schedules.SlotShare{SlotFlow: f}
		all = append(all, one)
		if rank := slices.Index(models.Tiers, f.Tier); rank >= 0 {
			lines[rank] = append(lines[rank], one)
		}
	}
	give := func(line []*schedules.SlotShare, most int) (gave int) {
		for _, one := range line {
			if free > 0 && gave < most && busy[one.AccountID] < fireShare {
				t.turn++
				t.served[flow{one.Tier, one.AccountID}] = t.turn
				busy[one.AccountID]++
				one.Most++
				free--
				gave++
			}
		}
		return gave
	}
	for _, line := range lines {
		slices.SortFunc(line, func(a, b *schedules.SlotShare) int {
			return cmp.Or(cmp.Compare(t.served[flow{a.Tier, a.AccountID}], t.served[flow{b.Tier, b.AccountID}]), a.DueAt.Compare(b.DueAt))
		})
		if give(line, 1) > 0 { // it has had its turn
			slices.SortStableFunc(line, func(a, b *schedules.SlotShare) int { return cmp.Compare(a.Most, b.Most) })
		}
	}
	for _, line := range lines {
		for give(line, len(line)) > 0 {
		}
	}
	var shares []schedules.SlotShare
	for _, one := range all {
		if one.Most > 0 {
			shares = append(shares, *one)
		}
	}
	return shares
}
