package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
)

// stallLimit is how long the store may transfer nothing before the request fails.
const stallLimit = 30 * time.Second

// handler enforces the terms of the links that a linkSigner signs.
type handler struct {
	store      *Store
	links      linkSigner
	stallLimit time.Duration
}

// refusal is an error in the request. Its message is shown unchanged.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve := map[string]func(http.ResponseWriter, *http.Request, terms) error{
		http.MethodGet: h.download, http.MethodHead: h.download, http.MethodPut: h.upload,
	}[r.Method]
	if serve == nil {
		w.Header().Set("Allow", "GET, HEAD, PUT")
		http.Error(w, "Objects are read by GET and HEAD and stored by PUT.", http.StatusMethodNotAllowed)
		return
	}
	granted, err := h.links.verify(r, h.store.now())
	if err == nil {
		httpguard.ConnOf(r.Context()).MarkKnown()
		err = serve(w, r, granted)
	}
	if err != nil {
		h.fail(w, r, granted.key, err)
	}
}

// fail responds with err. Neither the response nor the log contains the link: anyone who reads them
// could use it.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, key string, err error) {
	var fault *refusal
	switch {
	case errors.As(err, &fault):
		http.Error(w, fault.message, fault.status)
	case errors.Is(err, jobs.ErrNoObject):
		http.Error(w, "There is no such object: it was not stored yet, or it was deleted.", http.StatusNotFound)
	default:
		if r.Context().Err() == nil {
			slog.ErrorContext(r.Context(), "object store failed", "method", r.Method, "key", key, "error", err)
		}
		http.Error(w, "The object store cannot be reached. Try again in a moment.", http.StatusServiceUnavailable)
	}
}

// upload stores the body completely or not at all.
func (h *handler) upload(w http.ResponseWriter, r *http.Request, granted terms) error {
	if err := checkRequest(r, granted); err != nil {
		return err
	}
	if granted.size > smallUpload || !h.store.of(granted.key).enforces() {
		if err := h.refuseStored(r.Context(), granted.key); err != nil {
			return err
		}
	}

	// An upload is undone when its context ends. The context also ends when the store stalls.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stalled := time.AfterFunc(h.stallLimit, cancel)
	defer stalled.Stop()
	body := &uploadBody{
		from: r.Body, stallLimit: h.stallLimit, storeStalled: stalled,
		size: granted.size, checksum: granted.checksum,
	}
	stored, err := h.store.of(granted.key).backend.write(ctx, granted.upload(), body)
	if err != nil {
		return cmp.Or(body.refused, err) // the sender's fault, if it is one, whatever the store made of it
	}
	w.Header().Set("ETag", stored.etag)
	w.Header().Set("X-Goog-Hash", "crc32c="+encodeChecksum(granted.checksum))
	w.WriteHeader(http.StatusOK)
	return nil
}

const (
	// smallUpload is the size up to which an upload is sent without asking the store first.
	smallUpload = 64 << 10
	// copyBytes is how many bytes of an upload are read at once.
	copyBytes = 32 << 10
)

// refuseStored checks that no object has the key, before the client sends the bytes of its upload.
// This only saves traffic, except for a bucket that overwrites objects: the write itself decides.
func (h *handler) refuseStored(ctx context.Context, key string) error {
	_, err := h.store.stat(ctx, key)
	switch {
	case err == nil:
		return errStored
	case errors.Is(err, jobs.ErrNoObject):
		return nil
	}
	return err
}

// checkRequest compares what the request announces with the granted terms.
func checkRequest(r *http.Request, granted terms) error {
	switch {
	case r.ContentLength < 0:
		return refuse(http.StatusLengthRequired, "An upload must state its Content-Length: this link is for %d bytes.", granted.size)
	case r.ContentLength > granted.size:
		return refuse(http.StatusRequestEntityTooLarge, "This link is for %d bytes, not for %d.", granted.size, r.ContentLength)
	case r.ContentLength < granted.size:
		return refuse(http.StatusBadRequest, "This link is for %d bytes, not for %d.", granted.size, r.ContentLength)
	case r.Header.Get("Content-Range") != "":
		return refuse(http.StatusBadRequest, "An object is stored whole: send it without a Content-Range.")
	case r.Header.Get("Content-Encoding") != "":
		return refuse(http.StatusUnsupportedMediaType, "An object is stored as it is sent: send it without a Content-Encoding.")
	case len(r.Header.Values("Content-Type")) > 1:
		return refuse(http.StatusBadRequest, "An upload has one Content-Type: this link is for %q.", granted.contentType)
	case r.Header.Get("Content-Type") != granted.contentType:
		return refuse(http.StatusBadRequest, "This link is for Content-Type %q, not for %q.", granted.contentType, r.Header.Get("Content-Type"))
	}
	return nil
}

// download sends the object, or the range of it that r asks for.
func (h *handler) download(w http.ResponseWriter, r *http.Request, granted terms) error {
	attrs, err := h.store.stat(r.Context(), granted.key)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", attrs.ContentType)
	header.Set("Content-Disposition", disposition(granted.filename))
	header.Set("ETag", attrs.etag)
	header.Set("X-Goog-Hash", "crc32c="+attrs.Checksum)
	header.Set("Cache-Control", "private, max-age=0")
	// An object is a customer's data on our own origin: a browser must run nothing in it.
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	content := &objectContent{
		ctx: ctx, cancel: cancel, from: h.store.of(granted.key).backend, key: granted.key, size: attrs.SizeBytes, stallLimit: h.stallLimit,
	}
	defer content.Close()
	tidyRange(r, attrs.SizeBytes)
	http.ServeContent(w, r, "", attrs.createdAt, content)
	if content.err != nil && r.Context().Err() == nil {
		// The response has begun. Its missing end tells the client.
		slog.ErrorContext(r.Context(), "object store failed", "method", r.Method, "key", granted.key, "error", content.err)
	}
	return nil
}
