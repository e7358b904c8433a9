package doctor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"golang.org/x/sync/errgroup"
)

const (
	// sampledJobs is how many of the newest jobs' objects are looked at, and
	// pointerPage how many jobs at a time if all are.
	sampledJobs = 1000
	pointerPage = 1000
	// objectLooks is how many objects are looked at at once.
	objectLooks = 8
)

// pointers compares the objects that jobs point to with what their rows say.
func (d *Doctor) pointers(ctx context.Context, c Checkup) (Finding, error) {
	f := Finding{Check: "objects", Level: LevelOK,
		Holds: "Each checkpoint and video that a job points to is in the store, whole, with the size and checksum on its row."}
	var from models.JobID
	for {
		page := pointerPage
		if !c.Full {
			page = sampledJobs
		}
		pointed, next, err := models.ListPointedObjects(ctx, d.DB, from, page)
		if err != nil {
			return f, err
		}
		wrong, err := d.look(ctx, pointed, c.Hash)
		if errors.Is(err, errStoreAway) {
			f.Level, f.Found = LevelUnknown, "The object store cannot be read: "+err.Error()
			f.Fix = "See `probe`."
			return f, nil
		}
		if err != nil {
			return f, err
		}
		f.Count += len(wrong)
		f.IDs = append(f.IDs, wrong[:min(len(wrong), checkupIDs-len(f.IDs))]...)
		if from = next; from == "" || !c.Full {
			break
		}
	}
	if f.Count > 0 {
		f.Level, f.Found = LevelBroken, "These objects are not what their rows say."
		f.Matters = "A video cannot be downloaded as it was made, or a job cannot resume from its checkpoint."
		f.Fix = "Restore the objects from the bucket's versions or a backup. A job that lost only its checkpoint continues without it."
	}
	return f, nil
}

var errStoreAway = errors.New("the object store does not answer")

// look returns what is wrong with these objects, a line each.
func (d *Doctor) look(ctx context.Context, pointed []models.PointedObject, hash bool) ([]string, error) {
	var mu sync.Mutex
	var wrong []string
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(objectLooks)
	for _, p := range pointed {
		group.Go(func() error {
			what, err := d.compare(ctx, p, hash)
			if err != nil || what == "" {
				return err
			}
			// It may have been superseded, and deleted, since its row was read.
			still, err := models.IsPointedAt(ctx, d.DB, p.JobID, p.ArtifactID)
			if err != nil || !still {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, fmt.Sprintf("%s of %s %s", p.ArtifactID, p.JobID, what))
			return nil
		})
	}
	return wrong, group.Wait()
}

// compare returns what is wrong with an object, or nothing.
func (d *Doctor) compare(ctx context.Context, p models.PointedObject, hash bool) (string, error) {
	stored, err := d.Objects.Stat(ctx, p.ObjectKey)
	switch {
	case errors.Is(err, jobs.ErrNoObject):
		return "is gone from the store", nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", errStoreAway, err)
	case stored.SizeBytes != p.SizeBytes:
		return fmt.Sprintf("has %d bytes in the store, not %d", stored.SizeBytes, p.SizeBytes), nil
	case stored.Checksum != p.Checksum:
		return fmt.Sprintf("has the checksum %s in the store, not %s", stored.Checksum, p.Checksum), nil
	case !hash:
		return "", nil
	}
	sum, err := d.checksum(ctx, p.ObjectKey, p.SizeBytes)
	switch {
	case errors.Is(err, jobs.ErrNoObject):
		return "is gone from the store", nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", errStoreAway, err)
	case sum != p.Checksum:
		return fmt.Sprintf("has bytes whose checksum is %s, not %s", sum, p.Checksum), nil
	}
	return "", nil
}

// checksum is the CRC32C of an object's bytes, as the store shows it.
func (d *Doctor) checksum(ctx context.Context, key string, size int64) (string, error) {
	object, err := d.Objects.Open(ctx, key, size)
	if err != nil {
		return "", err
	}
	defer object.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(sum, object); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32())), nil
}

// probe writes, reads and deletes an object.
func (d *Doctor) probe(ctx context.Context) Finding {
	f := Finding{Check: "probe", Level: LevelOK, Holds: "An object can be written to the store, read and deleted."}
	if err := d.tryObject(ctx); err != nil {
		f.Level, f.Found = LevelBroken, "It cannot: "+strings.TrimRight(err.Error(), ". \n")+"."
		f.Matters = "Workers can neither save checkpoints nor deliver videos; their jobs wait or are retried."
		f.Fix = "Check that the bucket exists, that the network reaches it, and that these credentials may create, read and delete its objects."
	}
	return f
}

func (d *Doctor) tryObject(ctx context.Context) error {
	key, data := "doctor/"+uuid.NewString(), []byte("The doctor was here.\n")
	if err := d.Objects.Put(ctx, key, data); err != nil {
		return err
	}
	object, err := d.Objects.Open(ctx, key, int64(len(data)))
	if err != nil {
		return err
	}
	defer object.Close()
	read, err := io.ReadAll(object)
	if err != nil {
		return err
	}
	if !bytes.Equal(read, data) {
		return errors.New("what was read is not what was written")
	}
	return d.Objects.Delete(ctx, key)
}
