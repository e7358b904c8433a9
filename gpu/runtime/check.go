package runtime

import (
	"errors"
	"fmt"
	"path/filepath"
)

func (m *Ready) check() error {
	if m.Protocol < 1 || m.Protocol > ProtocolVersion {
		return fmt.Errorf("protocol is %d, and this agent speaks 1 to %d", m.Protocol, ProtocolVersion)
	}
	if len(m.Models) == 0 && m.Protocol < 2 {
		return errors.New("models is empty")
	}
	for _, offer := range m.Models {
		if offer.Name == "" || len(offer.Version) > maxVersion {
			return fmt.Errorf("a model needs a name, and a version of at most %d bytes", maxVersion)
		}
	}
	return nil
}

func (m *Loaded) check() error {
	if m.FetchSeconds < 0 || m.FetchSeconds > maxFetch {
		return fmt.Errorf("fetchSeconds is %g", m.FetchSeconds)
	}
	return nil
}

func (m *Progress) check() error {
	switch m.Phase {
	case PhaseLoadingModel, PhaseResuming, PhaseRendering, PhaseEncoding, PhaseSubmitted, PhaseGenerating, PhasePostProcessing:
	default:
		return fmt.Errorf("phase is %q", m.Phase)
	}
	if m.Step < 0 || m.TotalSteps < 0 || m.Frame < 0 || m.TotalFrames < 0 || m.ETASeconds < 0 {
		return errors.New("a count is negative")
	}
	if max(m.Step, m.TotalSteps, m.Frame, m.TotalFrames) > maxCount {
		return fmt.Errorf("a count is over %d", maxCount)
	}
	return errors.Join(checkPercent(m.Percent), checkText(m.Message))
}

func (m *Checkpoint) check() error {
	if m.Step < 0 || m.Step > maxCount {
		return fmt.Errorf("step is %d", m.Step)
	}
	if err := CheckJSON(m.Info, maxInfo); err != nil {
		return fmt.Errorf("info %w", err)
	}
	return checkPercent(m.Percent)
}

func (m *CheckpointRejected) check() error { return checkText(m.Reason) }
func (m *Resumed) check() error            { return checkText(m.Note) }

func (m *Preview) check() error {
	if m.Path == "" || m.Step < 0 {
		return errors.New("a preview needs a path and a step")
	}
	return nil
}

func (m *Metrics) check() error {
	if m.GPUMemoryBytes < 0 || m.StepSeconds < 0 {
		return errors.New("a measurement is negative")
	}
	return nil
}

func (m *Result) check() error {
	if len(m.Output) > MaxOutput {
		return fmt.Errorf("an output of %d bytes; at most %d are allowed", len(m.Output), MaxOutput)
	}
	return nil
}

func (m *Cancelled) check() error { return nil }

func (f *Failure) check() error {
	switch f.Class {
	case Transient, RateLimited, ProviderUnavailable, Timeout, EndpointFailed, ModelCrash, OutOfMemory,
		CheckpointCorrupt, InvalidInput, ContentPolicy, Unauthorized, DefectiveResult:
	default:
		return fmt.Errorf("class is %q", f.Class)
	}
	if f.Message == "" {
		return errors.New("message is empty")
	}
	if len(f.Detail) > maxDetail {
		return fmt.Errorf("a detail of %d bytes; at most %d are allowed", len(f.Detail), maxDetail)
	}
	if f.RetryAfterSeconds < 0 {
		return fmt.Errorf("retryAfterSeconds is %d", f.RetryAfterSeconds)
	}
	if len(f.Lacks) > maxLacks {
		return fmt.Errorf("a lack of %d bytes; at most %d are allowed", len(f.Lacks), maxLacks)
	}
	return checkText(f.Message)
}

func (m *Log) check() error {
	switch m.Level {
	case "debug", "info", "warn", "error":
		return nil
	}
	return fmt.Errorf("level is %q", m.Level)
}

func checkPercent(percent float64) error {
	if percent < 0 || percent > 100 {
		return fmt.Errorf("percent is %g", percent)
	}
	return nil
}

func checkText(text string) error {
	if len(text) > maxTexts {
		return fmt.Errorf("a text of %d bytes; at most %d are allowed", len(text), maxTexts)
	}
	return nil
}

// checkFile returns an error unless path is absolute and lies in workdir.
func checkFile(workdir, path string) error {
	if path == "" {
		return nil
	}
	inside, err := filepath.Rel(workdir, path)
	if !filepath.IsAbs(path) || err != nil || inside == "." || !filepath.IsLocal(inside) {
		return fmt.Errorf("the file %q is not in the job's workdir %q", path, workdir)
	}
	return nil
}
