package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/reelay/reelay/models/capacity"
)

// ReadPools reads the pools of a file as `reelay pools apply` takes it. It does not check them.
func ReadPools(path string) ([]capacity.PoolSpec, error) {
	type entry struct {
		capacity.PoolSpec `yaml:",inline"`
		Cooldown          *int              `yaml:"scaleDownCooldownSeconds"`
		Settings          yamlfile.Document `yaml:"settings"`
	}
	var found struct {
		Pools []entry `yaml:"pools"`
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := yamlfile.Read(filepath.Base(path), "pools", source, &found)
	if err == nil {
		err = file.Err()
	}
	if err != nil {
		return nil, err
	}
	if len(found.Pools) == 0 {
		return nil, fmt.Errorf("%s has no pool", path)
	}
	var pools []capacity.PoolSpec
	for _, one := range found.Pools {
		spec := one.PoolSpec
		spec.Settings = json.RawMessage(one.Settings)
		pools = append(pools, spec)
	}
	return pools, nil
}

// ReadPool reads a pool of a file, which must be one of a provider. The name "" means the only pool.
func ReadPool(path, name, provider string) (capacity.PoolSpec, error) {
	pools, err := ReadPools(path)
	if err != nil {
		return capacity.PoolSpec{}, err
	}
	i := slices.IndexFunc(pools, func(p capacity.PoolSpec) bool { return name == "" || p.Name == name })
	switch {
	case i < 0:
		return capacity.PoolSpec{}, fmt.Errorf("%s has no pool %s", path, text.Clip(name, 64))
	case name == "" && len(pools) > 1:
		return capacity.PoolSpec{}, fmt.Errorf("%s has %d pools: name one with --pool", path, len(pools))
	}
	spec := pools[i]
	if cmp.Or(spec.Provider, command.Name) != provider {
		return spec, fmt.Errorf("the pool %s has the provider %s: this command tests pools of the provider %s", text.Clip(spec.Name, 64),
			text.Clip(cmp.Or(spec.Provider, command.Name), 64), provider)
	}
	return spec, nil
}
