// Package jobstest gives a test the whole domain over its own database, object store and
// Redis.
package jobstest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/adapters/remote"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/features/video"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// Main is modelstest.Main.
func Main(m *testing.M) { modelstest.Main(m.Run) }

// Stack holds the domain's roles, and some callers.
type Stack struct {
	DB        *bun.DB
	Keys      *auth.Keys
	Notifier  *change.Notifier
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Deleter   *operate.Deleter
	Videos    *video.Videos
	Reads     *query.Reads
	Watcher   *watch.Watcher
	Leaser    *lease.Leaser
	Attempts  *lease.Attempts
	Registrar *fleet.Registrar
	Operator  *operate.QueueOperator
	// Registry changes the catalogue. Until SeedCatalogue, the database has no entries, and the
	// models are those that come with Reelay.
	Registry    *registry.Registry
	Fleet       *fleet.WorkerOperator
	Pools       *fleet.Pools
	Engines     *fleet.Engines
	Reaper      *lease.Reaper
	Releaser    *pass.Releaser
	Settler     *change.Settler
	Retrier     *operate.Retrier
	Readier     *pass.Readier
	Upkeep      *upkeep.Upkeep
	DeadLetters *operate.DeadLetters
	Bulk        *bulk.Bulk
	Accounts    *auth.Accounts
	Budgets     *budget.Budgets
	Eraser      *erase.Eraser
	Members     *auth.Members
	Alerts      *alert.Desk
	Schedules   *schedule.Schedules
	Workflows   *workflow.Workflows
	Promoter    *pass.Promoter
	Webhooks    *webhook.Endpoints
	Deliverer   *webhook.Deliverer
	Inputs      *inputs.Inputs
	Fetcher     *inputs.InputFetcher
	// Estimates is empty until a test refreshes it.
	Estimates *estimate.Estimator
	Learner   *lease.Learner
	// Checkpoints is empty until a test calls its Pass.
	Checkpoints *checkpoints.Plans
	Objects     *blob.Store
	// Base is the address of the server that serves object links.
	Base string
	// ObjectsDir is the directory of the object store's files.
	ObjectsDir string

	// Account is the client's account.
	Account *models.Account
	// Secrets holds the keys' secrets by role.
	Secrets map[access.Role]string

	Client    jobs.Principal
	Enrolment jobs.Principal
	Admin     jobs.Principal

	sources query.Sources
}

// Edges returns what belongs to jobs, for a caller that may see all of them.
func (s *Stack) Edges(t testing.TB, ids ...models.JobID) query.Edges {
	t.Helper()
	rows, err := models.GetJobs(t.Context(), s.DB, ids)
	require.NoError(t, err)
	return s.EdgesOf(t, rows...)
}

// EdgesOf is Edges for rows that were read before.
func (s *Stack) EdgesOf(t testing.TB, rows ...*models.Job) query.Edges {
	t.Helper()
	edges, err := s.Reads.Jobs.Of(jobs.Host, rows...)
	require.NoError(t, err)
	return edges
}

// WaitingFor returns why jobs wait.
func (s *Stack) WaitingFor(t testing.TB, ids ...models.JobID) (map[models.JobID][]query.WaitingReason, error) {
	t.Helper()
	return s.Reads.Jobs.WaitingFor(t.Context(), s.Edges(t, ids...))
}

// ReadOver makes the stack read over another handle of its database, such as one whose statements are counted.
func (s *Stack) ReadOver(db *bun.DB) {
	s.sources.DB = db
	*s.Reads = *query.New(s.sources)
	s.Watcher.DB, s.Watcher.Jobs = db, s.Reads.Jobs
}

// loadCatalogue loads the models that come with Reelay once. Nothing changes a snapshot.
var loadCatalogue = sync.OnceValues(func() (*catalogue.Snapshot, error) { return catalogue.Load() })

