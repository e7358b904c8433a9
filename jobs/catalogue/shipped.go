package catalogue

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/reelay/reelay/models/capacity"
)

//go:embed models.yaml
var shipped []byte

// Shipped returns the entries that come with Reelay.
func Shipped() (*Source, error) {
	s, err := Parse("models.yaml", shipped)
	if err != nil {
		return nil, fmt.Errorf("read the models of this release: %w", err)
	}
	return s, nil
}

// ReadFolder returns the entries of a folder's models.yaml.
func ReadFolder(folder fs.FS) (*Source, error) {
	data, err := fs.ReadFile(folder, "models.yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the folder has no models.yaml")
	}
	if err != nil {
		return nil, err
	}
	return Parse("models.yaml", data)
}

// Load returns a snapshot of the models that come with Reelay and those of each source, as a
// new database would have them.
func Load(more ...*Source) (*Snapshot, error) {
	first, err := Shipped()
	if err != nil {
		return nil, err
	}
	var rows []*capacity.CatalogueEntry
	snapshot := New()
	for _, source := range append([]*Source{first}, more...) {
		changes, next, err := source.Plan(rows, capacity.OriginShipped, "reelay", snapshot)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if c.Row != nil {
				rows = replace(rows, c.Row)
			}
		}
		snapshot = next
	}
	return snapshot, nil
}
