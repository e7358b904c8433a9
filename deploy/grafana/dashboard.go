package main

// object is a JSON object of Grafana's model of a dashboard.
type object = map[string]any

// query is one line of a panel.
type query struct{ expr, legend string }

// panel is a chart, or a single number if stat is set.
type panel struct {
	title, unit string
	stat        bool
	queries     []query
}

// row is a group of panels.
type row struct {
	title  string
	panels []panel
}

// by returns a panel with one query.
func by(title, unit, legend, expr string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}}
}

// number returns a panel with a single number.
func number(title, unit, expr string) panel {
	return panel{title: title, unit: unit, stat: true, queries: []query{{expr, title}}}
}

// quantiles returns a panel with the p50, p95 and p99 of a histogram.
func quantiles(title, metric string) panel {
	p := panel{title: title, unit: "s"}
	for _, q := range [][2]string{{"0.5", "p50"}, {"0.95", "p95"}, {"0.99", "p99"}} {
		p.queries = append(p.queries, query{"histogram_quantile(" + q[0] + ", sum by (le) (rate(" + metric + "_bucket[$__rate_interval])))",
			q[1]})
	}
	return p
}

// rows are the contents. Gauges are the same in every process, so the queries take their maximum;
// counters of the processes add up.
var rows = []row{
	{"Overview", []panel{
		number("Jobs waiting", "short", "sum(max by (tier, model) (reelay_queue_depth))"),
		number("Jobs running", "short", "sum(max by (tier, model) (reelay_queue_running))"),
		number("Completed, last hour", "percentunit", "reelay:completion_ratio:rate1h"),
		number("Workers busy", "percentunit", "max(reelay_worker_utilization)"),
		number("Cost per hour", "currencyUSD", "sum(max by (pool) (reelay_pool_cost_usd_per_hour))"),
		number("Dead letters", "short", "max(reelay_dlq_size)"),
		by("Jobs that ended", "cpm", "{{status}} {{class}}", "sum by (status, class) (rate(reelay_jobs_finished_total[$__rate_interval])) * 60"),
		by("Submits", "cpm", "{{tier}}", "sum by (tier) (rate(reelay_submits_accepted_total[$__rate_interval])) * 60"),
		by("Refused submits", "cpm", "{{code}}", "sum by (code) (rate(reelay_submits_refused_total[$__rate_interval])) * 60"),
	}},
	{"Queues", []panel{
		by("Depth", "short", "{{tier}} {{model}}", "max by (tier, model) (reelay_queue_depth)"),
		by("Oldest wait", "s", "{{tier}}", "max by (tier) (reelay_queue_oldest_wait_seconds)"),
		by("Time to empty", "s", "{{tier}}", "max by (tier) (reelay_estimated_drain_time_seconds)"),
		by("Wait before the first lease, p95", "s", "{{tier}}",
			"histogram_quantile(0.95, sum by (le, tier) (rate(reelay_queue_wait_seconds_bucket[$__rate_interval])))"),
		by("Wrong by, p95", "s", "{{tier}}",
			"histogram_quantile(0.95, sum by (le, tier) (rate(reelay_eta_error_seconds_bucket[$__rate_interval])))"),
		by("Lag of outbox, scheduler and settler", "s", "{{__name__}}",
			"max by (__name__) ({__name__=~\"reelay_outbox_lag_seconds|reelay_scheduler_lag_seconds|reelay_settle_lag_seconds\"})"),
		by("Dependencies that wait to be settled", "short", "dependencies", "max(reelay_unsettled_dependencies)"),
	}},
	{"Jobs and checkpoints", []panel{
		quantiles("Generation", "reelay_generation_seconds"),
		by("Generation by model, p95", "s", "{{model}} {{resolution}}",
			"histogram_quantile(0.95, sum by (le, model, resolution) (rate(reelay_generation_seconds_bucket[$__rate_interval])))"),
		quantiles("Checkpoints", "reelay_checkpoint_duration_seconds"),
		quantiles("From lease to start", "reelay_job_start_lag_seconds"),
		quantiles("Recovery after preemptions", "reelay_preemption_recovery_seconds"),
		by("Slots of schedules", "cpm", "{{state}} {{cause}}",
			"sum by (state, cause) (rate(reelay_schedule_slots_total[$__rate_interval])) * 60"),
		quantiles("From a slot's time to its job", "reelay_schedule_fire_lag_seconds"),
		number("Stalled jobs", "short", "max(reelay_stalled_jobs)"),
	}},
	{"Fleet", []panel{
		by("Workers", "short", "{{status}}", "max by (status) (reelay_workers)"),
		by("Workers by pool", "short", "{{pool}} {{state}}", "max by (pool, state) (reelay_pool_workers)"),
		by("GPU utilization", "percentunit", "{{pool}}", "max by (pool) (reelay_gpu_utilization)"),
		by("GPU memory", "percentunit", "{{pool}}", "max by (pool) (reelay_gpu_memory_used_ratio)"),
		by("Preemptions", "cpm", "{{region}} {{pool}}", "sum by (region, pool) (rate(reelay_preemptions_total[$__rate_interval])) * 60"),
		by("Expired leases", "cpm", "{{pool}}", "sum by (pool) (rate(reelay_lease_expirations_total[$__rate_interval])) * 60"),
	}},
	{"Costs", []panel{
		by("Cost of the fleet per hour", "currencyUSD", "{{pool}}", "max by (pool) (rate(reelay_cost_usd_total[$__rate_interval])) * 3600"),
		by("Spent today, by provider", "currencyUSD", "{{provider}} {{part}}", "max by (provider, part) (reelay_spent_today_usd)"),
		by("Charged today, by provider", "currencyUSD", "{{provider}}", "max by (provider) (reelay_charged_today_usd)"),
		by("Price of the machines now", "currencyUSD", "{{pool}}", "max by (pool) (reelay_pool_cost_usd_per_hour)"),
		by("Paid workers by what they do", "short", "{{class}}",
			"sum by (class) (max by (class, pool) (rate(reelay_paid_seconds_total[$__rate_interval])))"),
		by("Goodput", "percentunit", "{{pool}}",
			"(max by (pool) (rate(reelay_paid_seconds_total{class=\"render\"}[1h])) - max by (pool) (rate(reelay_wasted_gpu_seconds_total[1h]))) / (sum by (pool) (max by (class, pool) (rate(reelay_paid_seconds_total[1h]))) > 0)"),
		by("Work that is lost", "percentunit", "{{pool}}",
			"max by (pool) (rate(reelay_wasted_gpu_seconds_total[$__rate_interval])) / (max by (pool) (rate(reelay_gpu_seconds_total[$__rate_interval])) > 0)"),
		by("GPU hours lost per day", "h", "{{pool}}", "max by (pool) (increase(reelay_wasted_gpu_seconds_total[1d])) / 3600"),
	}},
	{"Stores", []panel{
		by("Calls of the object store", "cps", "{{operation}} {{result}}",
			"sum by (operation, result) (rate(reelay_object_call_duration_seconds_count[$__rate_interval]))"),
		by("Duration of the object store's calls, p95", "s", "{{operation}}",
			"histogram_quantile(0.95, sum by (le, operation) (rate(reelay_object_call_duration_seconds_bucket[$__rate_interval])))"),
		by("Calls of Redis", "cps", "{{result}}", "sum by (result) (rate(reelay_redis_call_duration_seconds_count[$__rate_interval]))"),
		quantiles("Duration of Redis' calls", "reelay_redis_call_duration_seconds"),
	}},
	{"Regions and standbys", []panel{
		by("Primary", "short", "{{region}}", "max by (region) (reelay_region_primary)"),
		by("Regions that answer", "short", "{{peer}}", "max by (peer) (reelay_region_peer_up)"),
		by("What is wrong with them", "short", "{{peer}} {{trouble}}", "max by (peer, trouble) (reelay_region_peer_trouble) > 0"),
		by("Promotions", "short", "epoch", "max(reelay_region_epoch)"),
		by("Standbys", "short", "{{state}}", "max by (state) (reelay_standbys)"),
		by("Log that the slowest standby lacks", "bytes", "bytes", "max(reelay_standby_behind_bytes)"),
	}},
	{"API and webhooks", []panel{
		by("Requests", "reqps", "{{route}} {{code}}",
			"sum by (route, code) (rate(reelay_http_request_duration_seconds_count[$__rate_interval]))"),
		by("Duration, p95", "s", "{{route}}",
			"histogram_quantile(0.95, sum by (le, route) (rate(reelay_http_request_duration_seconds_bucket{route!=\"stream\"}[$__rate_interval])))"),
		by("Webhooks", "cpm", "{{outcome}}", "sum by (outcome) (rate(reelay_webhook_deliveries_total[$__rate_interval])) * 60"),
		by("Processes by version", "short", "{{version}} {{commit}}", "count by (version, commit) (reelay_build_info)"),
	}},
}

