package jobs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
)

// ErrNoObject means that the store holds no object of that key.
var ErrNoObject = errors.New("no such object")

// Upload is an object that a client or a worker may upload. The server chooses its key; the
// caller announced the rest, which is verified later.
type Upload struct {
	Key         string
	ContentType string
	SizeBytes   int64
	Checksum    string // CRC32C, base64
}

// UploadOf describes data that is in memory.
func UploadOf(key, contentType string, data []byte) Upload {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return Upload{
		Key: key, ContentType: contentType, SizeBytes: int64(len(data)),
		Checksum: base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)),
	}
}

// Link is a signed link to an object: a URL of the object store, or a path on this API's own
// server, under whichever address the caller uses.
type Link string

// At returns the link as a URL, for a caller that reaches this server at base, such
// as https://reelay.example.
func (l Link) At(base string) string {
	if strings.HasPrefix(string(l), "/") {
		return base + string(l)
	}
	return string(l)
}

// UploadLink is where and how to send the bytes of one Upload, once.
type UploadLink struct {
	Link      Link
	Method    string
	Headers   map[string]string
	ExpiresAt time.Time
}

// Object is what the store says of an object that it holds whole.
type Object struct {
	SizeBytes   int64
	Checksum    string // CRC32C, base64
	ContentType string
}

// StoredObject is one object of a list.
type StoredObject struct {
	Key       string
	SizeBytes int64
	// CreatedAt is by the store's clock.
	CreatedAt time.Time
}

// Objects is the object store. Every object is written once and never
// overwritten.
type Objects interface {
	// LinkUpload signs a link that stores one object under an unused key.
	LinkUpload(ctx context.Context, u Upload, ttl time.Duration) (UploadLink, error)
	// LinkDownload signs a link to read an object. Browsers save it as filename.
	LinkDownload(ctx context.Context, key, filename string, ttl time.Duration) (Link, error)
	// Stat returns what the store holds, or ErrNoObject.
	Stat(ctx context.Context, key string) (Object, error)
	// Delete removes an object. It returns nil if the object does not exist.
	Delete(ctx context.Context, key string) error
	// List returns at most limit objects whose keys come after the given one, in key order.
	List(ctx context.Context, after string, limit int) ([]StoredObject, error)
}

// InputObjects is the object store for a caller that reads and writes objects itself.
type InputObjects interface {
	Objects
	// Open reads the first size bytes of an object, or returns ErrNoObject.
	Open(ctx context.Context, key string, size int64) (io.ReadCloser, error)
	// Write stores an object whole under an unused key.
	Write(ctx context.Context, u Upload, data []byte) error
}

// ErrIndexLost means that the ready index was lost (a flushed or restarted
// Redis) or cannot be reached: PostgreSQL alone must answer.
var ErrIndexLost = errors.New("the ready index is lost; control rebuilds it from PostgreSQL")

// ReadyJob is one queued job as the ready index mirrors it.
type ReadyJob struct {
	models.Queue
	ID      models.JobID
	Account models.AccountID
	// PreferredRegion is the region that the job prefers; the preference never costs other jobs their
	// turn.
	PreferredRegion string
	// Order is the job's place among its account's jobs of that line, lowest
	// first.
	Order int64
	// VirtualTime is the account's place within the line, lowest first. A value below 0 is
	// unknown and leaves the account where it is.
	VirtualTime float64
}

// ReadyIndex is Redis's hint of queued jobs per line, model, GPU class and
// region, in PostgreSQL's order. It may be wrong or empty at any time: a claim
// decides in PostgreSQL.
type ReadyIndex interface {
	// Add puts jobs in, or updates them. It notifies other processes of the work.
	Add(ctx context.Context, jobs ...ReadyJob) error
	// Remove takes jobs out and moves the account to its new virtual time.
	Remove(ctx context.Context, jobs ...ReadyJob) error
	// SetFlows removes accounts from all lines, or returns them, unless the index has a newer
	// standing.
	SetFlows(ctx context.Context, standings ...models.FlowState) error
	// First returns at most n heads of the first line, in the order given, that has any in
	// these queues: the first job of each account, by the accounts' virtual times. If there are
	// accounts, it leaves out the others. It returns ErrIndexLost if the index is lost.
	First(ctx context.Context, queues []models.Queue, accounts []models.AccountID, n int) ([]ReadyJob, error)
	// Rebuild fills a lost index with these jobs. It only adds to an index that exists.
	Rebuild(ctx context.Context, jobs []ReadyJob) error
	// Wakes calls found for each queue, of any lane, in which an account got work in another
	// process, until ctx ends.
	Wakes(ctx context.Context, found func(models.Queue, models.AccountID)) error
}

