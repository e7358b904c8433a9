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
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
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

var errUnproved = errors.New("it answers, but is not of this installation (another secrets file?): whether it serves is unknown")

func (p *Peers) one(ctx context.Context, address string) (region.Claim, error) {
	random := make([]byte, nonceBytes)
	_, _ = rand.Read(random) // it never fails
	nonce := hex.EncodeToString(random)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+Path+"?nonce="+nonce, nil)
	if err != nil {
		return region.Claim{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return region.Claim{}, fmt.Errorf("it does not answer (%s): whether it serves is unknown", cause(err))
	}
	defer response.Body.Close()
	var said answer
	if response.StatusCode != http.StatusOK {
		return region.Claim{}, fmt.Errorf("it answers %s, which no api with REELAY_REGION does: whether it serves is unknown",
			response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&said); err != nil {
		return region.Claim{}, errors.New("it answers, but not as an api of Reelay: whether it serves is unknown")
	}
	for _, key := range p.Keys() {
		if hmac.Equal([]byte(said.MAC), []byte(mac(key, nonce, said.Claim))) {
			return said.Claim, nil
		}
	}
	return region.Claim{}, errUnproved
}

// cause is why a region does not answer, in a few words that stay the same from try to try.
func cause(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		if err = wrapped.Err; wrapped.Timeout() {
			return fmt.Sprintf("nothing within %s", askTimeout)
		}
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return unknown.Err
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return err.Error()
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
		return []doctor.Finding{doctor.Advise("region-peers", "The apis of the other regions answer.",
			"It could not be looked at: "+err.Error()+".",
			"A region that was replaced while it was away does not learn of it when it comes back.", "Correct the cause, and run it again.")}
	}
	var silent, others []string
	var fix, fixOthers string
	for _, p := range s.Report().Peers {
		switch {
		case p.Problem == "":
		case p.Trouble == region.TroubleServes:
			others, fixOthers = append(others, p.Address+": "+p.Problem), p.Fix
		default:
			silent, fix = append(silent, p.Address+": "+p.Problem), p.Fix
		}
	}
	if len(s.Peers) == 0 {
		silent, fix = []string{"No peers are set: nothing was asked."}, "Set REELAY_REGION_PEERS to the apis of the other regions, for api and control."
	}
	may := doctor.Advise("region-promotion", "The role of DATABASE_URL may promote a standby.", "", "", "")
	if !s.Server.MayPromote {
		may = doctor.Advise(may.Check, may.Holds, fmt.Sprintf("The role %s may not.", s.Server.Role),
			"`reelay region promote` refuses after the primary is lost. Then a superuser must run pg_promote() first.",
			"Run "+s.PromoteRight()+". It does not matter if your cloud promotes the standby.")
	}
	return []doctor.Finding{
		doctor.Advise("region-peers", "The apis of the other regions answer, and follow this one or are followed.", strings.Join(silent,
			" "),
			"A region that was replaced while it was away does not learn of it when it comes back.", fix),
		primary(s, strings.Join(others, " "), fixOthers),
		may,
	}
}

// primary checks that one region is the primary. Others names the other regions that claim to be.
func primary(s *region.Standing, others, fix string) doctor.Finding {
	const check = "region-primary"
	if !s.TakesOver() {
		return doctor.Advise(check, fmt.Sprintf("Region %s is the only primary.", s.Region), others,
			"Two regions that accept jobs do so in two databases, which cannot be merged.", fix)
	}
	holds := fmt.Sprintf("This region, %s, is a standby of %s.", s.Region, s.Newest.Region)
	switch {
	case s.Newest.Epoch == 0:
		return doctor.Advise(check, "A region is the primary.", "None is yet.", "Nothing is served.",
			"Start the api and control processes of the first region.")
	case s.Newest.Learned:
		return doctor.Advise(check, holds, fmt.Sprintf("Region %s took over (epoch %d), and this database is no standby of it.",
			s.Newest.Region, s.Newest.Epoch),
			"This region cannot take over, and what it accepted since is in its database only.",
			"Look here for jobs that are not there, and then make it a standby: docs/operators/regions.md, Two primaries.")
	case s.Refusal() == nil:
		return doctor.Advise(check, holds, fmt.Sprintf("This region waits, and no region is known to serve: the primary was %s.",
			s.Newest.Region), "Nothing is served.",
			"Run `reelay region promote` to take over, or start "+s.Newest.Region+" again. If this is "+s.Newest.Region+", correct REELAY_REGION.")
	case s.Server.Standby && !s.Server.Receiving:
		return doctor.Advise(check, holds, "PostgreSQL here receives nothing from it.", "A promotion loses what it did not receive.",
			"Look into the log of PostgreSQL here.")
	}
	return doctor.Advise(check, holds, "", "", "")
}
