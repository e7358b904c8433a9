package blob

import (
	"bytes"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/cloudfront/sign"
	"github.com/reelay/reelay/internal/freshfile"
	"github.com/reelay/reelay/jobs"
)

// CDN is a content delivery network in front of the bucket. Links to read objects then lead to it.
type CDN struct {
	// URL is its address, without a path; "" means none.
	URL string
	// KeyName is the name under which the CDN knows the key: the id of a public key of CloudFront, or the
	// name of a key of Cloud CDN.
	KeyName string
	// KeyFile contains the key: a private key in PEM for CloudFront, or 16 bytes in base64url for Cloud
	// CDN. It is read again when it changes.
	KeyFile string
	// Folders are the beginnings of the keys of the objects that are read through the CDN.
	Folders []string
}

// serves reports whether an object is read through the CDN.
func (c CDN) serves(key string) bool {
	if c.URL == "" {
		return false
	}
	for _, folder := range c.Folders {
		if strings.HasPrefix(key, folder) {
			return true
		}
	}
	return false
}

// cdnKeyName matches the names of keys of both CDNs.
var cdnKeyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// Check reads the key. Errors say what is wrong.
func (c CDN) Check() error {
	if c.URL == "" {
		if c.KeyName != "" || c.KeyFile != "" {
			return errors.New("REELAY_CDN is not set, but REELAY_CDN_KEY_NAME or REELAY_CDN_KEY_FILE is: set all of them or none")
		}
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Path != "" && u.Path != "/" {
		return errors.New("REELAY_CDN must be the URL of a CDN without a path, such as https://d111111abcdef8.cloudfront.net")
	}
	if !cdnKeyName.MatchString(c.KeyName) {
		return errors.New("REELAY_CDN_KEY_NAME must be the id of a public key at CloudFront, or the name of a key at Cloud CDN")
	}
	_, err = readCDNKey(c.KeyFile)
	return err
}

// cdnKey signs a URL, which may have parameters, until a time.
type cdnKey func(u, keyName string, expires time.Time) (string, error)

// readCDNKey reads a key file. Its form tells the CDN.
func readCDNKey(path string) (cdnKey, error) {
	wrong := errors.New("REELAY_CDN_KEY_FILE must be a PEM file of a private key (CloudFront), or a file with 16 bytes in base64url " +
		"(Cloud CDN)")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("REELAY_CDN_KEY_FILE: %w", err)
	}
	if block, _ := pem.Decode(text); block != nil {
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		}
		signer, ok := key.(crypto.Signer)
		if err != nil || !ok {
			return nil, wrong
		}
		return func(u, keyName string, expires time.Time) (string, error) {
			return sign.NewURLSigner(keyName, signer).Sign(u, expires)
		}, nil
	}
	secret, err := base64.URLEncoding.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(secret) != 16 {
		return nil, wrong
	}
	return func(u, keyName string, expires time.Time) (string, error) {
		return signCloudCDN(u, keyName, secret, expires), nil
	}, nil
}

// signCloudCDN signs as https://cloud.google.com/cdn/docs/using-signed-urls says.
func signCloudCDN(u, keyName string, secret []byte, expires time.Time) string {
	separator := "?"
	if strings.Contains(u, "?") {
		separator = "&"
	}
	u += separator + "Expires=" + strconv.FormatInt(expires.Unix(), 10) + "&KeyName=" + keyName
	mac := hmac.New(sha1.New, secret)
	mac.Write([]byte(u))
	return u + "&Signature=" + base64.URLEncoding.EncodeToString(mac.Sum(nil))
}

// cdnSigner signs links to a CDN.
type cdnSigner struct {
	CDN
	key *freshfile.File[cdnKey]
}

func newCDNSigner(cdn CDN) cdnSigner {
	return cdnSigner{cdn, freshfile.New(func() (cdnKey, error) { return readCDNKey(cdn.KeyFile) }, cdn.KeyFile)}
}

func (s cdnSigner) signDownload(_ context.Context, key, filename string, expires time.Time) (jobs.Link, error) {
	by, err := s.key.Get()
	if err != nil {
		return "", err
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + key
	u.RawQuery = url.Values{"response-content-disposition": {disposition(filename)}}.Encode()
	link, err := by(u.String(), s.KeyName, expires)
	return jobs.Link(link), err
}
