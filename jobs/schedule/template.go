package schedule

import (
	"encoding/json"
	"fmt"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
)

// sealTemplate stores what a schedule submits. It holds a prompt, so it is encrypted as prompts are.
func sealTemplate(sealer *seal.Sealer, s *models.Schedule, in jobs.Submission) error {
	plain, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the job: %w", err)
	}
	sealed, err := sealer.Seal(plain, []byte(s.ID))
	if err != nil {
		return fmt.Errorf("encrypt the job: %w", err)
	}
	s.Ciphertext, s.WrappedKey = sealed.Ciphertext, sealed.WrappedKey
	return nil
}

// Template returns what a schedule submits.
func Template(sealer *seal.Sealer, s *models.Schedule) (in jobs.Submission, err error) {
	plain, err := sealer.Open(seal.Sealed{Ciphertext: s.Ciphertext, WrappedKey: s.WrappedKey}, []byte(s.ID))
	if err != nil {
		return in, fmt.Errorf("decrypt the job: %w", err)
	}
	if err := json.Unmarshal(plain, &in); err != nil {
		return in, fmt.Errorf("decode the job: %w", err)
	}
	// encoding/json writes a nil RawMessage as null, and reads it back as the text.
	for _, raw := range []*json.RawMessage{&in.Params, &in.Metadata} {
		if string(*raw) == "null" {
			*raw = nil
		}
	}
	return in, nil
}
