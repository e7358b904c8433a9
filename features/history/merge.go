package history

import "github.com/reelay/reelay/models"

type queueKey struct {
	lane  models.Tier
	model string
}

// mergeJobs returns one row for each lane and model, in the order of their first rows.
func mergeJobs(rows []*models.HistoryJobs) []*models.HistoryJobs {
	return merge(rows, func(j *models.HistoryJobs) queueKey { return queueKey{j.Lane, j.Model} },
		func(j *models.HistoryJobs) *models.HistoryJobs {
			return &models.HistoryJobs{Lane: j.Lane, Model: j.Model}
		},
		(*models.HistoryJobs).Add)
}

type poolKey struct{ pool, region, gpuType string }

// mergePools returns one row for each pool, region and GPU type, in the order of their first rows.
func mergePools(rows []*models.HistoryPool) []*models.HistoryPool {
	return merge(rows, func(p *models.HistoryPool) poolKey { return poolKey{p.Pool, p.Region, p.GPUType} },
		func(p *models.HistoryPool) *models.HistoryPool {
			return &models.HistoryPool{Pool: p.Pool, Region: p.Region, GPUType: p.GPUType}
		}, (*models.HistoryPool).Add)
}

// merge adds up the rows with the same key. It does not change the rows.
func merge[K comparable, R any](rows []*R, key func(*R) K, empty func(*R) *R, add func(into, row *R)) []*R {
	var all []*R
	found := map[K]*R{}
	for _, row := range rows {
		into := found[key(row)]
		if into == nil {
			into = empty(row)
			found[key(row)] = into
			all = append(all, into)
		}
		add(into, row)
	}
	return all
}
