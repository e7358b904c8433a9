package client

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// downloadTries is how many times in a row a download may be cut off without
// having moved on.
const downloadTries = 5

// Download stores an artifact under path, which appears only once it is whole
// and its checksum is right. What an earlier call left off is resumed; a broken
// line is retried. progress, which may be nil, is told how many bytes are there.
//
// CHECKSUM_MISMATCH means that the bytes are not those of the artifact (they are
// removed), FORBIDDEN that the link is too old: ask for the job again.
func (c *Client) Download(ctx context.Context, a *Artifact, path string, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	// named by the artifact, so that only its own bytes are resumed
	part := filepath.Join(filepath.Dir(path), "."+a.Id+".part")
	d := &download{client: c, artifact: a, progress: progress}
	if err := d.open(part); err != nil {
		return fmt.Errorf("download to %s: %w", path, err)
	}
	defer d.file.Close()
	if err := d.fetch(ctx); err != nil {
		if ErrorCode(err) == CodeChecksumMismatch {
			os.Remove(part)
		}
		return err
	}
	if sum := FormatChecksum(d.sum); sum != a.Checksum {
		os.Remove(part)
		return &Error{Code: CodeChecksumMismatch,
			Message: fmt.Sprintf("the bytes of %s have the checksum %s instead of %s", a.Id, sum, a.Checksum)}
	}
	if err := errors.Join(d.file.Sync(), d.file.Close()); err != nil {
		return fmt.Errorf("download to %s: %w", path, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("download to %s: %w", path, err)
	}
	return nil
}

// download is one artifact on its way into a file; sum is over the done bytes
// that the file holds.
type download struct {
	client   *Client
	artifact *Artifact
	progress func(done, total int64)
	file     *os.File
	sum      hash.Hash32
	done     int64
}

// open takes up what an earlier download left.
func (d *download) open(part string) error {
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	d.file, d.sum = file, NewChecksum()
	d.done, err = io.Copy(d.sum, file)
	if err == nil && d.done > d.artifact.SizeBytes {
		err = d.restart()
	}
	if err != nil {
		file.Close()
	}
	return err
}

func (d *download) restart() error {
	d.sum.Reset()
	d.done = 0
	if err := d.file.Truncate(0); err != nil {
		return err
	}
	_, err := d.file.Seek(0, io.SeekStart)
	return err
}

// fetch gets what is missing, in as many requests as it takes.
func (d *download) fetch(ctx context.Context) error {
	d.progress(d.done, d.artifact.SizeBytes)
	for tries := 0; d.done < d.artifact.SizeBytes; {
		before := d.done
		err := d.request(ctx)
		if err == nil {
			continue
		}
		if tries++; d.done > before {
			tries = 0
		}
		if e, ok := errors.AsType[*Error](err); !ok || !e.Retryable() || tries >= downloadTries || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff(tries)):
		}
	}
	return nil
}

// request gets the rest in one answer, or as much of it as comes.
func (d *download) request(ctx context.Context) error {
	ctx, watch, stop := guardStall(ctx)
	defer stop()
	req, err := d.client.newObjectRequest(ctx, http.MethodGet, d.artifact.Url, nil)
	if err != nil {
		return err
	}
	if d.done > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.done))
	}
	answer, err := d.client.http.Do(req)
	if err != nil {
		return unreachable(req.URL.Host, orStalled(ctx, err))
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusPartialContent && d.done > 0:
	case answer.StatusCode == http.StatusRequestedRangeNotSatisfiable,
		answer.StatusCode == http.StatusOK && answer.ContentLength >= 0 && answer.ContentLength != d.artifact.SizeBytes:
		return &Error{Code: CodeChecksumMismatch, Message: fmt.Sprintf("the store holds another number of bytes for %s than the %d that it should have", d.artifact.Id, d.artifact.SizeBytes)}
	case answer.StatusCode == http.StatusOK:
		if err := d.restart(); err != nil {
			return fmt.Errorf("download %s: %w", d.artifact.Id, err)
		}
	default:
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		return strangeAnswer(answer, text)
	}
	return d.copy(ctx, req.URL.Host, watch(answer.Body))
}

func (d *download) copy(ctx context.Context, host string, body io.Reader) error {
	buffer := make([]byte, 128<<10)
	for {
		n, readErr := body.Read(buffer)
		if d.done+int64(n) > d.artifact.SizeBytes {
			return &Error{Code: CodeChecksumMismatch, Message: fmt.Sprintf("%s is longer than the %d bytes that it should have", d.artifact.Id, d.artifact.SizeBytes)}
		}
		if _, err := d.file.Write(buffer[:n]); err != nil {
			return fmt.Errorf("download %s: %w", d.artifact.Id, err)
		}
		d.sum.Write(buffer[:n])
		d.done += int64(n)
		d.progress(d.done, d.artifact.SizeBytes)
		if readErr == io.EOF && d.done < d.artifact.SizeBytes {
			readErr = io.ErrUnexpectedEOF
		}
		switch readErr {
		case nil:
		case io.EOF:
			return nil
		default:
			return unreachable(host, orStalled(ctx, readErr))
		}
	}
}
