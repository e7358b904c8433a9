package quality

const (
	// changedLittle is the mean difference of sampled pixels, and movedLittle the
	// largest difference of blocks, between two frames that count as a repeat although
	// not every pixel is equal: an encoder does not repeat a picture exactly.
	changedLittle = 0.1
	movedLittle   = 2
	// pulse is the number of repeats that outweigh one other frame: an encoder
	// refreshes a still picture at times.
	pulse = 3
)

// repeats reports whether frame i shows the same picture as the one before. A frame of
// one colour does not count: it is judged by its colour.
func (m *measured) repeats(i int, t Thresholds) bool {
	return !m.areas[i].flat(t) &&
		(m.frames[i].same || m.points[i].changed <= changedLittle && m.areas[i].moved <= movedLittle)
}

// stillest returns the first and the last frame of the longest range of repeats of
// one picture. Single other frames in between are allowed; a slow motion is not,
// because its frames drift away from the first. Without repeats it returns 0, 0.
func (m *measured) stillest(t Thresholds) (from, to int) {
	begin, score, peak, best := 0, 0, 0, 0.0
	for i := 1; i < len(m.frames); i++ {
		switch {
		case m.areas[i].since == i:
			score = 0 // something has moved
		case m.repeats(i, t):
			score++
		default:
			score -= pulse
		}
		if score <= 0 {
			begin, score, peak = i, 0, 0
			continue
		}
		if score > peak {
			peak = score
			if length := m.frames[i].at - m.frames[begin].at; length > best && i-begin >= 3 {
				best, from, to = length, begin, i
			}
		}
	}
	return from, to
}
