package graph

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"runtime"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// operation is one operation of a socket. It runs on a goroutine while there is
// something to answer; a subscription that waits for what it follows has none.
type operation struct {
	socket *socket
	id     []byte // as JSON
	name   string
	digest [sha256.Size]byte // of what was asked
	who    jobs.Principal    // who asked, from wherever
	ctx    context.Context
	end    context.CancelFunc
	next   graphql.ResponseHandler
	parked parked // nil if it is not one of those
	over   bool   // guarded by the socket's mu
}

func newOperation(s *socket, id string, request []byte) *operation {
	p := principal(s.ctx)
	who := jobs.Principal{Role: p.Role, AccountID: p.AccountID, KeyID: p.KeyID, WorkerID: p.WorkerID}
	o := &operation{socket: s, name: id, digest: sha256.Sum256(request), who: who}
	o.id, _ = json.Marshal(id)
	o.ctx, o.end = context.WithCancel(s.ctx)
	return o
}

// begin runs the operation.
func (o *operation) begin(request *graphql.RawParams) {
	defer o.recover()
	executor := o.socket.executor
	ctx := graphql.StartOperationTrace(o.ctx)
	now := graphql.Now()
	request.ReadTime = graphql.TraceTiming{Start: now, End: now}
	operation, refused := executor.CreateOperationContext(ctx, request)
	if refused != nil {
		o.fail(executor.DispatchError(graphql.WithOperationContext(ctx, operation), refused).Errors)
		return
	}
	s := &stream{parks: true}
	o.next, o.ctx = executor.DispatchOperation(context.WithValue(graphql.WithOperationContext(ctx, operation), streamKey{}, s), operation)
	o.parked = s.parked
	o.goOn()
}

// goOn answers with what there is, until the operation is over, or waits for more.
func (o *operation) goOn() {
	defer o.recover()
	for {
		if o.parked != nil && !o.parked.fetch(o.ctx) {
			o.parked.wake(o.goOn)
			return
		}
		answer := o.answer()
		if answer == nil {
			o.say("complete", nil)
			o.end()
			return
		}
		if !o.say("next", answer) {
			o.end()
			return
		}
	}
}

// encoding bounds how many answers to events are made at once. Thousands may be
// due at the same moment, and each takes a large stack while it is made.
var encoding = make(chan struct{}, 8*runtime.GOMAXPROCS(0))

// answer is the next answer, or nil if there is none. What others asked in the
// same words, and were told of the same event a moment ago, is told again.
func (o *operation) answer() []byte {
	if o.parked == nil {
		return encode(o.next(o.ctx))
	}
	event := o.parked.first()
	if event == nil {
		return o.made()
	}
	return o.socket.told.once(question{o.who, base(o.ctx), o.digest, event}, func() []byte {
		o.parked.offer()
		return o.made()
	})
}

// made is the next answer, once there is room to make it. One whose reads have a price
// may wait for its account's share, which bounds how many there are.
func (o *operation) made() []byte {
	if isFree(o.ctx) {
		encoding <- struct{}{}
		defer func() { <-encoding }()
	}
	return encode(o.next(o.ctx))
}

// encode is a response on the wire, or nil if it is none.
func encode(response *graphql.Response) []byte {
	if response == nil {
		return nil
	}
	if len(response.Data) > 0 && len(response.Errors) == 0 && len(response.Extensions) == 0 { // nearly always; it is JSON already
		raw := make([]byte, 0, len(`{"data":}`)+len(response.Data))
		return append(append(append(raw, `{"data":`...), response.Data...), '}')
	}
	raw, err := json.Marshal(response)
	if err != nil {
		raw, _ = json.Marshal(graphql.Response{Errors: gqlerror.List{refusal(errInternal)}})
	}
	return raw
}

// What stands around the parts of a message.
var (
	beforeID      = []byte(`{"id":`)
	beforeType    = []byte(`,"type":"`)
	afterType     = []byte(`"}`)
	beforePayload = []byte(`","payload":`)
	afterPayload  = []byte(`}`)
)

// say writes a message of the operation, if the client still wants to hear of it:
// what a late message of an ended one says must not reach another that was given
// the same id. Once its last message is written the id is free.
func (o *operation) say(kind string, payload []byte) bool {
	s := o.socket
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.over || s.closing.Load() {
		return false
	}
	if kind != "next" {
		s.free(o)
	}
	if payload == nil {
		s.writeText(beforeID, o.id, beforeType, []byte(kind), afterType)
	} else {
		s.writeText(beforeID, o.id, beforeType, []byte(kind), beforePayload, payload, afterPayload)
	}
	return true
}

// fail says why the operation does not run, which is its last message.
func (o *operation) fail(errors gqlerror.List) {
	raw, err := json.Marshal(errors)
	if err != nil {
		raw = []byte("[]")
	}
	o.say("error", raw)
	o.end()
}

// recover makes a panic the operation's end.
func (o *operation) recover() {
	if p := recover(); p != nil {
		o.fail(gqlerror.List{present(o.ctx, recovered(o.ctx, p))})
	}
}
