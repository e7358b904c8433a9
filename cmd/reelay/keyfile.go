package main

import "path/filepath"

// credentials are the keys of a running `up`, for its user and for the CLI.
type credentials struct {
	Endpoint    string `json:"endpoint"`
	AdminKey    string `json:"adminKey"`
	OperatorKey string `json:"operatorKey"`
	ClientKey   string `json:"clientKey"`
	WorkerKey   string `json:"workerKey"`
	// CAFile is the certificate to trust if the API's certificate is self-signed.
	CAFile string `json:"caFile,omitempty"`
}

const credentialsFile = "credentials.json"

// readCredentials reads the credentials of a running `up` from its data folder. It
// refuses a file that other users can read.
func readCredentials(data string) (credentials, error) {
	var c credentials
	path := filepath.Join(data, credentialsFile)
	if err := readPrivate(path, "`reelay up`", &c); err != nil {
		return c, err
	}
	return c, nil
}
