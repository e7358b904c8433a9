package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/redisurl"
)

// sentinels is how many watch a primary.
const sentinels = 3

// startSentinel starts a primary, its replicas, and Sentinels.
func (r *Redis) startSentinel(ctx context.Context) error {
	first, err := r.startServer(ctx)
	if err != nil {
		return err
	}
	for range r.config.Replicas {
		replica, err := r.startServer(ctx, "replicaof "+strings.Replace(first.Host, ":", " ", 1))
		if err != nil {
			return err
		}
		if err := replica.awaitInfo(ctx, "master_link_status", "up"); err != nil {
			return err
		}
	}
	away := r.config.Away.Milliseconds()
	for range sentinels {
		node, err := r.start(ctx, []string{
			"requirepass " + r.password, "sentinel sentinel-pass " + r.password,
			"sentinel monitor " + primary + " " + strings.Replace(first.Host, ":", " ", 1) + " 2",
			"sentinel auth-pass " + primary + " " + r.password,
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", primary, away),
			fmt.Sprintf("sentinel failover-timeout %s %d", primary, max(10*away, 5000)),
		}, "--sentinel")
		if err != nil {
			return err
		}
		r.Sentinels = append(r.Sentinels, node)
	}
	return r.awaitSentinels(ctx)
}

// awaitSentinels waits until each Sentinel knows the others and the replicas.
func (r *Redis) awaitSentinels(ctx context.Context) error {
	address, err := redisurl.Parse(r.URL())
	if err != nil {
		return err
	}
	for _, node := range r.Sentinels {
		client := address.OpenSentinel(node.Host, time.Minute)
		err := node.await(ctx, "knows the others", func() bool {
			known, err := client.Master(ctx, primary).Result()
			return err == nil && known["num-other-sentinels"] == fmt.Sprint(sentinels-1) &&
				known["num-slaves"] == fmt.Sprint(r.config.Replicas) && client.CkQuorum(ctx, primary).Err() == nil
		})
		client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Primary returns the node that the Sentinels name, or, of a cluster, the node that has a key.
// It returns nil while there is none.
func (r *Redis) Primary(ctx context.Context, key string) *Node {
	address, err := redisurl.Parse(r.URL())
	if err != nil {
		panic(err) // it is built above
	}
	var host string
	switch r.config.Mode {
	case redisurl.Sentinel:
		for _, node := range r.Sentinels {
			sentinel := address.OpenSentinel(node.Host, time.Second)
			at, err := sentinel.GetMasterAddrByName(ctx, primary).Result()
			sentinel.Close()
			if err == nil {
				host = strings.Join(at, ":")
				break
			}
		}
	case redisurl.Cluster:
		client := address.Open(time.Minute).(*redis.ClusterClient)
		defer client.Close()
		node, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil
		}
		host = node.Options().Addr
	default:
		return r.Nodes[0]
	}
	for _, node := range r.Nodes {
		if node.Host == host {
			return node
		}
	}
	return nil
}

// awaitInfo waits until INFO says so.
func (n *Node) awaitInfo(ctx context.Context, name, value string) error {
	client, ok := n.Client().(*redis.Client)
	if !ok {
		return errors.New("it is no single server")
	}
	defer client.Close()
	return n.await(ctx, "says "+name+":"+value, func() bool {
		info, err := redisurl.Info(ctx, client)
		return err == nil && info[name] == value
	})
}
