package credentials

import "path/filepath"

// Keys are the keys of a running `up`, for its user and for the CLI.
type Keys struct {
	Endpoint    string `json:"endpoint"`
	AdminKey    string `json:"adminKey"`
	OperatorKey string `json:"operatorKey"`
	ClientKey   string `json:"clientKey"`
	WorkerKey   string `json:"workerKey"`
	// CAFile is the certificate to trust if the API's certificate is self-signed.
	CAFile string `json:"caFile,omitempty"`
}

// FileName is the name of the file of [Keys] in the data folder of `reelay up`.
const FileName = "credentials.json"

// Read reads the credentials of a running `up` from its data folder. It
// refuses a file that other users can read.
func Read(data string) (Keys, error) {
	var c Keys
	path := filepath.Join(data, FileName)
	if err := ReadPrivate(path, "`reelay up`", &c); err != nil {
		return c, err
	}
	return c, nil
}
