package agent

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/reelay/reelay/gpu/metadata"
)

// watch returns the notices that this machine is going away: by a signal, or from the metadata
// server of its provider.
func (s settings) watch(ctx context.Context, config Config) <-chan Notice {
	notices := make(chan Notice)
	tell := func(n Notice) {
		select {
		case notices <- n:
		case <-ctx.Done():
		}
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				tell(Notice{Reason: "the signal " + s.String(), Deadline: time.Now().Add(config.Notice)})
			}
		}
	}()
	watcher := metadata.Watcher{Source: noticeSource(s.notices, s.provider), Notice: config.Notice, Log: config.Log}
	go watcher.Watch(ctx, func(n metadata.Notice) {
		tell(Notice{Reason: n.Reason, Deadline: n.Deadline, Announced: true})
	})
	return notices
}

// noticeSource is what auto means for the workers of a provider.
func noticeSource(notices, provider string) string {
	switch {
	case notices != metadata.Auto:
		return notices
	case provider == "gce":
		return metadata.GCE
	case provider == "ec2", provider == "aws":
		return metadata.EC2
	case provider == "local":
		return metadata.Off // processes of one machine, which its provider does not end one by one
	}
	return metadata.Auto
}