// New makes a stack with an in-memory ready index, which a test can lose, and in-memory notifications.
func New(t testing.TB) *Stack {
	t.Helper()
	return Over(t, modelstest.DB(t))
}

// Over is New over a database that the test opened itself.
func Over(t testing.TB, db *bun.DB) *Stack {
	t.Helper()
	shipped, err := loadCatalogue()
	require.NoError(t, err)
	catalogue := catalogue.Of(shipped)
	keyset, err := seal.NewKeyset()
	require.NoError(t, err)
	sealer, err := seal.New(keyset)
	require.NoError(t, err)

	notifier := &change.Notifier{DB: db, Index: NewIndex(), Notifications: NewNotifications(), Waiters: &jobs.Waiters{}}
	notifier.Aside = func(tell func()) { tell() } // synchronously, so that a submitted job is in the index
	dir := t.TempDir()
	objects, base := openObjects(t, dir)
	checkpoints := &checkpoints.Plans{DB: db}
	estimates := &estimate.Estimator{DB: db, Catalogue: catalogue, LateAfter: jobs.LateAfter()}
	sources := query.Sources{
		DB: db, Sealer: sealer, Objects: objects, Catalogue: catalogue, Estimates: estimates, Checkpoints: checkpoints,
		LinkKeys: blob.OneKey(bytes.Repeat([]byte{7}, 32)), Keep: upkeep.DefaultRetention.For,
	}
	reads := query.New(sources)
	leaser := lease.NewLeaser(db, notifier, catalogue)
	here := outbound.Policy{AllowLoopback: true} // tests' receivers are on this machine
	files := &inputs.Inputs{DB: db, Objects: objects, Remote: remote.New(here)}
	s := &Stack{
		DB: db, Notifier: notifier, Reads: reads, sources: sources, Leaser: leaser, Objects: objects, ObjectsDir: dir, Base: base,
		Keys:     auth.NewKeys(db),
		Accounts: &auth.Accounts{DB: db, Notifier: notifier}, Budgets: &budget.Budgets{DB: db},
		Members: &auth.Members{DB: db},
		Alerts: &alert.Desk{DB: db, Config: &alert.Config{Rules: alert.Defaults(), Routes: []*alert.Route{{
			Name: "nowhere", Slack: &alert.Slack{URL: "http://127.0.0.1:1"},
		}}}, URL: "https://reelay.example"},
		Submitter: &submit.Submitter{DB: db, Catalogue: catalogue, Sealer: sealer, Notifier: notifier, Inputs: files, Outbound: here},
		Canceller: &operate.Canceller{DB: db, Notifier: notifier},
		Deleter:   &operate.Deleter{DB: db, Notifier: notifier},
		Watcher:   &watch.Watcher{DB: db, Jobs: reads.Jobs, Notifications: notifier.Notifications},
		Attempts:  lease.NewAttempts(db, objects, catalogue, leaser),
		Registrar: &fleet.Registrar{DB: db, Catalogue: catalogue, Notifier: notifier},
		Reaper:    &lease.Reaper{DB: db, Notifier: notifier, Catalogue: catalogue},
		Retrier:   &operate.Retrier{DB: db, Catalogue: catalogue, Sealer: sealer, Notifier: notifier, Estimates: estimates},
		Operator:  &operate.QueueOperator{DB: db, Notifier: notifier, Catalogue: catalogue},
		Registry:  &registry.Registry{DB: db, Catalogue: catalogue},
		Fleet:     &fleet.WorkerOperator{DB: db, Notifier: notifier, Providers: map[string]fleet.Provider{}},
		Pools: &fleet.Pools{DB: db, Catalogue: catalogue, Notifier: notifier, Checks: map[string]func(*capacity.Pool) error{
			"fake": nil, "local": fleet.NoSettings, "static": fleet.NotScaled, engine.Provider: fleet.NotScaled,
		}},
		Inputs:    files,
		Fetcher:   &inputs.InputFetcher{Inputs: files, Notifier: notifier, Catalogue: catalogue},
		Promoter:  &pass.Promoter{DB: db, Notifier: notifier},
		Releaser:  &pass.Releaser{DB: db, Notifier: notifier, Catalogue: catalogue},
		Settler:   &change.Settler{DB: db, Notifier: notifier},
		Readier:   &pass.Readier{DB: db, Notifier: notifier},
		Webhooks:  &webhook.Endpoints{DB: db, Sealer: sealer, Outbound: here, Buckets: blob.Customers{Policy: here}},
		Deliverer: webhook.NewDeliverer(db, sealer, wire.New(reads), webhook.NewSender(here), base),
		Upkeep:    &upkeep.Upkeep{DB: db, Objects: objects, Keep: upkeep.DefaultRetention},
		Secrets:   map[access.Role]string{},
	}
	s.Eraser = &erase.Eraser{DB: db, Canceller: s.Canceller, Notifier: notifier, ObjectsGone: upkeep.OrphansGone}
	s.Engines = &fleet.Engines{DB: db, Pools: s.Pools}
	s.Videos = &video.Videos{DB: db, Jobs: reads.Jobs, Submitter: s.Submitter, Canceller: s.Canceller, Deleter: s.Deleter}
	s.Learner, s.Estimates, s.Checkpoints = &lease.Learner{DB: db}, estimates, checkpoints
	s.Leaser.Checkpoints, s.Leaser.Estimates, s.Submitter.Admission.Estimates = checkpoints, estimates, estimates
	// Listeners are always present unless a test says otherwise.
	s.Exec(t, "UPDATE presence SET seen_at = 'infinity'")
	s.DeadLetters = &operate.DeadLetters{DB: db, Catalogue: catalogue, Sealer: sealer, Notifier: notifier, Inputs: files}
	s.Bulk = &bulk.Bulk{DB: db, Verbs: bulk.Roles{
		Canceller: s.Canceller, Retrier: s.Retrier, DeadLetters: s.DeadLetters, Deleter: s.Deleter, Operator: s.Operator,
	}.Verbs()}
	s.Workflows = &workflow.Workflows{WorkflowOperator: operate.WorkflowOperator{DB: db, Catalogue: s.Submitter.Catalogue,
		Sealer: sealer, Notifier: s.Notifier}, Submitter: s.Submitter}
	s.Schedules = &schedule.Schedules{Runner: schedule.Runner{DB: db, Submitter: s.Submitter, Canceller: s.Canceller, Workflows: s.Workflows,
		Sealer: sealer}}
	s.Deliverer.Objects, s.Deliverer.Buckets = objects, s.Webhooks.Buckets
	s.Account = s.NewAccount(t, "client", models.TierEnterprise)
	s.Client = s.NewKey(t, s.Account, access.RoleClient)
	house := s.NewAccount(t, "house", models.TierCritical)
	s.Admin = s.NewKey(t, house, access.RoleAdmin)
	s.NewKey(t, house, access.RoleOperator)
	s.NewKey(t, house, access.RoleViewer)
	s.Enrolment = s.NewKey(t, house, access.RoleWorker)
	return s
}

