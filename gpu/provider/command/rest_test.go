package command_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// restCloud imitates the REST API of a cloud. It speaks HTTP, and is rude on demand.
type restCloud struct {
	t       *testing.T
	dialect dialect
	url     string

	mu       sync.Mutex
	next     int
	machines map[string]*restMachine // by the cloud's own id
	bodies   []string                // of the requests that create
	faults   []string                // of the next requests that create or list
	stuck    bool                    // requests that delete get no answer
	broken   bool                    // requests that delete fail
	hanging  string                  // a file that is made when a request gets no answer
	hidden   map[string]time.Time    // until when lists do not have a name: they lag
}

type restMachine struct {
	name, status string
	spot         bool
}

// dialect is what one cloud's API looks like.
type dialect struct {
	// program is the example, and variables its environment besides the key and the address.
	program   string
	variables map[string]string
	// created is the request that creates, as method and path; deleted begins the path that deletes.
	created, deleted string
	// name is the field of a request that has the name of the machine.
	name, running, reclaimed string
	stockout                 string // the body of an answer that says so, after its status
	list                     func(map[string]*restMachine) any
	made                     func(id string) any
}

var dialects = map[string]dialect{
	// https://docs.runpod.io/api-reference/pods/GET/pods
	"runpod": {
		program: "runpod", created: "POST /pods", deleted: "DELETE /pods/", name: "name", running: "RUNNING", reclaimed: "EXITED",
		stockout: `500 {"error": "create pod: There are no longer any instances available with the requested specifications.", "status": 500}`,
		list: func(all map[string]*restMachine) any {
			pods := []any{}
			for id, m := range all {
				pods = append(pods, map[string]any{"id": id, "name": m.name, "desiredStatus": m.status, "interruptible": m.spot})
			}
			return pods
		},
		made: func(id string) any { return map[string]any{"id": id, "desiredStatus": "RUNNING"} },
	},
	// https://docs.lambda.ai/api/cloud
	"lambda": {
		program: "lambda", created: "POST /instance-operations/launch", deleted: "POST /instance-operations/terminate", name: "name",
		running: "active", reclaimed: "preempted", variables: map[string]string{"LAMBDA_SSH_KEY": "mine", "AGENT_COMMAND": agentCommand},
		stockout: `400 {"error": {"code": "instance-operations/launch/insufficient-capacity", "message": "Not enough capacity."}}`,
		list: func(all map[string]*restMachine) any {
			data := []any{}
			for id, m := range all {
				data = append(data, map[string]any{"id": id, "name": m.name, "status": m.status})
			}
			return map[string]any{"data": data}
		},
		made: func(id string) any { return map[string]any{"data": map[string]any{"instance_ids": []string{id}}} },
	},
	// https://docs.vast.ai/api-reference/creating-instances-with-api
	"vast": {
		program: "vast", created: "PUT /asks/", deleted: "DELETE /instances/", name: "label", running: "running", reclaimed: "stopped",
		stockout: `410 {"success": false, "error": "no_such_ask", "msg": "Instance type by id 1 is not available."}`,
		list: func(all map[string]*restMachine) any {
			instances := []any{}
			for id, m := range all {
				instances = append(instances, map[string]any{"id": json.Number(id), "label": m.name, "actual_status": m.status, "is_bid": m.spot})
			}
			return map[string]any{"instances": instances}
		},
		made: func(id string) any { return map[string]any{"success": true, "new_contract": json.Number(id)} },
	},
}

// foreign are machines of others: of nobody's pool, of a pool whose name begins with this one's, of a person who named them
// like the pool.
var foreign = []string{"web-1", "spot-b-0000000a", "spot-dev", "spot-1", "spot-0000000A", "spot-0000000a0"}

// restExample makes a provider whose program calls an imitation of its cloud.
func restExample(t *testing.T, name, options string) (*cloud, *restCloud) {
	t.Helper()
	api := &restCloud{t: t, dialect: dialects[name], machines: map[string]*restMachine{}, hidden: map[string]time.Time{}}
	for _, name := range append([]string{""}, foreign...) { // one has no name
		api.add(name, false)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	api.url = server.URL
	prefix := strings.ToUpper(name)
	c := wrapped(t, name, options, mergeMaps(api.dialect.variables, map[string]string{prefix + "_API_URL": server.URL, prefix + "_API_KEY": "cloudkey"}))
	c.pool.MachineType, c.pool.Zones = "H100", nil
	api.hanging = filepath.Join(c.folder, "hanging")
	return c, api
}

func mergeMaps(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	return merged
}

func (c *restCloud) add(name string, spot bool) string {
	c.next++
	id := fmt.Sprint(c.next)
	c.machines[id] = &restMachine{name, c.dialect.running, spot}
	return id
}

// rude makes the next requests that create or list fail, in order.
func (c *restCloud) rude(faults ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = faults
}

// named returns how many machines have a name.
func (c *restCloud) named(name string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.name == name {
			n++
		}
	}
	return n
}

