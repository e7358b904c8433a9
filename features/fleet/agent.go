package fleet

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/models/capacity"
)

// AgentArguments returns the arguments with which the agent of an instance registers as that
// instance of the pool. One worker uses all GPUs of the machine unless the pool says otherwise.
func AgentArguments(provider string, pool *capacity.Pool, instanceID string) []string {
	arguments := []string{
		"--provider", provider,
		"--instance-id", instanceID,
		"--pool", string(pool.ID),
		"--region", pool.Region,
		"--gpu-type", pool.GPUType,
		"--capacity-class", string(pool.CapacityClass),
		"--models", strings.Join(pool.Models, ","),
	}
	if workers, gpus := perMachine(pool), max(1, pool.GPUsPerWorker); workers > 1 || gpus > 1 {
		arguments = append(arguments, "--workers", strconv.Itoa(workers), "--gpus-per-worker", strconv.Itoa(gpus))
	}
	return arguments
}

// Enrolment describes how the agents of new machines reach the API.
type Enrolment struct {
	// Endpoint is the URL of the API as machines reach it.
	Endpoint string
	// KeyFile is a file with a key of the role WORKER. It is read for each batch of machines, so
	// that it can be replaced at any time.
	KeyFile string
	// ByIdentity means that machines can register by their identity, without a key. They still get
	// a key if there is a KeyFile.
	ByIdentity bool
	// Audience is the audience of identity tokens, or "" for Endpoint.
	Audience string
}

// Environment returns the variables that an agent needs besides its arguments: the endpoint and, if
// required, the key. The key must not be logged.
func (e Enrolment) Environment() (map[string]string, error) {
	if e.Endpoint == "" {
		return nil, errors.New("REELAY_PUBLIC_URL is not set: new machines need the address of the API")
	}
	if e.KeyFile == "" && e.ByIdentity {
		variables := map[string]string{"REELAY_ENDPOINT": e.Endpoint}
		if e.Audience != "" {
			variables["REELAY_AGENT_IDENTITY_AUDIENCE"] = e.Audience
		}
		return variables, nil
	}
	if e.KeyFile == "" {
		return nil, errors.New("REELAY_AGENT_KEY_FILE is not set: new machines need a key of the role WORKER")
	}
	raw, err := os.ReadFile(e.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read REELAY_AGENT_KEY_FILE: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if secrets.Kind(key) != secrets.KeyPrefix {
		return nil, fmt.Errorf("REELAY_AGENT_KEY_FILE is %s: the file must hold one key (rl_live_…) and nothing else", e.KeyFile)
	}
	return map[string]string{"REELAY_ENDPOINT": e.Endpoint, "REELAY_API_KEY": key}, nil
}
