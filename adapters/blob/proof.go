package blob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs"
)

// Proof is what a bucket was seen to do with links.
type Proof struct {
	// Lacks are the terms of upload links that the bucket does not enforce.
	Lacks []string
	// Checksums reports whether the bucket returns the checksum of an object.
	Checksums bool
	// Ranges reports whether parts of an object can be read.
	Ranges bool
}

// enforces reports whether links that lead to the bucket are safe. A nil Proof is one that is not there
// yet.
func (p *Proof) enforces() bool { return p != nil && len(p.Lacks) == 0 && p.Checksums }

// proofFolder contains the objects that prove writes.
const proofFolder = "doctor/"

// Prove finds out what the bucket does with links, by writing, reading and deleting small objects.
// Uploads use links to the bucket only after it has proved to enforce their terms. It returns an error if
// the bucket cannot be used at all. Google Cloud Storage and its emulator need no proof.
func (s *Store) Prove(ctx context.Context) error {
	var errs []error
	for _, store := range s.all() {
		_, err := store.prove(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// proofAge is how long a proof is believed. Buckets rarely change.
const proofAge = time.Hour

// ProvePass is Prove, unless the newest proof is young.
func (s *Store) ProvePass(ctx context.Context) error {
	if time.Since(s.proved) < proofAge {
		return nil
	}
	if err := s.Prove(ctx); err != nil {
		return err
	}
	s.proved = time.Now()
	return nil
}

func (s *Store) prove(ctx context.Context) (*Proof, error) {
	bucket, ok := plain(s.backend).(*s3Bucket)
	if !ok {
		return nil, nil
	}
	t := &trial{
		s3Bucket: bucket, folder: proofFolder + uuid.NewString() + "-",
		http: &http.Client{Timeout: callTimeout, Transport: bucket.http.Transport},
	}
	proof, err := t.run(ctx)
	err = errors.Join(err, t.cleanUp(ctx))
	if err != nil {
		return nil, fmt.Errorf("try bucket %s: %w", bucket.name, err)
	}
	if before := s.proof.Swap(proof); !proof.enforces() && (before == nil || before.enforces()) {
		slog.WarnContext(ctx, "uploads pass through the API, because the bucket does not enforce the terms of links", "bucket", bucket.name,
			"lacks", strings.Join(proof.Lacks, "; "), "checksums", proof.Checksums)
	}
	return proof, nil
}

// trial is one run of Prove.
type trial struct {
	*s3Bucket
	folder  string
	http    *http.Client
	written []string // keys
}

// proofText is what a trial stores.
const proofText = "The doctor was here.\n"

func (t *trial) run(ctx context.Context) (*Proof, error) {
	proof := &Proof{}
	first := t.upload("first")
	if refused, err := t.put(ctx, first, first, proofText); err != nil || refused != nil {
		return nil, fmt.Errorf("write: %w", cmp.Or(err, refused))
	}
	stored, err := t.stat(ctx, first.Key)
	if err != nil {
		return nil, fmt.Errorf("look at an object that was written: %w", err)
	}
	if stored.SizeBytes != first.SizeBytes {
		return nil, fmt.Errorf("an object of %d bytes has %d", first.SizeBytes, stored.SizeBytes)
	}
	proof.Checksums = stored.Checksum == first.Checksum
	if proof.Ranges, err = t.ranges(ctx, first); err != nil {
		return nil, err
	}
	other, longer := textOf("", strings.ToUpper(proofText)), textOf("", proofText+proofText)
	for _, c := range []struct {
		term, key     string
		granted, sent jobs.Upload
		text          string
	}{
		{"an object is written once only", first.Key, first, first, proofText},
		{"only the announced checksum", t.folder + "sum", first, first, strings.ToUpper(proofText)},
		{"only the announced checksum", t.folder + "header", first, other, strings.ToUpper(proofText)},
		{"only the announced size", t.folder + "size", first, longer, proofText + proofText},
		{"only the announced type", t.folder + "type", first, typed(first, "text/html"), proofText},
	} {
		c.granted.Key, c.sent.Key = c.key, c.key
		refused, err := t.put(ctx, c.granted, c.sent, c.text)
		if err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		if refused == nil && !slices.Contains(proof.Lacks, c.term) {
			proof.Lacks = append(proof.Lacks, c.term)
		}
	}
	return proof, nil
}

func typed(u jobs.Upload, contentType string) jobs.Upload {
	u.ContentType = contentType
	return u
}

func (t *trial) upload(name string) jobs.Upload { return textOf(t.folder+name, proofText) }

func textOf(key, text string) jobs.Upload { return jobs.UploadOf(key, "text/plain", []byte(text)) }

// put sends text by the link for granted, but announces sent. It returns with what the bucket refused
// the write, or nil. The error says that the bucket decided nothing.
func (t *trial) put(ctx context.Context, granted, sent jobs.Upload, text string) (refused, err error) {
	t.written = append(t.written, granted.Key)
	link, _, err := t.signUpload(ctx, granted, time.Now().Add(time.Minute))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, string(link), bytes.NewReader([]byte(text)))
	if err != nil {
		return nil, err
	}
	for name, value := range t.terms(sent) {
		if name != "content-length" { // it is that of text
			request.Header.Set(name, value)
		}
	}
	response, err := t.http.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil, nil
	}
	answer := answerError(response)
	if t.repeatable(answer) {
		return nil, t.explain(ctx, answer)
	}
	return t.explain(ctx, answer), nil
}

// ranges reads a part of an object by a link.
func (t *trial) ranges(ctx context.Context, u jobs.Upload) (bool, error) {
	link, err := t.signDownload(ctx, u.Key, "proof.txt", time.Now().Add(time.Minute))
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(link), nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("Range", "bytes=4-9")
	response, err := t.http.Do(request)
	if err != nil {
		return false, fmt.Errorf("read: %w", withoutURL(err))
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return false, fmt.Errorf("read: %w", t.explain(ctx, answerError(response)))
	}
	got, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	return response.StatusCode == http.StatusPartialContent && string(got) == proofText[4:10], err
}

func (t *trial) cleanUp(ctx context.Context) error {
	var errs []error
	for _, key := range t.written {
		if err := t.remove(ctx, key); err != nil && !errors.Is(err, jobs.ErrNoObject) {
			errs = append(errs, fmt.Errorf("delete: %w", err))
		}
	}
	return errors.Join(errs...)
}
