package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// checker collects the problems of a scenario.
type checker struct {
	file *yamlfile.File
	*Scenario
}

// number refuses a value that is out of bounds or not a number.
func (c *checker) number(place string, v, least, most float64) {
	if !(v >= least && v <= most) {
		c.file.Problem(place, "%s must be from %.10g to %.10g", fieldOf(place), least, most)
	}
}

// fieldOf returns the last name of a place.
func fieldOf(place string) string {
	for i := len(place) - 1; i >= 0; i-- {
		if place[i] == '.' {
			return place[i+1:]
		}
	}
	return place
}

func (c *checker) all() {
	c.number("$.hours", c.Hours, 1.0/60, MaxHours)
	for list, n := range map[string]int{
		"workload": len(c.Workload), "reclaims": len(c.Reclaims), "outages": len(c.Outages),
		"stockouts": len(c.Stockouts), "prices": len(c.Prices), "traces": len(c.Traces),
	} {
		if n > maxEntries || n == 0 && list == "workload" {
			c.file.Problem("$."+list, "%s must have 1 to %d entries; it has %d", list, maxEntries, n)
		}
	}
	jobs, accounts := 0, 0
	for i := range c.Workload {
		w := &c.Workload[i]
		c.workload(fmt.Sprintf("$.workload[%d]", i), w)
		jobs, accounts = jobs+min(max(w.Jobs, 0), MaxJobs+1), accounts+min(max(w.Accounts, 0), maxAccounts+1)
	}
	if jobs > MaxJobs {
		c.file.Problem("$.workload", "a scenario may have %d jobs; these are more: simulate a shorter time or a part of them", MaxJobs)
	}
	if accounts > maxAccounts {
		c.file.Problem("$.workload", "a scenario may have %d accounts; these are more", maxAccounts)
	}
	c.pools = c.poolsOf("$", c.Written)
	c.machines("$.machines", &c.Machines)
	c.policy("$.checkpoints", &c.Policy)
	c.scaling("$.scaling", &c.Scaling)
	c.happenings()
	if len(c.Variants) > maxVariants {
		c.file.Problem("$.variants", "a scenario may have %d variants; it has %d", maxVariants, len(c.Variants))
		return
	}
	for i := range c.Variants {
		c.variant(fmt.Sprintf("$.variants[%d]", i), &c.Variants[i])
	}
}

func (c *checker) variant(place string, v *Variant) {
	if !text.Valid(v.Name, 1, text.MaxName) {
		c.file.Problem(place, "each variant must have a name of 1 to %d printable characters", text.MaxName)
	}
	if v.Policy != nil {
		c.policy(place+".checkpoints", v.Policy)
	}
	if v.Scaling != nil {
		c.scaling(place+".scaling", v.Scaling)
	}
	if v.Machines != nil {
		c.machines(place+".machines", v.Machines)
	}
	if len(v.Pools) > 0 {
		c.poolsOf(place, v.Pools)
	}
}

func (c *checker) workload(place string, w *Workload) {
	if !slices.Contains(models.Tiers, w.Tier) {
		c.file.Problem(place+".tier", "tier must be one of %v", models.Tiers)
	}
	if w.Accounts == 0 {
		w.Accounts = 1
	}
	c.number(place+".accounts", float64(w.Accounts), 1, maxAccounts)
	if w.Arrivals.File == "" {
		c.number(place+".jobs", float64(w.Jobs), 1, MaxJobs)
	}
	if _, err := c.known.Model(w.Model); err != nil {
		c.file.Problem(place+".model", "%s", err)
	}
	c.number(place+".durationSeconds", w.DurationSeconds, 0, 3600)
	c.number(place+".gpuSeconds", w.GPUSeconds, 0, maxGPUSeconds)
	c.number(place+".finishByHours", w.FinishByHours, 0, MaxHours)
	a := &w.Arrivals
	if a.Shape == "" {
		a.Shape = "constant"
	}
	switch at := place + ".arrivals"; a.Shape {
	case "constant":
	case "diurnal":
		c.number(at+".peakHour", a.PeakHour, 0, 24)
		c.number(at+".peakRatio", a.PeakRatio, 1, 1000)
	case "burst":
		c.number(at+".atHour", a.AtHour, 0, c.Hours)
		c.number(at+".minutes", a.Minutes, 0, 60*c.Hours)
	case "times":
		if a.File == "" {
			c.file.Problem(at, "arrivals of the shape times need a file")
		}
	default:
		c.file.Problem(at+".shape", "shape must be constant, diurnal, burst or times")
	}
}

func (c *checker) poolsOf(place string, written []fleet.FilePool) (specs []capacity.PoolSpec) {
	if n := len(written); n == 0 || n > maxPools {
		c.file.Problem(place+".pools", "a scenario must have 1 to %d pools; it has %d", maxPools, n)
		return nil
	}
	for i, p := range written {
		at := fmt.Sprintf("%s.pools[%d]", place, i)
		spec, err := fleet.Spec(p, c.known)
		var wrong *apierror.Error
		switch {
		case errors.As(err, &wrong):
			c.file.Problem(at+"."+wrong.Field, "%s", wrong.Message)
		case err != nil:
			c.file.Problem(at, "%s", err)
		case slices.ContainsFunc(specs, func(o capacity.PoolSpec) bool { return o.Name == spec.Name }):
			c.file.Problem(at+".name", "there are two pools with the name %s", spec.Name)
		case len(spec.Accounts) > 0:
			c.file.Problem(at+".accounts", "a scenario's accounts have no ids: leave accounts out")
		}
		specs = append(specs, spec)
	}
	for i, w := range c.Workload {
		if !slices.ContainsFunc(specs, func(p capacity.PoolSpec) bool { return p.MaxWorkers > 0 && slices.Contains(p.Models, w.Model) }) {
			c.file.Problem(fmt.Sprintf("$.workload[%d].model", i), "no pool runs the model %s", text.Clip(w.Model, text.MaxName))
		}
	}
	return specs
}