// openObjects opens an object store in dir: an emulator of Google Cloud Storage, or an S3 server if
// REELAY_TEST_STORE is s3.
func openObjects(t testing.TB, dir string) (_ *blob.Store, base string) {
	t.Helper()
	config := blob.Config{LinkKeys: blob.OneKey(bytes.Repeat([]byte{7}, 32))}
	if os.Getenv("REELAY_TEST_STORE") == "s3" {
		server, err := localstack.StartS3(t.Context(), localstack.S3Config{Dir: dir, Bucket: "reelay-test"})
		require.NoError(t, err)
		t.Cleanup(func() { server.Stop(context.Background()) })
		config.Place = blob.Place{Kind: blob.KindS3, Bucket: server.Bucket(), Endpoint: server.Endpoint(), Region: server.Region()}
		access, secret := server.Keys()
		config.Keys = credentials.NewStaticV4(access, secret, "")
	} else {
		emulator, err := localstack.StartObjects(localstack.ObjectsConfig{Dir: dir, Bucket: "reelay-test"})
		require.NoError(t, err)
		t.Cleanup(func() { emulator.Stop(context.Background()) })
		config.Place, config.EmulatorHost = blob.Place{Kind: blob.KindGoogle, Bucket: emulator.Bucket()}, emulator.Host()
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	store, err := blob.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	require.NoError(t, store.Prove(t.Context()))
	mux.Handle("/objects/", store.Handler())
	return store, server.URL
}

// SeedCatalogue writes the models that come with Reelay into the database, as `reelay migrate`
// does.
func (s *Stack) SeedCatalogue(t testing.TB) {
	t.Helper()
	shipped, err := catalogue.Shipped()
	require.NoError(t, err)
	require.NoError(t, s.Registry.Seed(t.Context(), shipped, capacity.OriginShipped))
}

// Index returns the ready index, which a test can lose.
func (s *Stack) Index() *Index { return s.Notifier.Index.(*Index) }

// NewAccount inserts an account.
func (s *Stack) NewAccount(t testing.TB, name string, tier models.Tier) *models.Account {
	t.Helper()
	account := jobs.NewAccount(name, tier)
	require.NoError(t, models.InsertAccount(t.Context(), s.DB, account))
	return account
}

// NewKey makes an API key of an account and returns its holder. Secrets keeps the secret of
// the first key of each role.
func (s *Stack) NewKey(t testing.TB, account *models.Account, role access.Role) jobs.Principal {
	t.Helper()
	_, secret, err := s.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: account.ID, Role: role, Name: "test " + string(role)})
	require.NoError(t, err)
	if s.Secrets[role] == "" {
		s.Secrets[role] = secret
	}
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// BeginReads begins as many small reads as one account may have in progress.
func (s *Stack) BeginReads(t testing.TB, p jobs.Principal) (end func()) {
	t.Helper()
	var reads []*query.Read
	for range 2 {
		_, read, err := s.Reads.Shares.Admit(t.Context(), p, query.FreePrice+1)
		require.NoError(t, err)
		reads = append(reads, read)
	}
	return func() {
		for _, read := range reads {
			read.End()
		}
	}
}

