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
	"slices"
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
	fmt.Fprintf(sum, "reelay region\n%s\n%s\n%d\n%t\n%s", nonce, c.Region, c.Epoch, c.Primary, c.Installation)
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

// Claims implements region.Peers.
func (p *Peers) Claims(ctx context.Context) []region.Claim {
	claims, _ := p.ask(ctx)
	return claims
}

// ask asks all at once. It returns what those that answer say, and why others do not.
func (p *Peers) ask(ctx context.Context) (claims []region.Claim, failed []error) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, address := range p.URLs {
		asked.Go(func() {
			claim, err := p.one(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
				return
			}
			claims = append(claims, claim)
		})
	}
	asked.Wait()
	slices.SortFunc(claims, func(a, b region.Claim) int { return strings.Compare(a.Region, b.Region) })
	return claims, failed
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
		return region.Claim{}, fmt.Errorf("%s: %w", address, err)
	}
	defer response.Body.Close()
	var said answer
	if response.StatusCode != http.StatusOK {
		return region.Claim{}, fmt.Errorf("%s answers %s", address, response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&said); err != nil {
		return region.Claim{}, fmt.Errorf("%s does not answer as an api: %w", address, err)
	}
	for _, key := range p.Keys() {
		if hmac.Equal([]byte(said.MAC), []byte(mac(key, nonce, said.Claim))) {
			return said.Claim, nil
		}
	}
	return region.Claim{}, fmt.Errorf("%s: %w", address, errUnproved)
}

// Examiner checks that other regions can be asked, and that only one is the primary.
type Examiner struct {
	Region string
	// Installation is the id of its database, which the others' are copies of.
	Installation string
	Peers        *Peers
}

var _ doctor.Examiner = (*Examiner)(nil)

// Examine implements doctor.Examiner.
func (x *Examiner) Examine(ctx context.Context) []doctor.Finding {
	claims, failed := x.Peers.ask(ctx)
	var silent, others []string
	for _, err := range failed {
		silent = append(silent, err.Error())
	}
	for _, claim := range claims {
		switch {
		case claim.Region == x.Region:
			silent = append(silent, "one of them is of this region, "+claim.Region)
		case claim.Installation != "" && claim.Installation != x.Installation:
			silent = append(silent, "the database of "+claim.Region+" is no copy of this one")
		case claim.Primary:
			others = append(others, fmt.Sprintf("%s (epoch %d)", claim.Region, claim.Epoch))
		}
	}
	found := func(list []string, format string) string {
		if len(list) == 0 {
			return ""
		}
		return fmt.Sprintf(format, strings.Join(list, "; "))
	}
	return []doctor.Finding{
		doctor.Advise("region-peers", "The apis of the other regions answer.", found(silent, "Not all of them do: %s."),
			"A region that was replaced while it was away does not learn of it when it comes back.", "Start them, or correct REELAY_REGION_PEERS."),
		doctor.Advise("region-primary", fmt.Sprintf("Region %s is the only primary.", x.Region), found(others, "So do others claim: %s."),
			"Two regions that accept jobs do so in two databases, which cannot be merged.", "Follow docs/operators/regions.md, Two primaries."),
	}
}
