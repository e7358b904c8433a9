package query

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
)

// System is what Reelay runs on.
type System struct {
	*alerts.Health
	Database  *models.Database
	Processes []*models.Process
	// Agents counts the workers by the version of their agent.
	Agents []*models.AgentVersion
}

// System describes what Reelay runs on, for operators. Its cost does not grow with the number
// of jobs.
func (r *History) System(ctx context.Context) (*System, error) {
	s := new(System)
	var err error
	if s.Health, err = r.Health(ctx); err != nil {
		return nil, err
	}
	if s.Database, err = models.ReadDatabase(ctx, r.db); err != nil {
		return nil, apierror.Wrap(err, "describe PostgreSQL")
	}
	if s.Processes, err = models.ListProcesses(ctx, r.db); err != nil {
		return nil, apierror.Wrap(err, "list the processes")
	}
	s.Agents, err = models.CountAgentVersions(ctx, r.db)
	return s, apierror.Wrap(err, "count the versions of agents")
}
