package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reelay/reelay/internal/redisurl"
)

const (
	primaries = 3
	slots     = 16384
)

// startCluster starts primaries, each with its share of the slots, and their replicas.
func (r *Redis) startCluster(ctx context.Context) error {
	settings := []string{"cluster-enabled yes", fmt.Sprintf("cluster-node-timeout %d", r.config.Away.Milliseconds())}
	for i := range primaries * (1 + r.config.Replicas) {
		node, err := r.startServer(ctx, settings...)
		if err != nil {
			return err
		}
		if err := r.join(ctx, node, i); err != nil {
			return fmt.Errorf("join the cluster: %w", err)
		}
	}
	if err := r.awaitCluster(ctx); err != nil {
		return err
	}
	for i, replica := range r.Nodes[primaries:] {
		if err := replica.follow(ctx, r.Nodes[i%primaries]); err != nil {
			return fmt.Errorf("follow a primary: %w", err)
		}
	}
	return r.awaitCluster(ctx)
}

// join gives the i-th node its slots, and introduces it to the first.
func (r *Redis) join(ctx context.Context, node *Node, i int) error {
	client := node.Client()
	defer client.Close()
	if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	if i < primaries {
		if err := client.ClusterAddSlotsRange(ctx, i*slots/primaries, (i+1)*slots/primaries-1).Err(); err != nil {
			return err
		}
	}
	if i == 0 {
		return nil
	}
	// The port of the bus is not the usual one.
	first := r.Nodes[0].Client()
	defer first.Close()
	bus, err := first.ConfigGet(ctx, "cluster-port").Result()
	if err != nil {
		return err
	}
	host, port, _ := strings.Cut(r.Nodes[0].Host, ":")
	return client.Do(ctx, "CLUSTER", "MEET", host, port, bus["cluster-port"]).Err()
}

// follow makes it a replica.
func (n *Node) follow(ctx context.Context, primary *Node) error {
	above, client := primary.Client(), n.Client()
	defer above.Close()
	defer client.Close()
	id, err := above.Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return err
	}
	return errors.Join(client.ClusterReplicate(ctx, id).Err(), n.awaitInfo(ctx, "master_link_status", "up"))
}

// awaitCluster waits until all nodes know each other, and that all slots are served.
func (r *Redis) awaitCluster(ctx context.Context) error {
	for _, node := range r.Nodes {
		client := node.Client()
		err := node.await(ctx, "is in the cluster", func() bool {
			text, err := client.ClusterInfo(ctx).Result()
			info := redisurl.ReadInfo(text)
			return err == nil && info["cluster_state"] == "ok" && info["cluster_known_nodes"] == fmt.Sprint(len(r.Nodes))
		})
		client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
