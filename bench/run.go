package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"
)

// Run makes measurements one after another and returns their results. It continues after a
// measurement that fails, and returns the errors at the end.
func Run(ctx context.Context, all []Measurement, open func(ctx context.Context, name string) (*Site, func() error, error)) (*Report,
	error) {
	report := &Report{Began: time.Now().UTC(), CPUs: runtime.NumCPU(), Go: runtime.Version()}
	defer func() { report.Seconds = time.Since(report.Began).Seconds() }()
	var failed []error
	for len(all) > 0 {
		same := 1
		for same < len(all) && all[same].Name == all[0].Name {
			same++
		}
		if err := runNamed(ctx, all[:same], open, report); err != nil {
			if ctx.Err() != nil {
				return report, err
			}
			failed = append(failed, fmt.Errorf("bench %s: %w", all[0].Name, err))
			report.Missing = append(report.Missing, failed[len(failed)-1].Error())
		}
		all = all[same:]
	}
	return report, errors.Join(failed...)
}

// runNamed makes the measurements with one name on one site.
func runNamed(ctx context.Context, all []Measurement, open func(context.Context, string) (*Site, func() error, error),
	report *Report) (err error) {
	site, closeSite, err := open(ctx, all[0].Name)
	if err != nil {
		return err
	}
	defer func() {
		if failed := closeSite(); err == nil {
			err = failed
		}
	}()
	for _, m := range all {
		result, err := site.run(ctx, m)
		if err != nil {
			return err
		}
		report.add(result, site.lacks)
		site.lacks = nil
	}
	return nil
}

// run makes one measurement. The contestants take turns, and each round begins with a
// different one.
func (s *Site) run(ctx context.Context, m Measurement) (_ *Result, err error) {
	defer func() {
		if failed := s.clear(context.WithoutCancel(ctx)); err == nil {
			err = failed
		}
	}()
	s.Say(m.Title)
	contestants, err := m.Prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	rounds := s.Effort.Rounds
	if m.Rounds > 0 {
		rounds = min(rounds, m.Rounds)
	}
	measured := make([][]Figures, len(contestants))
	for n := range rounds * len(contestants) {
		round, i := n/len(contestants), (n+n/len(contestants))%len(contestants)
		if m.InTurn {
			round, i = n%rounds, n/rounds
		}
		f, err := contestants[i].Round(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", m.Title, contestants[i].Name, err)
		}
		measured[i] = append(measured[i], f)
		s.Say(fmt.Sprintf("  round %d of %d, %s: %s", round+1, rounds, contestants[i].Name, f))
	}
	return newResult(m, contestants, measured), nil
}

// String shows figures in the order of their names.
func (f Figures) String() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(f)) {
		text += fmt.Sprintf("%s %s  ", name, short(f[name]))
	}
	return text
}
