// Package peers has how processes of different regions tell each other what their region is.
package peers

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/region"
)

// Path is where an api says what its region is. It needs no key: names and epochs are no secret.
const Path = "/region"

const (
	// askTimeout bounds how long a region that is lost delays a start.
	askTimeout = 2 * time.Second
	// nonceBytes and maxAnswer bound what strangers can send.
	nonceBytes = 16
	maxAnswer  = 4 << 10
)

// answer is a claim with its proof.
type answer struct {
	region.Claim
	// MAC proves that the answer is of a process with the same secrets, and answers this question.
	MAC string `json:"mac"`
}

// mac is the proof of a claim as the answer to a nonce.
func mac(key []byte, nonce string, c region.Claim) string {
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "reelay region\n%s\n%s\n%d\n%t\n%s\n%t", nonce, c.Region, c.Epoch, c.Primary, c.Installation, c.Overtaken)
	return hex.EncodeToString(sum.Sum(nil))
}

// Handler answers what the region of the guard is. Keys are those that sign links, the newest first.
func Handler(guard *region.Guard, keys func() [][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce := r.URL.Query().Get("nonce")
		if raw, err := hex.DecodeString(nonce); r.Method != http.MethodGet || err != nil || len(raw) != nonceBytes {
			http.Error(w, fmt.Sprintf("Send GET %s?nonce=… with %d bytes in hex.", Path, nonceBytes), http.StatusBadRequest)
			return
		}
		said := answer{Claim: guard.Claim()}
		said.MAC = mac(keys()[0], nonce, said.Claim)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(said)
	})
}

// Peers are the apis of other regions, by their URLs.
type Peers struct {
	URLs []string
	// Keys are those that sign links, the newest first.
	Keys func() [][]byte
}

var _ region.Peers = (*Peers)(nil)

// client follows no redirect: another address proves nothing about this one.
var client = &http.Client{Timeout: askTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Ask implements region.Peers. It asks all at once.
func (p *Peers) Ask(ctx context.Context) []region.Peer {
	all := make([]region.Peer, len(p.URLs))
	var asked sync.WaitGroup
	for i, address := range p.URLs {
		asked.Go(func() {
			all[i].Address = address
			claim, err := p.one(ctx, address)
			if err != nil {
				all[i].Failure = err.Error()
				return
			}
			now := time.Now()
			all[i].Claim, all[i].AnsweredAt = &claim, &now
		})
	}
	asked.Wait()
	return all
}

var errUnproved = errors.New("the answer is not proved by the keys of this installation: both regions need the same secrets file")

func (p *Peers) one(ctx context.Context, address string) (region.Claim, error) {
	random := make([]byte, nonceBytes)
	_, _ = rand.Read(random) // it never fails
	nonce := hex.EncodeToString(random)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+Path+"?nonce="+nonce, nil)
	if err != nil {
		return region.Claim{}, err
	}
	response, err := client.Do(request)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the URL is said below
	}
	if err != nil {
		return region.Claim{}, fmt.Errorf("it does not answer: %w", err)
	}
	defer response.Body.Close()
	var said answer
	if response.StatusCode != http.StatusOK {
		return region.Claim{}, fmt.Errorf("it answers %s", response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&said); err != nil {
		return region.Claim{}, fmt.Errorf("it does not answer as an api: %w", err)
	}
	for _, key := range p.Keys() {
		if hmac.Equal([]byte(said.MAC), []byte(mac(key, nonce, said.Claim))) {
			return said.Claim, nil
		}
	}
	return region.Claim{}, errUnproved
}

// Examiner checks that other regions can be asked, and that only one is the primary.
type Examiner struct {
	// Look says how the regions stand.
	Look func(context.Context) (*region.Standing, error)
}

var _ doctor.Examiner = (*Examiner)(nil)

// Examine implements doctor.Examiner.
func (x *Examiner) Examine(ctx context.Context) []doctor.Finding {
	s, err := x.Look(ctx)
	if err != nil {
		return []doctor.Finding{doctor.Advise("region-peers", "The apis of the other regions answer.", "It could not be looked at: "+err.Error()+".",
			"A region that was replaced while it was away does not learn of it when it comes back.", "Correct the cause, and run it again.")}
	}
	found := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return strings.Join(list, " ")
	}
	var silent, others []string
	fix := map[bool]string{}
	for _, p := range s.Report().Peers {
		if p.Problem == "" {
			continue
		}
		list := &silent
		if p.Trouble == region.TroubleServes {
			list = &others
		}
		*list = append(*list, p.Address+": "+p.Problem)
		fix[p.Trouble == region.TroubleServes] = p.Fix
	}
	return []doctor.Finding{
		doctor.Advise("region-peers", "The apis of the other regions answer, and follow this one.", found(silent),
			"A region that was replaced while it was away does not learn of it when it comes back.", fix[false]),
		doctor.Advise("region-primary", fmt.Sprintf("Region %s is the only primary.", s.Region), found(others),
			"Two regions that accept jobs do so in two databases, which cannot be merged.", fix[true]),
	}
}
