package kubernetes

import (
	"encoding/json"
	"time"

	"github.com/reelay/reelay/features/fleet"
)

// Describe describes a pod that an API server sent.
func Describe(data []byte) (fleet.Instance, error) {
	var one pod
	if err := json.Unmarshal(data, &one); err != nil {
		return fleet.Instance{}, err
	}
	return one.instance(time.Now(), seen{}, &Settings{ScheduleSeconds: new(60)}), nil
}
