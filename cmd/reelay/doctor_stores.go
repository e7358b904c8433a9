package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stores are the addresses of the stores of a running `up`.
type stores struct {
	DatabaseURL  string `json:"databaseUrl"`
	RedisURL     string `json:"redisUrl"`
	Bucket       string `json:"bucket"`
	EmulatorHost string `json:"emulatorHost"`
}

const storesFile = "stores.json"

func (c *config) writeStores(data string) error {
	return writePrivate(filepath.Join(data, storesFile), stores{c.databaseURL, c.redisURL, c.bucket, c.emulatorHost})
}

// findStores returns the configuration from the environment. Stores that it does not name
// are those of the `up` that runs on the data folder.
func findStores(data string) (config, error) {
	cfg := readConfig()
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	if cfg.databaseURL != "" && cfg.redisURL != "" && cfg.bucket != "" {
		return cfg, nil
	}
	path := filepath.Join(data, storesFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, fmt.Errorf("no stores are configured: start Reelay with `reelay up`, or set DATABASE_URL, REDIS_URL and GCS_BUCKET (there is no %s)", path)
	}
	if err != nil {
		return cfg, err
	}
	var s stores
	if err := json.Unmarshal(text, &s); err != nil {
		return cfg, fmt.Errorf("%s was not written by `reelay up`: %w; restart it", path, err)
	}
	cfg.databaseURL, cfg.redisURL = firstOf(cfg.databaseURL, s.DatabaseURL), firstOf(cfg.redisURL, s.RedisURL)
	if cfg.bucket == "" {
		cfg.bucket, cfg.emulatorHost = s.Bucket, s.EmulatorHost
	}
	return cfg, nil
}
