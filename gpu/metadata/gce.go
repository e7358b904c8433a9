package metadata

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	preemptedPath   = "/computeMetadata/v1/instance/preempted"
	maintenancePath = "/computeMetadata/v1/instance/maintenance-event"
	identityPath    = "/computeMetadata/v1/instance/service-accounts/default/identity"
)

var flavor = []string{"Metadata-Flavor", "Google"}

// watchGCE waits for Compute Engine to preempt the machine, or to stop it for the maintenance
// of its host.
func (w Watcher) watchGCE(ctx context.Context, s *server, tell func(Notice)) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		w.awaitGCE(ctx, s, preemptedPath, "TRUE", func() {
			tell(Notice{Reason: "Compute Engine preempts this machine", Deadline: time.Now().Add(w.Notice)})
		})
	})
	watching.Go(func() {
		// The other events, such as MIGRATE_ON_HOST_MAINTENANCE, leave the machine running.
		w.awaitGCE(ctx, s, maintenancePath, "TERMINATE_ON_HOST_MAINTENANCE", func() {
			tell(Notice{Reason: "Compute Engine stops this machine for maintenance of its host", Deadline: time.Now().Add(w.Notice)})
		})
	})
}

// awaitGCE calls then once, when a value is as wanted.
func (w Watcher) awaitGCE(ctx context.Context, s *server, path, wanted string, then func()) {
	etag := ""
	w.follow(ctx, path, func() (bool, error) {
		query := "?alt=text"
		timeout := answerTimeout
		if etag != "" {
			query += fmt.Sprintf("&wait_for_change=true&timeout_sec=%d&last_etag=%s", max(1, int(w.pace.longPoll.Seconds())), url.QueryEscape(etag))
			timeout += w.pace.longPoll
		}
		value, header, err := s.ask(ctx, timeout, "GET", path+query, flavor...)
		if err != nil {
			etag = "" // ask for the value itself, whatever it was before
			return false, err
		}
		etag = header.Get("ETag")
		if value != wanted {
			return false, nil
		}
		then()
		return true, nil
	})
}

// Identity returns a token in which Google signs which machine this is, for one audience. It is
// a JWT, valid for an hour. The machine needs a service account. The audience in the token ends
// with a # and a random text: a token serves once, and the metadata server may give the same one
// again for the same audience.
func Identity(ctx context.Context, audience string) (string, error) {
	query := url.Values{"audience": {audience + "#" + rand.Text()}, "format": {"full"}}
	token, _, err := gceServer().ask(ctx, answerTimeout, "GET", identityPath+"?"+query.Encode(), flavor...)
	if err == nil && strings.Count(token, ".") != 2 {
		err = fmt.Errorf("the metadata server's answer is not a token")
	}
	if err != nil {
		return "", fmt.Errorf("get the identity token of this machine (it needs a service account): %w", err)
	}
	return token, nil
}

// Token returns an access token of the machine's service account, and how long it is valid.
func Token(ctx context.Context) (token string, valid time.Duration, err error) {
	body, _, err := gceServer().ask(ctx, tokenTimeout, "GET", "/computeMetadata/v1/instance/service-accounts/default/token",
		flavor...)
	if err != nil {
		return "", 0, fmt.Errorf("ask the metadata server for an access token: %w", err)
	}
	var answer struct {
		Token   string `json:"access_token"`
		Seconds int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Token == "" {
		return "", 0, errors.New("the metadata server answered without an access token")
	}
	return answer.Token, time.Duration(answer.Seconds) * time.Second, nil
}

const tokenTimeout = 10 * time.Second
