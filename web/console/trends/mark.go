package trends

import (
	"context"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/ui"
)

// maxMarks is how many changes the charts of a page mark.
const maxMarks = 50

// markedKinds are the kinds of changes that move the figures of a chart.
var markedKinds = []query.ChangeKind{query.ChangeModel, query.ChangePool, query.ChangeQueue, query.ChangeHalt, query.ChangeProcess}

// Mark marks the newest changes in charts of a time.
func (s *Reader) Mark(ctx context.Context, span Range, charts []ui.ChartData) error {
	filter := query.ChangeFilter{Kinds: markedKinds, Since: time.Now().Add(-span.Length - span.Step)}
	found, err := s.reads.History.Changes(ctx, jobs.Host, filter, paging.Request{First: maxMarks})
	if err != nil {
		return err
	}
	marks := make([]ui.ChartMark, 0, len(found.Items))
	for _, change := range found.Items {
		marks = append(marks, ui.ChartMark{At: change.At, Text: ui.Upright(change.Title)})
	}
	for i := range charts {
		charts[i].Marks = marks
	}
	return nil
}
