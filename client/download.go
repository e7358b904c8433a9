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

// downloadTries is how many consecutive times a download may fail without progress.
const downloadTries = 5

// Download stores an artifact at path. The file appears only when it is complete and
// its checksum is right. Download resumes an earlier interrupted download and retries
// broken connections. It calls progress, unless that is nil, with the number of bytes
// stored so far.
//
// CHECKSUM_MISMATCH means that the bytes are not those of the artifact; they are
// deleted. FORBIDDEN means that the link has expired: read the job again for a new one.
func (c *Client) Download(ctx context.Context, a *Artifact, path string, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	// Named after the artifact, so that only its own bytes are resumed.
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
			Message: fmt.Sprintf("the checksum of %s is %s, not the expected %s", a.Id, sum, a.Checksum)}
	}
	if err := errors.Join(d.file.Sync(), d.file.Close()); err != nil {
		return fmt.Errorf("download to %s: %w", path, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("download to %s: %w", path, err)
	}
	return nil
}

// download is the download of one artifact to a file. sum is the checksum of the done
// bytes in the file.
type download struct {
	client   *Client
	artifact *Artifact
	progress func(done, total int64)
	file     *os.File
	sum      hash.Hash32
	done     int64
}

// open opens the partial file and continues from the bytes in it.
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

// fetch downloads the missing bytes, in as many requests as necessary.
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

// request asks for the missing bytes and stores those that arrive.
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
		return &Error{Code: CodeChecksumMismatch, Message: fmt.Sprintf("the size of %s in the store is not the expected %d bytes", d.artifact.Id,
			d.artifact.SizeBytes)}
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
			return &Error{Code: CodeChecksumMismatch, Message: fmt.Sprintf("%s is longer than the expected %d bytes", d.artifact.Id,
				d.artifact.SizeBytes)}
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
