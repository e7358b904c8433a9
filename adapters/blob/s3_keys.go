package blob

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/internal/freshfile"
)

var errNoKeys = errors.New("there are no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE, " +
	"or give this machine a role")

// usualKeys looks for keys where Amazon's programs do: the environment, the file of credentials, and
// the role of the machine, the container or the Kubernetes account.
func usualKeys() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, newKeysFile(""), &credentials.IAM{},
	})
}

// keysFile reads Amazon's files again when they change, so that keys can be rotated without a restart.
type keysFile struct {
	file  *freshfile.File[*fileKeys]
	given credentials.Value
}

// fileKeys are the keys of one state of the files. Those that a program makes expire.
type fileKeys struct {
	credentials.FileAWSCredentials
	value credentials.Value
}

// newKeysFile returns the keys in the file at path, or in Amazon's usual ones if it is empty.
func newKeysFile(path string) *keysFile {
	paths := []string{path}
	if path == "" {
		home, _ := os.UserHomeDir() // the paths of an unknown one are of no file
		paths = []string{
			cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws", "credentials")),
			cmp.Or(os.Getenv("AWS_CONFIG_FILE"), filepath.Join(home, ".aws", "config")),
		}
	}
	return &keysFile{file: freshfile.New(func() (*fileKeys, error) {
		keys := &fileKeys{FileAWSCredentials: credentials.FileAWSCredentials{Filename: path}}
		err := keys.renew()
		return keys, err
	}, paths...)}
}

func (k *fileKeys) renew() (err error) {
	k.value, err = k.RetrieveWithCredContext(nil)
	return err
}

// expired reports whether the keys are of a program, and old.
func (k *fileKeys) expired() bool {
	return !k.value.Expiration.IsZero() && k.FileAWSCredentials.IsExpired()
}

// Retrieve implements credentials.Provider.
func (f *keysFile) Retrieve() (credentials.Value, error) {
	keys, err := f.file.Get()
	if err == nil && keys.expired() {
		err = keys.renew()
	}
	if err != nil {
		return credentials.Value{}, err
	}
	f.given = keys.value
	return f.given, nil
}

// RetrieveWithCredContext implements credentials.Provider.
func (f *keysFile) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return f.Retrieve()
}

// IsExpired reports whether the keys must be retrieved again.
func (f *keysFile) IsExpired() bool {
	keys, err := f.file.Get()
	return err != nil || keys.value != f.given || keys.expired()
}