// Submit submits a job of the client that costs almost nothing.
func (s *Stack) Submit(t testing.TB) *models.Job {
	t.Helper()
	job, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{
		Model: "testcard", Prompt: "a lighthouse in the fog", Params: []byte(`{"durationSeconds": 1, "pace": 0}`),
	})
	require.NoError(t, err)
	return job
}

// AnotherSubmitter returns the submitter of another process.
func (s *Stack) AnotherSubmitter() *submit.Submitter {
	own := s.Submitter
	return &submit.Submitter{
		DB: own.DB, Catalogue: own.Catalogue, Sealer: own.Sealer, Notifier: own.Notifier, Inputs: own.Inputs, Outbound: own.Outbound,
		Admission: own.Admission, UserShare: own.UserShare,
	}
}

// Worker registers a worker and returns its principal.
func (s *Stack) Worker(t testing.TB, instance string) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: instance, GPUCount: 1, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard", "video.stitch"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// Lease gives the worker the job that is due. The test fails if there is none.
func (s *Stack) Lease(t testing.TB, worker jobs.Principal) (*lease.Lease, lease.Fence) {
	t.Helper()
	granted, _, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: 5 * time.Second})
	require.NoError(t, err)
	require.NotNil(t, granted, "there was no job to lease")
	return granted, lease.Fence{AttemptID: granted.Attempt.ID, Token: granted.Attempt.FencingToken}
}

