package fakeprovider

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Webhooks says how a fake sends webhooks.
type Webhooks string

const (
	// UsualWebhooks are sent as the provider documents, each once.
	UsualWebhooks Webhooks = ""
	// RudeWebhooks are sent in all wrong ways, too: of success before the submit is answered, twice, late, about
	// another job, with a clock that is ten minutes off, with a forged signature, and to an address that is made up.
	RudeWebhooks Webhooks = "rude"
	// NoWebhooks are lost.
	NoWebhooks Webhooks = "none"
)

// signer returns the headers with which a provider signs a webhook.
type signer func(secret string, at time.Time, body []byte) http.Header

const hookSecret, forgedSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// standardSign signs as https://www.standardwebhooks.com has it.
func standardSign(secret string, at time.Time, body []byte) http.Header {
	header, id := http.Header{}, "msg_"+uuid.NewString()
	s, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		panic(err) // the secrets are constants
	}
	signature, err := s.Sign(id, at, body)
	if err != nil {
		panic(err)
	}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return header
}

// falSign signs with ED25519.
func falSign(secret string, at time.Time, body []byte) http.Header {
	seed, sum := sha256.Sum256([]byte(secret)), sha256.Sum256(body)
	header, id, sent := http.Header{}, uuid.NewString(), strconv.FormatInt(at.Unix(), 10)
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed[:]), fmt.Appendf(nil, "%s\nuser_1\n%s\n%x", id, sent, sum))
	header.Set("X-Fal-Webhook-Request-Id", id)
	header.Set("X-Fal-Webhook-User-Id", "user_1")
	header.Set("X-Fal-Webhook-Timestamp", sent)
	header.Set("X-Fal-Webhook-Signature", hex.EncodeToString(signature))
	return header
}

// announce sends the webhooks of a change.
func (f *Fake) announce(t *Task) {
	t.announced = t.State
	body := f.hookBody(t)
	if body == nil {
		return
	}
	now := f.config.Now()
	go post(t.Hook, body, f.sign(hookSecret, now, body))
	if f.config.Webhooks != RudeWebhooks {
		return
	}
	go post(t.Hook, body, f.sign(hookSecret, now, body))
	go post(t.Hook, body, f.sign(hookSecret, now.Add(-10*time.Minute), body))
	go post(t.Hook, body, f.sign(forgedSecret, now, body))
	go post(t.Hook+"x", body, f.sign(hookSecret, now, body))
	for _, other := range f.tasks {
		if other != t && other.Hook != "" {
			go post(other.Hook, body, f.sign(hookSecret, now, body))
		}
	}
}

// announceEarly sends a webhook of success before the submit is answered.
func (f *Fake) announceEarly(t *Task) {
	early := *t
	early.State = Succeeded
	if body := f.hookBody(&early); body != nil {
		post(t.Hook, body, f.sign(hookSecret, f.config.Now(), body))
	}
}

// hookBody is the text of the webhook about the state of a job, or nil if there is none.
func (f *Fake) hookBody(t *Task) []byte {
	if t.Hook == "" || f.shape.webhook == nil || f.config.Webhooks == NoWebhooks {
		return nil
	}
	said := f.shape.webhook(f, t.from, t)
	if said == nil {
		return nil
	}
	body, err := json.Marshal(said)
	if err != nil {
		panic(err) // a fake says what JSON can say
	}
	return body
}

func (f *Fake) sign(secret string, at time.Time, body []byte) http.Header {
	if f.shape.sign == nil {
		return http.Header{}
	}
	return f.shape.sign(secret, at, body)
}

var hooks = http.Client{Timeout: 15 * time.Second}

// post sends a webhook, once.
func post(address string, body []byte, header http.Header) {
	r, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	if answer, err := hooks.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}
