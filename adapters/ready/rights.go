package ready

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/redisurl"
)

// commands are all commands that Reelay sends to Redis, scripts and asynq included, in a form
// that Redis accepts. KEY and CHANNEL stand for a key and a channel of Reelay's.
var commands = []string{
	"ping", "select 0", "info server", "scan 0 count 1", "time", "eval 1 0", "evalsha 1 0", "multi", "discard",
	"publish CHANNEL 1", "subscribe CHANNEL", "unsubscribe CHANNEL",
	"del KEY", "exists KEY", "expire KEY 1", "expireat KEY 1", "pexpire KEY 1", "memory usage KEY",
	"get KEY", "set KEY 1", "setex KEY 1 1", "setnx KEY 1", "incr KEY",
	"hdel KEY 1", "hexists KEY 1", "hget KEY 1", "hmget KEY 1", "hset KEY 1 1", "hvals KEY",
	"llen KEY", "lpush KEY 1", "lrange KEY 0 1", "lrem KEY 0 1", "rpoplpush KEY KEY", "rpush KEY 1",
	"sadd KEY 1", "sismember KEY 1", "smembers KEY", "srem KEY 1",
	"zadd KEY 1 1", "zcard KEY", "zrange KEY 0 1", "zrangebyscore KEY 0 1", "zrem KEY 1", "zremrangebyrank KEY 0 1",
	"zremrangebyscore KEY 0 1", "zrevrange KEY 0 1", "zscore KEY 1",
}

// clusterCommands are those that Reelay sends to a cluster only.
var clusterCommands = []string{"asking", "command", "cluster info", "cluster keyslot KEY", "cluster nodes", "cluster slots"}

// commandsOf returns those that Reelay sends to a Redis of this form.
func commandsOf(mode redisurl.Mode) []string {
	if mode == redisurl.Cluster {
		return slices.Concat(commands, clusterCommands)
	}
	return slices.Clone(commands)
}

// rightOf is how a command is called in the rule of an ACL.
func rightOf(command string) string {
	words := strings.Fields(command)
	if words[0] == "cluster" || words[0] == "memory" {
		return "+" + words[0] + "|" + words[1]
	}
	return "+" + words[0]
}

// rights checks that the user may do all that Reelay does. It puts each command into a
// transaction, which Redis refuses if the user lacks the right, and discards the transaction.
func (x *Examiner) rights(ctx context.Context) doctor.Finding {
	const holds = "The user of REDIS_URL may run all commands that Reelay needs."
	var missing []string
	var failed error
	for _, tag := range []string{"{" + x.Prefix + "}:", "asynq:{pro}:"} {
		lacking, err := x.lacking(ctx, tag)
		failed = errors.Join(failed, err)
		for _, rule := range lacking {
			if !slices.Contains(missing, rule) {
				missing = append(missing, rule)
			}
		}
	}
	f := doctor.Advise("redis-rights", holds, "", "", "")
	if len(missing) > 0 {
		user := x.Address.User
		if user == "" {
			user = "default"
		}
		f = doctor.Advise(f.Check, holds, "It lacks "+strings.Join(missing, " ")+".",
			"What needs a missing right fails, as if Redis did not answer: slower leases, rates that each process counts alone.",
			"On each server: ACL SETUSER "+user+" "+strings.Join(missing, " ")+", then ACL SAVE or CONFIG REWRITE.")
	} else if failed != nil {
		f.Level, f.Found = doctor.LevelUnknown, "It could not be examined: "+failed.Error()+"."
	}
	return f
}

// lacking returns the rules that are missing for keys and channels that begin with tag.
func (x *Examiner) lacking(ctx context.Context, tag string) (rules []string, err error) {
	node, err := x.nodeOf(ctx, tag)
	if err != nil {
		return nil, err
	}
	conn := node.Conn()
	defer conn.Close()
	// Without these two, the commands would run, or the connection would stay in the transaction.
	for _, command := range []string{"discard", "multi"} {
		if err := conn.Do(ctx, command).Err(); isRefusal(err) {
			return []string{"+" + command}, nil
		} else if err != nil && !strings.Contains(err.Error(), "DISCARD without MULTI") {
			return nil, err
		}
	}
	all := slices.DeleteFunc(commandsOf(x.Address.Mode), func(command string) bool { return command == "multi" || command == "discard" })
	pipe := conn.Pipeline()
	for _, command := range append(all, "discard") {
		var args []any
		for word := range strings.FieldsSeq(command) {
			switch word {
			case "KEY", "CHANNEL":
				word = tag + "doctor"
			}
			args = append(args, word)
		}
		pipe.Do(ctx, args...)
	}
	answers, err := pipe.Exec(ctx)
	if err != nil && !isRefusal(err) {
		return nil, err
	}
	pattern := strings.TrimSuffix(tag, "{pro}:") + "*"
	for i, answer := range answers[:len(all)] {
		if !isRefusal(answer.Err()) {
			continue
		}
		switch text := answer.Err().Error(); {
		case strings.Contains(text, "to run the"):
			rules = append(rules, rightOf(all[i]))
		case strings.Contains(text, "channel"):
			rules = append(rules, "&"+pattern)
		default:
			rules = append(rules, "~"+pattern)
		}
	}
	return rules, nil
}

func isRefusal(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOPERM") }

// nodeOf returns the server that has a key.
func (x *Examiner) nodeOf(ctx context.Context, key string) (*redis.Client, error) {
	switch c := x.Client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("a client of type %T has no known servers", x.Client)
}
