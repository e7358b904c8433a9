package blob

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Kinds of stores.
const (
	KindGoogle = "gs"
	KindS3     = "s3"
)

// Links says where links lead.
type Links string

// The values of Links.
const (
	// LinksAuto leads to the bucket if it enforces the terms of links, and to Handler otherwise.
	LinksAuto Links = "auto"
	// LinksAPI leads to Handler: callers need not reach the bucket.
	LinksAPI Links = "api"
)

// Place is a bucket and how to use it.
type Place struct {
	Kind   string // KindGoogle or KindS3
	Bucket string
	// Class is the storage class of new objects; "" is the bucket's default.
	Class string
	Links Links

	// The rest is for S3. Endpoint is a URL without a path; "" is Amazon's.
	Endpoint string
	Region   string
	// Addressing is where the bucket's name stands in a URL: "path", "host", or "auto", which is
	// "host" at Amazon, Google and Alibaba and "path" elsewhere.
	Addressing string
}

// bucketName matches the names that all stores allow. Google also allows underscores and longer
// names with dots.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

// regionName matches the names of regions. It becomes a part of Amazon's host names.
var regionName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// storageClass matches the names of classes, such as STANDARD_IA.
var storageClass = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,39}$`)

// ParsePlace reads gs://BUCKET or s3://BUCKET with options, such as
// s3://clips?endpoint=https://minio.example:9000&region=eu-1. Errors say what is allowed; they show
// no part of a URL that has a password in it.
func ParsePlace(text string) (Place, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != KindGoogle && u.Scheme != KindS3 {
		return Place{}, errors.New("it must be gs://BUCKET or s3://BUCKET, with options after a question mark")
	}
	if u.User != nil {
		return Place{}, errors.New("it must not contain keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a file of credentials")
	}
	if u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return Place{}, errors.New("it names a bucket only: a folder in a bucket cannot be used")
	}
	if !bucketName.MatchString(u.Host) {
		return Place{}, fmt.Errorf("%q is not the name of a bucket: it has 3 to 222 lower-case letters, digits, dots, dashes and underscores",
			u.Host)
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Place{}, errors.New("its options must be written as in a URL: name=value, separated by &")
	}
	p := Place{Kind: u.Scheme, Bucket: u.Host, Links: LinksAuto}
	if p.Kind == KindS3 {
		p.Addressing = "auto"
	}
	for name, values := range options {
		if len(values) != 1 {
			return Place{}, fmt.Errorf("its option %q is given %d times", name, len(values))
		}
		if err := p.set(name, values[0]); err != nil {
			return Place{}, err
		}
	}
	if p.Kind == KindS3 && p.Region == "" {
		if p.Endpoint == "" {
			return Place{}, errors.New("it names no region: Amazon S3 needs one, such as s3://clips?region=eu-central-1; " +
				"other stores need an endpoint")
		}
		p.Region = usualRegion
	}
	return p, nil
}

// usualRegion is the region of stores that have none.
const usualRegion = "us-east-1"

func (p *Place) set(name, value string) error {
	one := func(to *string, allowed ...string) error {
		if !slices.Contains(allowed, value) {
			return fmt.Errorf("its option %s is %q: it must be %s", name, value, strings.Join(allowed, " or "))
		}
		*to = value
		return nil
	}
	switch {
	case name == "class":
		if !storageClass.MatchString(value) {
			return fmt.Errorf("its option class is %q: it must be the name of a storage class, such as STANDARD_IA", value)
		}
		p.Class = value
	case name == "links":
		return one((*string)(&p.Links), string(LinksAuto), string(LinksAPI))
	case p.Kind != KindS3 || name != "endpoint" && name != "region" && name != "addressing":
		allowed := "class, links"
		if p.Kind == KindS3 {
			allowed += ", endpoint, region and addressing"
		}
		return fmt.Errorf("it has no option %q: there are %s", name, allowed)
	case name == "addressing":
		return one(&p.Addressing, "auto", "path", "host")
	case name == "region":
		if !regionName.MatchString(value) {
			return fmt.Errorf("its option region is %q: it must be the name of a region, such as eu-central-1", value)
		}
		p.Region = value
	case name == "endpoint":
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" ||
			u.User != nil {
			return errors.New("its option endpoint must be an http or https URL without path and user, such as https://minio.example:9000")
		}
		p.Endpoint = u.Scheme + "://" + u.Host
	}
	return nil
}

// String returns the place as ParsePlace reads it.
func (p Place) String() string {
	options := url.Values{}
	add := func(name, value, usual string) {
		if value != usual {
			options.Set(name, value)
		}
	}
	add("class", p.Class, "")
	add("links", string(p.Links), string(LinksAuto))
	add("endpoint", p.Endpoint, "")
	add("region", p.Region, "")
	if p.Kind == KindS3 {
		add("addressing", p.Addressing, "auto")
	}
	u := url.URL{Scheme: p.Kind, Host: p.Bucket, RawQuery: options.Encode()}
	return u.String()
}

// Host returns the host:port at which an S3 store is reached, or "" for one whose names many buckets
// share with the public.
func (p Place) Host() string {
	u, err := url.Parse(p.Endpoint)
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return joinHostPort(u.Hostname(), port)
}

func joinHostPort(host, port string) string {
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
		host = "[" + host + "]"
	}
	return host + ":" + port
}
