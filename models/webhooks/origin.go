package webhooks

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Origin says what submitted a job: the node of its workflow, and the schedule that submitted the
// job or its workflow. Each is "" if there is none, or it is deleted.
type Origin struct {
	NodeKey    string            `bun:"node_key"`
	ScheduleID models.ScheduleID `bun:"schedule_id"`
}

// GetOrigin returns the origin of a job or, without one, of a workflow.
func GetOrigin(ctx context.Context, db bun.IDB, job models.JobID, workflow models.WorkflowID) (Origin, error) {
	var o Origin
	err := db.NewRaw(`
		SELECT (SELECT n.key FROM workflow_nodes n WHERE n.job_id = ?0 AND n.workflow_id = ?1) AS node_key,
			coalesce((SELECT s.schedule_id FROM schedule_slots s WHERE s.job_id = ?0 LIMIT 1),
				(SELECT s.schedule_id FROM schedule_slots s WHERE s.workflow_id = ?1 LIMIT 1)) AS schedule_id`,
		bun.NullZero(job), bun.NullZero(workflow)).Scan(ctx, &o)
	return o, err
}
