package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// WriteCertificates writes ca.pem, and of server and client the .pem and .key that it has signed.
func WriteCertificates(dir string) error {
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	authority, authorityKey, err := issue(template, nil, nil)
	if err != nil {
		return err
	}
	errs := []error{writePEM(filepath.Join(dir, "ca.pem"), "CERTIFICATE", authority.Raw)}
	for _, name := range []string{"server", "client"} {
		certificate, key, err := issue(&x509.Certificate{
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, authority, authorityKey)
		if err != nil {
			return err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		errs = append(errs, err, writePEM(filepath.Join(dir, name+".pem"), "CERTIFICATE", certificate.Raw),
			writePEM(filepath.Join(dir, name+".key"), "PRIVATE KEY", der))
	}
	return errors.Join(errs...)
}

// issue returns a certificate that is signed by the authority, or by itself.
func issue(template, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	template.Subject = pkix.Name{CommonName: "redistest " + template.SerialNumber.String()}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if authority == nil {
		authority, authorityKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, authorityKey)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

// writePEM replaces a file in one step.
func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
