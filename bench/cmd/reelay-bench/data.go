package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/bench"
	"github.com/reelay/reelay/bench/procfs"
)

// siteOf describes the `reelay up` that runs in a data folder. A store in the environment
// takes precedence over the folder's.
func siteOf(data string, say func(line string)) (*bench.Site, error) {
	var keys struct {
		Endpoint string `json:"endpoint"`
		AdminKey string `json:"adminKey"`
		CAFile   string `json:"caFile"`
	}
	var stores struct {
		DatabaseURL string `json:"databaseUrl"`
		RedisURL    string `json:"redisUrl"`
	}
	staff := map[string]procfs.Process{}
	for name, to := range map[string]any{"credentials.json": &keys, "stores.json": &stores, "processes.json": &staff} {
		raw, err := os.ReadFile(filepath.Join(data, name))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	admin, err := newClient(keys.Endpoint, keys.AdminKey, keys.CAFile)
	return &bench.Site{
		Admin:       admin,
		DatabaseURL: cmp.Or(os.Getenv("DATABASE_URL"), stores.DatabaseURL),
		RedisURL:    cmp.Or(os.Getenv("REDIS_URL"), stores.RedisURL),
		Staff:       staff, Data: data, Say: say,
	}, err
}
