package ready

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/jobs"
)

// Notifications carries notifications of jobs and workers between processes over Redis. All subscriptions of a
// process share one connection, which exists while there are subscriptions.
type Notifications struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration

	mu     sync.Mutex // also orders the messages sent on the connection
	conn   *redis.PubSub
	topics map[string]*topic // by channel
}

// topic is one row with subscribers in this process.
type topic struct {
	followers map[*func()]bool // the functions to call
	confirmed chan struct{}    // closed when Redis has confirmed the subscription
}

var _ jobs.Notifications = (*Notifications)(nil)

// NewNotifications returns the notifications under that prefix. The client must come from [NewClient].
func NewNotifications(client redis.UniversalClient, prefix string) *Notifications {
	return &Notifications{client: client, prefix: keyPrefix(prefix) + "news:", timeout: callTimeout, topics: map[string]*topic{}}
}

// Publish notifies the subscribers of those ids. A notification is lost if Redis does not take it.
func (n *Notifications) Publish(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	_, err := n.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, id := range ids {
			// As if the channel were a key: in a cluster its subscribers are connected to the node with its slot.
			publish := redis.NewIntCmd(ctx, "publish", n.prefix+id, "")
			publish.SetFirstKeyPos(1)
			_ = pipe.Process(ctx, publish) // Pipelined returns its error
		}
		return nil
	})
	if err != nil {
		slog.DebugContext(ctx, "news lost", "ids", ids, "error", err)
	}
}

// Subscribe calls notify on a shared goroutine whenever there is a notification, and returns a function
// that ends the subscription; notify may be called once more at that moment. While Redis can be
// reached, no notification published after Subscribe returned is missed. A reconnection after an
// outage counts as a notification. Without Redis there is no notification.
func (n *Notifications) Subscribe(ctx context.Context, id string, told func()) (stop func()) {
	channel, follower := n.prefix+id, &told
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()

	followed := n.follow(ctx, channel, follower)
	select {
	case <-followed.confirmed:
	case <-ctx.Done():
	}
	return sync.OnceFunc(func() { n.leave(channel, followed, follower) })
}

func (n *Notifications) follow(ctx context.Context, channel string, follower *func()) *topic {
	n.mu.Lock()
	defer n.mu.Unlock()
	followed := n.topics[channel]
	if followed == nil {
		followed = &topic{followers: map[*func()]bool{}, confirmed: make(chan struct{})}
		n.topics[channel] = followed
		if n.conn == nil {
			n.conn = n.client.Subscribe(ctx)
			go n.receive(n.conn.ChannelWithSubscriptions())
		}
		// go-redis remembers the channel and subscribes to it whenever it connects.
		n.log(ctx, n.conn.Subscribe(ctx, channel))
	}
	followed.followers[follower] = true
	return followed
}

func (n *Notifications) leave(channel string, followed *topic, follower *func()) {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout) // also bounds the wait for the others
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(followed.followers, follower)
	if len(followed.followers) > 0 || n.topics[channel] != followed {
		return
	}
	delete(n.topics, channel)
	if len(n.topics) == 0 {
		n.hangUp()
		return
	}
	n.log(ctx, n.conn.Unsubscribe(ctx, channel))
}

// Close ends all subscriptions: their channels get no more notifications.
func (n *Notifications) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.topics)
	n.hangUp()
}

// hangUp closes the connection, which ends receive.
func (n *Notifications) hangUp() {
	if n.conn != nil {
		_ = n.conn.Close() // nothing is lost
		n.conn = nil
	}
}

// receive handles the messages of a connection until it is closed.
func (n *Notifications) receive(messages <-chan any) {
	for message := range messages {
		switch message := message.(type) {
		case *redis.Message:
			n.notify(message.Channel)
		case *redis.Subscription:
			if message.Kind == "subscribe" {
				n.confirm(message.Channel)
			}
		}
	}
}

func (n *Notifications) notify(channel string) {
	n.mu.Lock()
	var followers []*func()
	if followed := n.topics[channel]; followed != nil {
		followers = slices.Collect(maps.Keys(followed.followers))
	}
	n.mu.Unlock()
	for _, told := range followers {
		(*told)()
	}
}

// confirm records that a channel is subscribed. If it was subscribed before, the connection
// was lost, and perhaps some notifications with it.
func (n *Notifications) confirm(channel string) {
	if n.reconnected(channel) {
		n.notify(channel)
	}
}

func (n *Notifications) reconnected(channel string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	followed := n.topics[channel]
	if followed == nil {
		return false
	}
	select {
	case <-followed.confirmed:
		return true
	default:
		close(followed.confirmed)
		return false
	}
}

func (n *Notifications) log(ctx context.Context, err error) {
	if err != nil {
		slog.DebugContext(ctx, "news may be lost", "error", err)
	}
}