func (c *restCloud) set(name, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.name == name {
			m.status = status
		}
	}
}

func (c *restCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(text, &body)
	call := r.Method + " " + r.URL.Path
	fault := ""
	creates := strings.HasPrefix(call, c.dialect.created)
	if (creates || r.Method == "GET") && len(c.faults) > 0 {
		fault, c.faults = c.faults[0], c.faults[1:]
	}
	if r.Header.Get("Authorization") != "Bearer cloudkey" {
		fault = `401 {"error": "unauthorized"}`
	}
	deletes := strings.HasPrefix(call, c.dialect.deleted)
	if deletes && c.broken {
		fault = "500 it cannot be deleted now"
	}
	switch {
	case fault == "hang", deletes && c.stuck:
		_ = os.WriteFile(c.hanging, nil, 0o600)
		<-r.Context().Done() // until the program is killed
		return
	case fault == "redirect":
		http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
		return
	case fault == "hang up":
		panic(http.ErrAbortHandler)
	case fault == "stockout":
		fault = c.dialect.stockout
		fallthrough
	case len(fault) > 3 && fault[3] == ' ':
		w.WriteHeader(int(fault[0]-'0')*100 + int(fault[1]-'0')*10 + int(fault[2]-'0'))
		_, _ = io.WriteString(w, fault[4:])
		return
	}
	var answer any
	switch {
	case creates:
		c.bodies = append(c.bodies, string(text))
		name, _ := body[c.dialect.name].(string)
		id := c.add(name, body["interruptible"] == true || body["price"] != nil)
		answer = c.dialect.made(id)
	case r.Method == "GET":
		answer = c.dialect.list(lo.OmitBy(c.machines, func(_ string, m *restMachine) bool { return time.Now().Before(c.hidden[m.name]) }))
	case deletes:
		ids := []any{strings.Trim(strings.TrimPrefix(call, c.dialect.deleted), "/")}
		if many, ok := body["instance_ids"].([]any); ok {
			ids = many
		}
		for _, id := range ids {
			if c.machines[fmt.Sprint(id)] == nil {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			delete(c.machines, fmt.Sprint(id))
		}
		answer = map[string]any{"success": true}
	case call == "POST /bundles/":
		answer = map[string]any{"offers": []any{map[string]any{"id": 1, "min_bid": 1.0, "dph_total": 2.0},
			map[string]any{"id": 2, "min_bid": 1.5, "dph_total": 2.5}}}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch fault {
	case "slow": // slower than a list may be
		time.Sleep(9 * time.Second)
	case "lost late": // it was done, and lists say so later
		c.hidden[body[c.dialect.name].(string)] = time.Now().Add(2 * time.Second)
		panic(http.ErrAbortHandler)
	case "lost": // it was done
		panic(http.ErrAbortHandler)
	case "lost 500":
		w.WriteHeader(http.StatusInternalServerError)
		answer = map[string]any{"error": "read back the row"}
	}
	encoded, _ := json.Marshal(answer)
	if fault == "half" {
		w.Header().Set("Content-Length", fmt.Sprint(len(encoded)))
		encoded = encoded[:len(encoded)/2]
	}
	_, _ = w.Write(encoded)
}

func TestRESTClouds(t *testing.T) {
	t.Parallel()

	for name := range dialects {
		t.Run(name+"/ConformsToTheProtocol", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)

			report := conform(t, t.Context(), c.folder, name, `"options": {}, "timeoutSeconds": 20`, nil)

			require.Empty(t, wrong(report))
			require.Len(t, api.machines, 1+len(foreign), "only those of others remain")
		})

		t.Run(name+"/CreatesOnceWhateverIsAnswered", func(t *testing.T) {
			t.Parallel()
			type result struct {
				class fleet.ErrorClass // "" for success
				made  int
			}
			type attempt struct {
				c    *cloud
				api  *restCloud
				want result
				err  error
			}
			attempts, running := map[string]*attempt{}, sync.WaitGroup{}
			for fault, want := range map[string]result{
				"lost":      {"", 1},
				"lost 500":  {"", 1},
				"lost late": {"", 1},
				"half":      {"", 1},
				"slow":      {"", 1},
				"hang up":   {fleet.Transient, 0},
				"redirect":  {fleet.Transient, 0},
				"502 <html><body>Bad gateway</body></html>": {fleet.Transient, 0},
				"200 <html>Sign in</html>":                  {fleet.Transient, 0},
				"429 API requests too frequent":             {fleet.Transient, 0},
				`401 {"error": "expired"}`:                  {fleet.Permission, 0},
				`403 {"error": "forbidden"}`:                {fleet.Permission, 0},
				`400 {"error": "no such GPU"}`:              {fleet.Invalid, 0},
			} {
				a := &attempt{want: want}
				a.c, a.api = restExample(t, name, `{}`)
				a.api.rude("", fault)
				attempts[fault] = a
				// At once: the looks for what a lost answer made take 10 seconds.
				running.Go(func() { a.err = a.c.Create(t.Context(), a.c.pool, "request-1", []string{"spot-0000000a"})[0].Err })
			}
			running.Wait()
			for fault, a := range attempts {
				require.Equal(t, a.want.made, a.api.named("spot-0000000a"), fault)
				if a.want.class == "" {
					require.NoError(t, a.err, fault)
				} else {
					require.Equal(t, a.want.class, fleet.ClassOf(a.err), "%s: %v", fault, a.err)
				}
				require.NoError(t, a.c.create(t, "spot-0000000a", "spot-0000000b")[0].Err)
				require.Equal(t, 1, a.api.named("spot-0000000a"), "a repeat creates nothing: %s", fault)
			}
		})

		t.Run(name+"/SaysThatCapacityIsOut", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			api.rude("", "", "stockout", "stockout", "stockout")

			all := c.create(t, "spot-0000000a", "spot-0000000b")

			require.NoError(t, all[0].Err, "one of two")
			require.Equal(t, fleet.Stockout, fleet.ClassOf(all[1].Err), all[1].Err)
		})

		t.Run(name+"/ListsAllOrFails", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
			for fault, class := range map[string]fleet.ErrorClass{
				"half": fleet.Transient, "hang up": fleet.Transient, "429 slow down": fleet.Transient, "200 <html>": fleet.Transient,
				"200 {}": fleet.Transient, "200 null": fleet.Transient, "401 {}": fleet.Permission,
			} {
				api.rude(fault)
				_, err := c.List(t.Context(), c.pool)
				require.Equal(t, class, fleet.ClassOf(err), fault)
				require.NotContains(t, err.Error(), "cloudkey")
				require.NotContains(t, err.Error(), "Traceback")
			}
			require.Equal(t, []string{"spot-0000000a RUNNING"}, c.ids(t))
		})

		t.Run(name+"/DeletesAllOfAName", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			api.mu.Lock()
			api.add("spot-0000000a", true)
			api.add("spot-0000000a", true) // as a list that lagged behind a lost answer leaves them
			api.mu.Unlock()

			require.Equal(t, []string{"spot-0000000a RUNNING"}, c.ids(t))
			c.delete(t, "spot-0000000a", "spot-0000000a")

			require.Zero(t, api.named("spot-0000000a"))
			require.Len(t, api.machines, 1+len(foreign))
		})

		t.Run(name+"/LeavesMachinesOfOthersAlone", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			for _, status := range []string{api.dialect.running, api.dialect.reclaimed} {
				for _, name := range foreign {
					api.set(name, status)
				}

				require.Empty(t, c.ids(t))
				require.Empty(t, c.Delete(t.Context(), c.pool, lo.Map(foreign, func(id string, _ int) fleet.Instance { return fleet.Instance{ID: id} })))

				require.Len(t, api.machines, 1+len(foreign))
			}
		})

		t.Run(name+"/KeepsTheAnswersOfACallThatIsKilled", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			api.rude("", "", "hang")

			all := c.interrupted(t, "spot-0000000a", "spot-0000000b")

			require.NoError(t, all[0].Err)
			require.Equal(t, fleet.Transient, fleet.ClassOf(all[1].Err), all[1].Err)
		})

		t.Run(name+"/TellsWhatWasTakenAway", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
			api.set("spot-0000000a", api.dialect.reclaimed)

			all, err := c.List(t.Context(), c.pool)

			require.NoError(t, err)
			require.Equal(t, fleet.InstanceEnded, all[0].State)
			require.True(t, all[0].Reclaimed)
		})

		t.Run(name+"/KeepsAMachineOfAnUnknownState", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
			api.set("spot-0000000a", "UNHEARD_OF")

			all, err := c.List(t.Context(), c.pool)

			require.NoError(t, err)
			require.NotEqual(t, fleet.InstanceEnded, all[0].State)
			require.Equal(t, 1, api.named("spot-0000000a"), "it may cost money, and have a job")
		})

		t.Run(name+"/RefusesOptions", func(t *testing.T) {
			t.Parallel()
			for _, options := range []string{`{"image": "mine"}`, `{"gpus": "1; true"}`, `{"disk": -1}`, `{"gpus": true}`, `{"AGENT_IMAGE": "x"}`} {
				c, api := restExample(t, name, options)
				require.Equal(t, fleet.Invalid, fleet.ClassOf(c.create(t, "spot-0000000a")[0].Err), options)
				require.Empty(t, api.bodies)
			}
		})

		t.Run(name+"/SendsWhatAMachineNeeds", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			require.NoError(t, c.create(t, "spot-0000000a")[0].Err)

			body := api.bodies[0]

			require.Contains(t, body, c.key)
			for _, argument := range fleet.AgentArguments("command", c.pool, "spot-0000000a") {
				require.Contains(t, body, argument)
			}
			require.Contains(t, body, cmp.Or(api.dialect.variables["AGENT_COMMAND"], "registry.example/agent:1"))
			require.Equal(t, name != "lambda", slices.ContainsFunc([]string{`"interruptible": true`, `"price": 1.1`},
				func(part string) bool { return strings.Contains(body, part) }))
			c.pool.CapacityClass = models.CapacityOnDemand
			require.NoError(t, c.create(t, "spot-0000000c")[0].Err)
			require.NotContains(t, api.bodies[1], `"interruptible": true`)
			require.NotContains(t, api.bodies[1], `"price"`)
		})
	}

	t.Run("vast/HasAPriceLimit", func(t *testing.T) {
		t.Parallel()
		c, api := restExample(t, "vast", `{"maxDollars": 1.0}`)

		err := c.create(t, "spot-0000000a")[0].Err

		require.Equal(t, fleet.Stockout, fleet.ClassOf(err))
		require.ErrorContains(t, err, "no H100 for 1.0 dollars an hour")
		require.Empty(t, api.bodies)
	})

	t.Run("lambda/GivesTheContainerTheKey", func(t *testing.T) {
		t.Parallel()
		c, api := restExample(t, "lambda", `{}`)
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		var launch struct {
			UserData string `json:"user_data"`
		}
		require.NoError(t, json.Unmarshal([]byte(api.bodies[0]), &launch))

		require.Equal(t, c.wanted(), boot(t, launch.UserData))
	})

	for _, name := range []string{"vast", "runpod"} {
		t.Run(name+"/DeletesWhatHasEnded", func(t *testing.T) {
			t.Parallel()
			c, api := restExample(t, name, `{}`)
			require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
			api.mu.Lock()
			api.add("spot-0000000b", true)
			api.mu.Unlock()
			api.set("spot-0000000a", api.dialect.reclaimed)
			ended := []string{"spot-0000000a ENDED", "spot-0000000b RUNNING"}

			api.broken = true
			require.ElementsMatch(t, ended, c.ids(t), "the list does not need the delete")
			api.broken, api.stuck = false, true
			require.ElementsMatch(t, ended, c.ids(t), "the list does not wait for the delete")
			require.FileExists(t, api.hanging)
			api.mu.Lock()
			api.stuck = false
			api.mu.Unlock()
			require.Equal(t, 1, api.named("spot-0000000a"))
			require.ElementsMatch(t, ended, c.ids(t))

			require.Zero(t, api.named("spot-0000000a"))
			require.Equal(t, []string{"spot-0000000b RUNNING"}, c.ids(t))
			require.Len(t, api.machines, 2+len(foreign))
		})
	}

	t.Run("vast/SaysThatAnAgentEnded", func(t *testing.T) {
		t.Parallel()
		c, api := restExample(t, "vast", `{}`)
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		api.set("spot-0000000a", "exited")

		all, err := c.List(t.Context(), c.pool)

		require.NoError(t, err)
		require.Equal(t, fleet.InstanceEnded, all[0].State)
		require.False(t, all[0].Reclaimed, "it was not outbid: so many of them are a fault of the image")
		require.Zero(t, api.named("spot-0000000a"), "its disk is paid for")
	})

	t.Run("lambda/RefusesLongNames", func(t *testing.T) {
		t.Parallel()
		c, _ := restExample(t, "lambda", `{}`)

		require.Equal(t, fleet.Invalid, fleet.ClassOf(c.create(t, "spot-"+strings.Repeat("a", 60))[0].Err))
	})
}
