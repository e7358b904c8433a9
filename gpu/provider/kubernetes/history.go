package kubernetes

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"
)

// historyLimit bounds how long a list waits for what happened since the list before. The server sends it at once.
const historyLimit = 2 * time.Second

// history watches the pods from a version of the cluster, until it has seen how the pods of these uids, by id, were
// deleted. It returns those that the cluster took away. What the cluster has forgotten, or does not send in time, is
// missing: then it is unknown why these pods are gone.
func (on *connection) history(ctx context.Context, labels map[string]string, version string, unknown map[string]string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, historyLimit)
	defer cancel()
	response, _, err := on.send(ctx, call{method: http.MethodGet, path: on.path("pods"), query: url.Values{
		"watch": {"true"}, "labelSelector": {selector(labels)}, "resourceVersion": {version},
		"timeoutSeconds": {"2"},
	}})
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil
	}
	taken, seen := map[string]string{}, 0
	events := json.NewDecoder(io.LimitReader(response.Body, mostBytes))
	for seen < len(unknown) {
		var event struct {
			Type   string
			Object *pod
		}
		if err := events.Decode(&event); err != nil || event.Type == "ERROR" || event.Object == nil {
			break
		}
		one := event.Object
		if uid := unknown[one.Metadata.Name]; uid == "" || uid != one.Metadata.UID {
			continue
		}
		if one.reclaimed() {
			taken[one.Metadata.Name] = one.Metadata.UID
		}
		if event.Type == "DELETED" {
			seen++
		}
	}
	return taken
}