func (c *checker) machines(place string, m *Machines) {
	m.Boot.check(c, place+".bootSeconds", maxSeconds)
	m.Load.check(c, place+".loadSeconds", maxSeconds)
	m.Restore.check(c, place+".restoreSeconds", maxSeconds)
	if m.Render == (Spread{}) {
		m.Render.Median = 1
	}
	m.Render.check(c, place+".renderRatio", 1000)
	for gpu, ratio := range m.GPUs {
		if !(ratio > 0 && ratio <= 1000) {
			c.file.Problem(place+".gpuRatios", "the ratio of %s must be above 0 and at most 1000", text.Clip(gpu, text.MaxName))
		}
	}
	c.number(place+".preemptionsPerHour", m.PreemptionsPerHour, 0, maxPreemptions)
	c.number(place+".noticeSeconds", m.NoticeSeconds, 0, maxSeconds)
	c.number(place+".detectSeconds", m.DetectSeconds, 0, maxSeconds)
	c.number(place+".endSeconds", m.ending(), 0, maxSeconds)
}

func (c *checker) policy(place string, p *Policy) {
	switch p.Save {
	case "":
		p.Save = "adaptive"
	case "adaptive", "none":
	case "fixed":
		c.number(place+".seconds", p.Seconds, 1, maxSeconds)
	default:
		c.file.Problem(place+".policy", "policy must be adaptive, fixed or none")
	}
	p.SaveSeconds.check(c, place+".saveSeconds", maxSeconds)
}

func (c *checker) scaling(place string, s *Scaling) {
	for field, percent := range map[string]*float64{".spotPercent": s.SpotPercent, ".reservePercent": s.ReservePercent} {
		if percent != nil {
			c.number(place+field, *percent, 0, 100)
		}
	}
	c.number(place+".knownDays", float64(s.KnownDays), 0, 7*models.ForecastWeeks)
}

func (c *checker) happenings() {
	hour := func(place string, v float64) { c.number(place, v, 0, 2*MaxHours) }
	pool := func(place, name string) {
		if !slices.ContainsFunc(c.pools, func(p capacity.PoolSpec) bool { return p.Name == name }) {
			c.file.Problem(place, "there is no pool %q", text.Clip(name, text.MaxName))
		}
	}
	region := func(place, name string) {
		if !slices.ContainsFunc(c.pools, func(p capacity.PoolSpec) bool { return p.Region == name }) {
			c.file.Problem(place, "no pool is in the region %q", text.Clip(name, text.MaxName))
		}
	}
	span := func(place string, from, to float64) {
		hour(place+".fromHour", from)
		hour(place+".toHour", to)
		if to < from {
			c.file.Problem(place+".toHour", "toHour must not be before fromHour")
		}
	}
	for i, r := range c.Reclaims {
		at := fmt.Sprintf("$.reclaims[%d]", i)
		hour(at+".atHour", r.AtHour)
		c.number(at+".share", r.Share, 0, 1)
		c.number(at+".withinSeconds", r.WithinSeconds, 0, maxSeconds)
		if r.NoticeSeconds != nil {
			c.number(at+".noticeSeconds", *r.NoticeSeconds, 0, maxSeconds)
		}
		if r.Region != "" {
			region(at+".region", r.Region)
		}
	}
	for i, o := range c.Outages {
		at := fmt.Sprintf("$.outages[%d]", i)
		region(at+".region", o.Region)
		span(at, o.FromHour, o.ToHour)
	}
	for i, o := range c.Stockouts {
		at := fmt.Sprintf("$.stockouts[%d]", i)
		pool(at+".pool", o.Pool)
		span(at, o.FromHour, o.ToHour)
	}
	for i, p := range c.Prices {
		at := fmt.Sprintf("$.prices[%d]", i)
		pool(at+".pool", p.Pool)
		hour(at+".atHour", p.AtHour)
		c.number(at+".pricePerHourUsd", p.PricePerHourUSD, 0, maxPrice)
		c.number(at+".knownHours", p.KnownHours, 0, MaxHours)
	}
	for i, t := range c.Traces {
		at := fmt.Sprintf("$.traces[%d]", i)
		pool(at+".pool", t.Pool)
		if c.Traces[i].Scale == 0 {
			c.Traces[i].Scale = 1
		}
		c.number(at+".scale", c.Traces[i].Scale, 0, fleet.MaxPoolWorkers)
	}
}

func (s *Spread) check(c *checker, place string, most float64) {
	c.number(place+".median", s.Median, 0, most)
	if !(s.Median >= 0 && s.Median <= most) {
		return // p95 has no bound
	}
	if s.P95 == 0 {
		s.P95 = s.Median
	}
	c.number(place+".p95", s.P95, s.Median, most)
}
