package submit

// Submitting returns how many calls wait for their account's row, or hold it.
func Submitting(s *Submitter) int { return s.waitingWrites.Calls() + s.writes.Calls() }
