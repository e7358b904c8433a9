package models

import (
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// videoPrefix begins the ids by which clients of the Videos API know jobs.
const videoPrefix = "video_"

// VideoID returns a job's id as the Videos API shows it: video_ and 32 hexadecimal digits.
func VideoID(id JobID) string { return videoPrefix + strings.ReplaceAll(id.UUID(), "-", "") }

// ParseVideoID returns the job that a VideoID names, and whether s is a VideoID.
func ParseVideoID(s string) (JobID, bool) {
	digits, ok := strings.CutPrefix(s, videoPrefix)
	if !ok || len(digits) != 32 || strings.ToLower(digits) != digits {
		return "", false
	}
	var id uuid.UUID
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return "", false
	}
	return JobID(jobKind + "_" + id.String()), true
}
