package blob

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

var errNoKeys = errors.New("there are no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE, " +
	"or give this machine a role")

// usualKeys looks for keys where Amazon's programs do: the environment, the file of credentials, and
// the role of the machine, the container or the Kubernetes account.
func usualKeys() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &keysFile{}, &credentials.IAM{},
	})
}

// keysFile reads the file of credentials again when it changes, so that keys can be rotated without
// a restart.
type keysFile struct {
	credentials.FileAWSCredentials
	read time.Time // when the file that was read had changed last
}

func (f *keysFile) Retrieve() (credentials.Value, error) { return f.RetrieveWithCredContext(nil) }

func (f *keysFile) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	at := f.changed() // before: a change in the meantime is read again
	value, err := f.FileAWSCredentials.RetrieveWithCredContext(c)
	if err == nil {
		f.read = at
	}
	return value, err
}

// IsExpired reports whether the keys must be read again.
func (f *keysFile) IsExpired() bool {
	return f.FileAWSCredentials.IsExpired() || !f.changed().Equal(f.read)
}

// changed returns when the file of credentials changed last, or the zero time if there is none.
func (f *keysFile) changed() time.Time {
	path := cmp.Or(f.Filename, os.Getenv("AWS_SHARED_CREDENTIALS_FILE"))
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return time.Time{}
		}
		path = filepath.Join(home, ".aws", "credentials")
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
