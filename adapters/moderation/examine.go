package moderation

import (
	"context"
	"time"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/submit"
)

var _ doctor.Examiner = (*Hook)(nil)

// ProbeType is the type of the job about which the doctor asks, which is never made.
const ProbeType = "reelay.doctor"

// Examine implements doctor.Examiner: it asks one question. It does not matter what the answer is.
func (h *Hook) Examine(ctx context.Context) []doctor.Finding {
	found := doctor.Finding{Check: "moderation", Level: doctor.LevelOK,
		Holds: "The moderation server answers within " + text.Setting(h.config.Timeout) + ", the limit."}
	start := time.Now()
	_, err := h.ask(ctx, &submit.Content{JobType: ProbeType, Prompt: "A question of reelay doctor.", Params: []byte("{}"),
		Inputs: []submit.ContentInput{}})
	const fix = "Check REELAY_MODERATION_URL and the server's own log: docs/operators/moderation.md."
	switch took := time.Since(start); {
	case err != nil && h.config.Open:
		found.Level, found.Found, found.Fix = doctor.LevelAdvice, "It does not: "+err.Error()+".", fix
		found.Matters = "Every job is accepted unchecked, since REELAY_MODERATION_ON_FAILURE is open."
	case err != nil:
		found.Level, found.Found, found.Fix = doctor.LevelBroken, "It does not: "+err.Error()+".", fix
		found.Matters = "No job is accepted, since REELAY_MODERATION_ON_FAILURE is closed."
	case took > h.config.Timeout/2:
		found.Level, found.Found = doctor.LevelAdvice, "It took "+text.Duration(took)+"."
		found.Matters = "Each submit takes as long, and one that takes longer than the limit gets no answer."
		found.Fix = "Let the server answer faster, or raise REELAY_MODERATION_TIMEOUT."
	}
	return []doctor.Finding{found}
}