// dashboard returns Grafana's model of the dashboard: a row of a title, then its panels, four
// numbers or three charts side by side.
func dashboard() object {
	panels, id, y := []object{}, 0, 0
	add := func(p object, x, width, height int) {
		id++
		p["id"], p["gridPos"] = id, object{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, p)
	}
	for _, r := range rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, 24, 1)
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := 8, 8
			if p.stat {
				w, h = 4, 4
			}
			if x+w > 24 || height != 0 && h != height {
				x, y = 0, y+height
			}
			add(p.model(), x, w, h)
			x, height = x+w, h
		}
		y += height
	}
	return object{
		"uid": "reelay", "title": "Reelay", "tags": []string{"reelay"}, "schemaVersion": 39, "timezone": "browser", "refresh": "30s",
		"editable": true,
		"time":     object{"from": "now-6h", "to": "now"},
		"panels":   panels,
		"templating": object{"list": []object{{
			"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
		}}},
	}
}

// model returns Grafana's model of the panel.
func (p panel) model() object {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	targets := []object{}
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend,
			"exemplar": !p.stat})
	}
	kind, options := "timeseries", object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi"}}
	if p.stat {
		kind, options = "stat", object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	}
	return object{
		"type": kind, "title": p.title, "datasource": source, "targets": targets, "options": options,
		"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []object{}},
	}
}
