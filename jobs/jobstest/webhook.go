package jobstest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

// receiver receives webhooks, and responds as a test says.
type receiver struct {
	URL string

	mu     sync.Mutex
	got    []Received
	answer http.HandlerFunc
}

// Received is one webhook as it arrived.
type Received struct {
	Header http.Header
	Body   []byte
}

func (r Received) Id() string { return r.Header.Get("webhook-id") }

func (r Received) Data(t *testing.T) map[string]any {
	t.Helper()
	var body struct{ Data map[string]any }
	require.NoError(t, json.Unmarshal(r.Body, &body))
	return body.Data
}

func NewReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, Received{req.Header, body})
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL + "/hook"
	return r
}

func (r *receiver) Answers(handler http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = handler
}

func (r *receiver) AnswersStatus(code int) {
	r.Answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func (r *receiver) All() []Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Received(nil), r.got...)
}

// Hook creates an endpoint that sends the ends of the client's jobs to a receiver.
func Hook(t *testing.T, s *Stack, r *receiver, events ...string) (*webhooks.Endpoint, string) {
	t.Helper()
	endpoint, secret, err := s.Webhooks.CreateEndpoint(t.Context(), s.Client, r.URL, webhooks.FormatStandard, events)
	require.NoError(t, err)
	return endpoint, secret
}

// CancelledJob returns a job whose end causes a delivery.
func CancelledJob(t *testing.T, s *Stack) *models.Job {
	t.Helper()
	job, err := s.Canceller.Cancel(t.Context(), s.Client, s.Submit(t).ID)
	require.NoError(t, err)
	require.Equal(t, models.JobCancelled, job.Status)
	return job
}

// Deliver tries the deliveries that are due, and returns how many there were.
func Deliver(t *testing.T, s *Stack) int {
	t.Helper()
	n, err := s.Deliverer.Pass(t.Context())
	require.NoError(t, err)
	return n
}

// Deliveries lists a job's deliveries, newest first.
func Deliveries(t *testing.T, s *Stack, job models.JobID) []*webhooks.Delivery {
	t.Helper()
	page, err := s.Reads.Webhooks.Deliveries(t.Context(), s.Client, webhooks.DeliveryFilter{JobID: job}, paging.Request{First: 100})
	require.NoError(t, err)
	return page.Items
}