// ExpireLease ages the lease of a live attempt until it has expired.
func (s *Stack) ExpireLease(t testing.TB, id models.AttemptID) {
	t.Helper()
	_, err := s.DB.NewRaw("UPDATE job_attempts SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE id = ? AND ended_at IS NULL", id).Exec(t.Context())
	require.NoError(t, err)
}

// Reload reads a job's current row.
func (s *Stack) Reload(t testing.TB, id models.JobID) *models.Job {
	t.Helper()
	job, err := models.GetJob(t.Context(), s.DB, id)
	require.NoError(t, err)
	return job
}

// Upload requests a link, uploads the bytes, and returns the description with which the worker
// commits them.
func (s *Stack) Upload(t testing.TB, worker jobs.Principal, f lease.Fence, kind models.ArtifactType, data []byte) jobs.UploadedObject {
	t.Helper()
	o := jobs.UploadedObject{SizeBytes: int64(len(data)), Checksum: Checksum(data), ContentType: contentTypes[kind]}
	key, link, err := s.Attempts.RequestUpload(t.Context(), worker, f, lease.UploadRequest{
		Type: kind, ContentType: o.ContentType, SizeBytes: o.SizeBytes, Checksum: o.Checksum,
	})
	require.NoError(t, err)
	o.ObjectKey = key
	req, err := http.NewRequestWithContext(t.Context(), link.Method, link.Link.At(s.Base), bytes.NewReader(data))
	require.NoError(t, err)
	for name, value := range link.Headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Less(t, res.StatusCode, 300, "the upload was refused")
	return o
}

var contentTypes = map[models.ArtifactType]string{
	models.ArtifactCheckpoint: "application/octet-stream",
	models.ArtifactFinalVideo: "video/mp4",
	models.ArtifactThumbnail:  "image/jpeg",
	models.ArtifactPreview:    "image/jpeg",
	models.ArtifactEvidence:   "image/jpeg",
	models.ArtifactLog:        "text/plain; charset=utf-8",
}

// Checksum returns the CRC32C of data in the store's format.
func Checksum(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
}

// WaitUntil waits until PostgreSQL's clock is past t.
func (s *Stack) WaitUntil(t testing.TB, at time.Time) {
	t.Helper()
	_, err := s.DB.NewRaw("SELECT pg_sleep(greatest(0, extract(epoch FROM ?::timestamptz - clock_timestamp())) + 0.01)", at).Exec(t.Context())
	require.NoError(t, err)
}

// Password is the password of the members that NewMember makes.
const Password = "a password of a test"

// NewMember makes a member of the house account with Password, and returns it as a caller with
// the secret of its session.
func (s *Stack) NewMember(t testing.TB, email string, role access.Role) (p jobs.Principal, session string) {
	t.Helper()
	invitation, err := s.Members.Create(t.Context(), s.Admin, auth.NewMember{Email: email, Role: role})
	require.NoError(t, err)
	session, err = s.Members.Accept(t.Context(), invitation.Token, Password, auth.Visitor{Remote: "192.0.2.7:1"})
	require.NoError(t, err)
	p, err = s.Keys.Session(t.Context(), session)
	require.NoError(t, err)
	return p, session
}

// SubmitWorkflow submits a workflow of testcards, each of which comes after the one before.
func (s *Stack) SubmitWorkflow(t testing.TB, p jobs.Principal, name string, keys ...string) *models.Workflow {
	t.Helper()
	in := workflow.Input{Name: name, Output: keys[len(keys)-1]}
	for i, key := range keys {
		node := workflow.Node{Key: key, Job: submit.Submission{Model: "testcard", Prompt: "fog",
			Params: []byte(`{"durationSeconds": 1, "pace": 0}`)}}
		if i > 0 {
			node.After = keys[i-1 : i]
		}
		in.Jobs = append(in.Jobs, node)
	}
	w, _, err := s.Workflows.Submit(t.Context(), p, in)
	require.NoError(t, err)
	return w
}
