package shell

import (
	"strings"

	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// HaltedWords name a target in a sentence, and say what its halt means.
var HaltedWords = map[models.HaltTarget][2]string{
	models.HaltSchedules: {"Schedules", "no slot of a schedule fires"},
	models.HaltLeases:    {"Leases", "no worker gets a job"},
}

// HaltNames names what is halted in a sentence.
func HaltNames(what []models.HaltTarget) string {
	return strings.ToLower(strings.Join(lo.Map(what, func(t models.HaltTarget, _ int) string { return HaltedWords[t][0] }), " and "))
}
