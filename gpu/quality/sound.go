package quality

import "math"

// hasSound judges the sound, if it was asked for.
func (m *measured) hasSound(e Expect, n *Numbers) *finding {
	if !e.Audio {
		return nil
	}
	if m.audible == nil {
		return found(NoAudio, m.around(0, n.Frames-1), "The video has no sound, which was asked for.")
	}
	if n.LoudestDB <= e.Thresholds.SilentDB {
		return found(Silent, m.around(0, n.Frames-1), "The sound is silent: its loudest 50 ms are at %.0f dBFS.", n.LoudestDB)
	}
	limit := max(e.Thresholds.DriftSeconds, 0.01*n.Seconds)
	ends := n.AudioStart + n.AudioSeconds - n.Seconds
	if math.Abs(n.AudioStart) <= limit && math.Abs(ends) <= limit {
		return nil
	}
	end := len(m.frames) - 1
	return found(AudioDrift, m.around(end/2, end),
		"The sound begins %.2f s after the pictures and ends %.2f s after them; %.2f s are allowed.",
		n.AudioStart, ends, limit)
}
