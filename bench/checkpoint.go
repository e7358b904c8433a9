package bench

import (
	"bytes"
	"context"
	"errors"

	"github.com/reelay/reelay/bench/wire"
	"github.com/reelay/reelay/client"
)

const checkpointQuery = "mutation commitCheckpoint($input: CommitCheckpointInput!) { commitCheckpoint(input: $input) { leaseExpiresAt directive { action reason } } }"

// object is the content of all uploaded objects.
var object = bytes.Repeat([]byte("reelay"), 170)

// uploadsEach is how many checkpoints each worker uploads before a round, so that only
// their commit is measured.
const uploadsEach = 40

// committers is the number of workers. They are few, so that all finish uploading before
// the first lease expires.
const committers = 64

// checkpoints measures the commit of a checkpoint, which each worker does every 30 s.
func checkpoints() Measurement {
	return Measurement{
		Name: "checkpoint", Title: "commitCheckpoint, 32 clients for 64 workers", Unit: "checkpoints",
		Note: "Ours: GraphQL over HTTP; checks the token and the fence, reads the object's size and checksum from the store, stores the artifact and the event. The uploads before are not counted. A round ends when all checkpoints are committed.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			held, err := s.holders(ctx, s.sized(committers, 8))
			if err != nil {
				return nil, err
			}
			clients := s.sized(heartbeatClients, 4)
			conns, err := s.conns(clients, []string{""})
			if err != nil {
				return nil, err
			}
			all := []Contestant{{Name: reelay, Role: Ours, Round: func(ctx context.Context) (Figures, error) {
				queues, err := s.uploads(ctx, held, clients)
				if err != nil {
					return nil, err
				}
				steps := make([]step, clients)
				for i := range steps {
					queue, c := queues[i], conns[i]
					steps[i] = func() (int, error) {
						if len(queue) == 0 {
							return 0, errNoMore
						}
						next := queue[0]
						_, err := c.PostAs(next.head, next.text)
						if err == nil {
							queue = queue[1:]
						}
						return 1, err
					}
				}
				return s.atLoad(ctx, steps)
			}}}
			return s.limit(ctx).with(all, func(l *limit) Contestant {
				return l.contestant("checkpoint", heartbeatClients, 1, liveAttempts,
					"attempt, job, artifact and event in one statement, one commit; no store is asked")
			}), nil
		},
	}
}

// message is a prepared request with a worker's token.
type message struct{ head, text []byte }

// uploads lets each holder upload checkpoints and returns the requests that commit them,
// distributed over this many clients.
func (s *Site) uploads(ctx context.Context, held []holder, clients int) ([][]message, error) {
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	queues, each := make([][]message, clients), s.sized(uploadsEach, 2)
	made := make([][]message, len(held))
	err = atOnce(ctx, len(held), func(ctx context.Context, i int) error {
		for step := range each {
			o, err := held[i].upload(ctx, client.ArtifactTypeCheckpoint, "application/octet-stream")
			if err != nil {
				return err
			}
			b, err := newBody(checkpointQuery, map[string]any{"input": map[string]any{
				"attemptId": held[i].lease.attempt, "fencingToken": held[i].lease.token, "object": o, "step": step, "percent": 1,
			}}, "")
			if err != nil {
				return err
			}
			made[i] = append(made[i], message{wire.Head(host, held[i].token), b.text})
		}
		return nil
	})
	for step := range each {
		for i := range made {
			if err == nil {
				queues[i%clients] = append(queues[i%clients], made[i][step])
			}
		}
	}
	return queues, err
}

// upload uploads one object of the job that a worker holds, and returns the input of its
// commit.
func (h *holder) upload(ctx context.Context, kind client.ArtifactType, contentType string) (*client.UploadedObject, error) {
	sum, size, err := client.Checksum(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	target, err := h.RequestUpload(ctx, client.RequestUploadInput{
		AttemptId: h.lease.attempt, FencingToken: h.lease.token, Type: kind, ContentType: contentType, SizeBytes: size, Checksum: sum,
	})
	if err != nil {
		return nil, err
	}
	return &client.UploadedObject{ObjectKey: target.ObjectKey, SizeBytes: size, Checksum: sum, ContentType: contentType},
		h.Upload(ctx, target, bytes.NewReader(object), size)
}

// verifiedCompletions measures everything that an agent does around a render, with uploads.
func verifiedCompletions() Measurement {
	const workers = 20
	return Measurement{
		Name: "lease", Title: "lease, upload and completeJob with an object of 1,020 bytes, 20 remote workers", Unit: "jobs",
		Note: "Four requests per job: lease, requestUpload, PUT, completeJob (which reads size and checksum from the store). The Go client sends them from this process. There is no limit and no peer to compare with.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			f, err := s.newFloor(ctx, 0, accountsOfBench)
			if err != nil {
				return nil, err
			}
			hands, err := s.workers(ctx, s.sized(workers, 2), noop)
			if err != nil {
				return nil, err
			}
			return []Contestant{{Name: reelay, Role: Ours, Round: func(ctx context.Context) (Figures, error) {
				if err := f.fill(ctx, int(500*s.Effort.Span.Seconds())+100); err != nil {
					return nil, err
				}
				steps := make([]step, len(hands))
				for i := range steps {
					steps[i] = func() (int, error) { return f.took(hands[i].video(ctx)) }
				}
				return s.atLoad(ctx, steps)
			}}}, nil
		},
	}
}

// video leases a job and completes it with an uploaded video.
func (w *worker) video(ctx context.Context) (int, error) {
	answer, err := w.LeaseJob(ctx, client.LeaseJobInput{WorkerId: w.id, WaitSeconds: new(20)})
	if err != nil {
		return 0, err
	}
	if answer.Lease == nil {
		return 0, errors.New("a worker got no job within 20 s")
	}
	h := holder{*w, lease{answer.Lease.AttemptId, answer.Lease.FencingToken, answer.Lease.Job.Id}}
	o, err := h.upload(ctx, client.ArtifactTypeFinalVideo, "video/mp4")
	if err != nil {
		return 0, err
	}
	_, err = w.CompleteJob(ctx, client.CompleteJobInput{AttemptId: h.lease.attempt, FencingToken: h.lease.token, Video: o})
	return 1, err
}