// Notifications notifies every process that the rows of these ids, jobs' or workers', have changed. It
// may lose messages, so subscribers also look from time to time.
type Notifications interface {
	Publish(ctx context.Context, ids ...string)
	// Subscribe calls told whenever there is news of the id, and returns a function that ends
	// the subscription. told must not block.
	Subscribe(ctx context.Context, id string, told func()) (stop func())
}

// Observer learns what happened to jobs in this process, so that metrics can be derived
// from it in one place. Its methods must not block, and must not change the jobs.
type Observer interface {
	// Submitted reports a new job after its commit.
	Submitted(job *models.Job)
	// Changed reports a change of a job after its commit: the job as it was when it was
	// locked, and as it was written.
	Changed(before, after *models.Job)
	// Yielded reports after its commit that a job gave way to one of the lane to, and how many
	// GPU seconds of its work that cost.
	Yielded(to models.Tier, job *models.Job, wasted float64)
	// Ended reports the end of an attempt after its commit.
	Ended(end AttemptEnd)
	// Checkpointed reports after its commit that a checkpoint was saved, and how many seconds it
	// took to make and upload, nil if that is unknown.
	Checkpointed(job *models.Job, seconds *float64)
	// Refused reports a submit that failed. code is INTERNAL for a failure of Reelay's own.
	Refused(code apierror.Code, tier models.Tier)
}

// AttemptEnd is the end of an attempt, with its job and its worker as they were written.
type AttemptEnd struct {
	Attempt *models.Attempt
	Job     *models.Job
	Worker  *models.Worker
	// Preempted means that a spot worker, or a preempted machine, was taken away, with notice or
	// without. It is false if Reelay or an operator wanted the worker to leave.
	Preempted bool
	// Expired means that the lease ran out.
	Expired bool
}

// Checkpoint is saved progress that a worker uploaded.
type Checkpoint struct {
	Object  UploadedObject
	Step    int
	Percent float64
	// DurationSeconds is how long it took to make and upload the checkpoint, if known.
	DurationSeconds *float64
}

// UploadTTL is how long an upload link is valid.
const UploadTTL = time.Hour

// StoreAway is the error for callers when the object store is unavailable.
func StoreAway(ctx context.Context, err error) *apierror.Error {
	slog.WarnContext(ctx, "the object store cannot be asked", "error", err)
	return apierror.Later(apierror.CodeUnavailable, 5*time.Second, "The object store cannot be reached now.")
}

// Mismatch is the error for an object that is not what was announced.
func Mismatch(format string, args ...any) *apierror.Error {
	return apierror.New(apierror.CodeChecksumMismatch, format, args...)
}

// ValidChecksum returns INVALID_INPUT unless a checksum is a CRC32C in base64, as the store writes it.
func ValidChecksum(checksum string) error {
	// The decoder skips line breaks, which the store's own text never has.
	if sum, err := base64.StdEncoding.Strict().DecodeString(checksum); err != nil || len(sum) != 4 || strings.ContainsAny(checksum, "\r\n") {
		return apierror.Invalid("checksum", "checksum must be the CRC32C of the object, big-endian, in base64: eight characters.")
	}
	return nil
}

// UploadedObject is a worker's description of an object that it uploaded.
type UploadedObject struct {
	ObjectKey   string
	SizeBytes   int64
	Checksum    string
	ContentType string
	Metadata    json.RawMessage
}
