package command_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// ec2API is moto's imitation of EC2 behind a proxy that is rude on demand.
type ec2API struct {
	url  *url.URL // of moto
	real http.Handler

	mu     sync.Mutex
	faults map[string][]string // of the next requests, by action: "lost", or a code of AWS and its message
	calls  []url.Values
	// hanging is a file that is made when a request gets no answer.
	hanging string
}

// startMoto starts the imitation of EC2, and returns where it is.
func startMoto(t *testing.T) *url.URL {
	t.Helper()
	bin, port := venv(t, "ec2"), testrun.FreePort(t)
	moto := testrun.Command(t, bin+"/moto_server", "-H", "127.0.0.1", "-p", port)
	moto.Env = append(os.Environ(), "HOME="+t.TempDir())
	require.NoError(t, moto.Start())
	at, err := url.Parse("http://127.0.0.1:" + port)
	require.NoError(t, err)
	testrun.Eventually(t, "moto answers", func() bool {
		res, err := http.Get(at.String() + "/moto-api/data.json")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
	return at
}

// startEC2 makes a provider whose program calls an imitation of EC2 without machines.
func startEC2(t *testing.T, at *url.URL) (*cloud, *ec2API) {
	t.Helper()
	bin := venv(t, "ec2")
	api := &ec2API{url: at, real: httputil.NewSingleHostReverseProxy(at), faults: map[string][]string{}}
	res, err := http.Post(at.String()+"/moto-api/reset", "", nil)
	require.NoError(t, err)
	res.Body.Close()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	c := wrapped(t, "ec2-spot", `{}`, map[string]string{"PATH": bin + ":" + os.Getenv("PATH"), "AWS_ENDPOINT_URL": server.URL,
		"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2", "EC2_LAUNCH_TEMPLATE": "reelay", "AGENT_COMMAND": agentCommand})
	c.pool.Region, c.pool.Zones, c.pool.MachineType = "us-east-1", []string{"us-east-1b", "us-east-1a"}, "g6.xlarge"
	api.do(t, url.Values{"Action": {"CreateLaunchTemplate"}, "LaunchTemplateName": {"reelay"},
		"LaunchTemplateData.ImageId": {"ami-12c6146b"}})
	return c, api
}

// do calls moto as another user of the account does.
func (a *ec2API) do(t *testing.T, values url.Values) string {
	t.Helper()
	values.Set("Version", "2016-11-15")
	r, err := http.NewRequest("POST", a.url.String(), strings.NewReader(values.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20261129/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(body))
	return string(body)
}

func (a *ec2API) rude(action string, faults ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults[action] = faults
}

// runs returns the requests that create.
func (a *ec2API) runs() (all []url.Values) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, call := range a.calls {
		if call.Get("Action") == "RunInstances" {
			all = append(all, call)
		}
	}
	return all
}

func (a *ec2API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	values, _ := url.ParseQuery(string(text))
	a.mu.Lock()
	fault, rest := "", a.faults[values.Get("Action")]
	if len(rest) > 0 {
		fault, a.faults[values.Get("Action")] = rest[0], rest[1:]
	}
	a.calls = append(a.calls, values)
	a.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(text)))
	switch code, message, _ := strings.Cut(fault, " "); code {
	case "":
		a.real.ServeHTTP(w, r)
	case "hang":
		_ = os.WriteFile(a.hanging, nil, 0o600)
		<-r.Context().Done() // until the program is killed
	case "lost":
		a.real.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case "html":
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "<html><body>Sign in to the network<br></body>")
	default:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `<?xml version="1.0"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors></Response>`, code, message)
	}
}

var instanceOf = regexp.MustCompile(`<instanceId>(i-[0-9a-f]+)</instanceId>`)

// Not parallel: its programs take seconds of CPU, and a list is killed after 10 seconds.
func TestEC2(t *testing.T) {
	moto := startMoto(t)

	t.Run("ConformsToTheProtocol", func(t *testing.T) {
		c, _ := startEC2(t, moto)

		report, err := conformWithin(t, c, 30*time.Second, `"options": {}, "timeoutSeconds": 60`)

		require.NoError(t, err)
		require.Empty(t, wrong(report))
	})

	t.Run("CreatesASpotInstance", func(t *testing.T) {
		c, api := startEC2(t, moto)
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		arguments := strings.Join(fleet.AgentArguments("command", c.pool, "spot-0000000a"), " ")
		c.pool.CapacityClass, c.pool.Zones = models.CapacityOnDemand, nil
		require.NoError(t, c.create(t, "spot-0000000b")[0].Err)

		spot, demand := api.runs()[0], api.runs()[1]

		require.Equal(t, "spot", spot.Get("InstanceMarketOptions.MarketType"))
		require.Equal(t, "terminate", spot.Get("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior"))
		require.Equal(t, "us-east-1b", spot.Get("Placement.AvailabilityZone"))
		require.Equal(t, "reelay", spot.Get("LaunchTemplate.LaunchTemplateName"))
		require.False(t, demand.Has("InstanceMarketOptions.MarketType") || demand.Has("Placement.AvailabilityZone"))
		script, err := base64.StdEncoding.DecodeString(spot.Get("UserData"))
		require.NoError(t, err)
		require.Equal(t, "#!/bin/sh\nexport REELAY_API_KEY="+c.key+"\nexport REELAY_ENDPOINT=https://reelay.example\nexec "+agentCommand+" "+
			arguments+"\n", string(script))
		require.Equal(t, c.wanted(), boot(t, string(script)))
		require.ElementsMatch(t, []string{"spot-0000000a RUNNING", "spot-0000000b RUNNING"}, c.ids(t))
		c.delete(t, "spot-0000000a", "spot-0000000a", "spot-0000dead")
		require.ElementsMatch(t, []string{"spot-0000000a ENDED", "spot-0000000b RUNNING"}, c.ids(t))
	})

	t.Run("CreatesOnceWhateverIsAnswered", func(t *testing.T) {
		c, api := startEC2(t, moto)
		api.rude("RunInstances", "lost", "lost")
		api.rude("DescribeInstances", "", "html") // and the list that follows

		require.Equal(t, fleet.Transient, fleet.ClassOf(c.create(t, "spot-0000000a")[0].Err))
		require.Equal(t, fleet.Transient, fleet.ClassOf(c.create(t, "spot-0000000a")[0].Err))
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)

		tokens := map[string]bool{}
		for _, run := range api.runs() {
			require.LessOrEqual(t, len(run.Get("ClientToken")), 64)
			tokens[run.Get("ClientToken")] = true
		}
		require.Len(t, tokens, 1, "EC2 makes one machine of a token; moto knows none")
		require.Equal(t, []string{"spot-0000000a RUNNING"}, c.ids(t))
		c.delete(t, "spot-0000000a")
		require.Equal(t, []string{"spot-0000000a ENDED"}, c.ids(t), "all of the name are ended")
		api.rude("RunInstances", "IdempotentParameterMismatch The token was used with other parameters")
		require.NoError(t, c.create(t, "spot-0000000b")[0].Err, "it exists, with the user data of an older key")
	})

	t.Run("KeepsTheAnswersOfACallThatIsKilled", func(t *testing.T) {
		c, api := startEC2(t, moto)
		api.hanging = filepath.Join(c.folder, "hanging")
		api.rude("RunInstances", "", "hang")

		all := c.interrupted(t, "spot-0000000a", "spot-0000000b")

		require.NoError(t, all[0].Err)
		require.Equal(t, fleet.Transient, fleet.ClassOf(all[1].Err), all[1].Err)
	})

	t.Run("TerminatesAStoppedInstance", func(t *testing.T) {
		c, api := startEC2(t, moto)
		c.pool.CapacityClass = models.CapacityOnDemand
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		body := api.do(t, url.Values{"Action": {"DescribeInstances"}})
		api.do(t, url.Values{"Action": {"StopInstances"}, "InstanceId.1": {instanceOf.FindStringSubmatch(body)[1]}})
		require.Equal(t, []string{"spot-0000000a ENDED"}, c.ids(t))
		require.Contains(t, api.do(t, url.Values{"Action": {"DescribeInstances"}}), "<name>stopped</name>")

		c.delete(t, "spot-0000000a")

		require.Contains(t, api.do(t, url.Values{"Action": {"DescribeInstances"}}), "<name>terminated</name>")
	})

	t.Run("KnowsAMachineThatAPersonRenamed", func(t *testing.T) {
		c, api := startEC2(t, moto)
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		body := api.do(t, url.Values{"Action": {"DescribeInstances"}})
		api.do(t, url.Values{"Action": {"CreateTags"}, "ResourceId.1": {instanceOf.FindStringSubmatch(body)[1]}, "Tag.1.Key": {"Name"}, "Tag.1.Value": {""}})
		for _, id := range []string{"none", "", "web"} { // machines of a person who copied a tag
			values := url.Values{"Action": {"RunInstances"}, "ImageId": {"ami-12c6146b"}, "MinCount": {"1"}, "MaxCount": {"1"},
				"TagSpecification.1.ResourceType": {"instance"}, "TagSpecification.1.Tag.1.Key": {"reelay-pool"}, "TagSpecification.1.Tag.1.Value": {"spot"}}
			if id != "none" {
				values.Set("TagSpecification.1.Tag.2.Key", "reelay-id")
				values.Set("TagSpecification.1.Tag.2.Value", id)
			}
			api.do(t, values)
		}

		require.Equal(t, []string{"spot-0000000a RUNNING"}, c.ids(t))
		c.delete(t, "spot-0000000a")

		require.Equal(t, 1, strings.Count(api.do(t, url.Values{"Action": {"DescribeInstances"}}), "<name>terminated</name>"))
	})

	t.Run("TriesTheZonesInOrder", func(t *testing.T) {
		c, api := startEC2(t, moto)
		sold := "InsufficientInstanceCapacity We currently do not have sufficient g6.xlarge capacity in the zone you requested (us-east-1b). " +
			"You can currently get g6.xlarge capacity by not specifying a zone in your request or choosing us-east-1c, us-east-1d."
		api.rude("RunInstances", sold)

		require.Equal(t, fleet.Created{ID: "spot-0000000a", Zone: "us-east-1a"}, c.create(t, "spot-0000000a")[0])

		api.rude("RunInstances", sold, sold)
		err := c.create(t, "spot-0000000b")[0].Err
		require.Equal(t, fleet.Stockout, fleet.ClassOf(err))
		var refused *fleet.ProviderError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, []string{"us-east-1c", "us-east-1d"}, refused.ZonesAvailable)
	})

	t.Run("TriesTheOtherZonesOfATypeThatOneLacks", func(t *testing.T) {
		c, api := startEC2(t, moto)
		c.pool.Zones = []string{"us-east-1e", "us-east-1b", "us-east-1a"}
		lacks := "Unsupported Your requested instance type (g6.xlarge) is not supported in your requested Availability Zone (us-east-1e)."
		full := "InsufficientFreeAddressesInSubnet There are not enough free addresses in subnet 'subnet-1'."
		sold := "InsufficientInstanceCapacity We currently do not have sufficient g6.xlarge capacity."

		api.rude("RunInstances", lacks, full)
		require.Equal(t, fleet.Created{ID: "spot-0000000a", Zone: "us-east-1a"}, c.create(t, "spot-0000000a")[0])

		for _, refused := range []struct {
			faults [3]string
			class  fleet.ErrorClass
			says   string
		}{
			{[3]string{lacks, sold, full}, fleet.Stockout, "sufficient g6.xlarge capacity"},
			{[3]string{sold + " Try choosing us-east-1c.", sold, lacks}, fleet.Stockout, "choosing us-east-1c"},
			{[3]string{lacks, full, lacks}, fleet.Quota, "free addresses"},
			{[3]string{lacks, lacks, lacks}, fleet.Invalid, "is not supported"},
		} {
			api.rude("RunInstances", refused.faults[:]...)
			err := c.create(t, "spot-0000000b")[0].Err
			require.Equal(t, refused.class, fleet.ClassOf(err), err)
			require.ErrorContains(t, err, refused.says)
		}
		before := len(api.runs())
		api.rude("RunInstances", lacks, "UnauthorizedOperation You are not authorized")
		require.Equal(t, fleet.Permission, fleet.ClassOf(c.create(t, "spot-0000000b")[0].Err))
		require.Len(t, api.runs(), before+2, "no zone can mend this")
	})

	t.Run("SaysWhatIsWrong", func(t *testing.T) {
		c, api := startEC2(t, moto)
		c.pool.Zones = nil
		for fault, class := range map[string]fleet.ErrorClass{
			"MaxSpotInstanceCountExceeded Max spot instance count exceeded": fleet.Quota,
			"VcpuLimitExceeded You have requested more vCPU capacity":       fleet.Quota,
			"SpotMaxPriceTooLow Your Spot request price is lower":           fleet.Stockout,
			"UnauthorizedOperation You are not authorized":                  fleet.Permission,
			"InvalidParameterValue The machine image is not valid":          fleet.Invalid,
			"Unsupported The requested configuration is not supported":      fleet.Invalid,
			"InternalError An internal error has occurred":                  fleet.Transient,
		} {
			api.rude("RunInstances", fault, fault, fault)
			err := c.create(t, "spot-0000000a")[0].Err
			require.Equal(t, class, fleet.ClassOf(err), err)
			require.ErrorContains(t, err, strings.Fields(fault)[0])
		}
		for fault, class := range map[string]fleet.ErrorClass{
			"RequestExpired Request has expired":                 fleet.Permission,
			"InvalidClientTokenId The security token is invalid": fleet.Permission,
			"AuthFailure AWS was not able to validate":           fleet.Permission,
			"RequestLimitExceeded Request limit exceeded":        fleet.Transient,
			"html": fleet.Transient,
		} {
			api.rude("DescribeInstances", fault, fault, fault)
			_, err := c.List(t.Context(), c.pool)
			require.Equal(t, class, fleet.ClassOf(err), err)
		}
	})

	t.Run("ListsAllPages", func(t *testing.T) {
		c, api := startEC2(t, moto)
		c.pool.Zones = nil
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		body := api.do(t, url.Values{"Action": {"DescribeInstances"}})
		require.Regexp(t, regexp.MustCompile(`reelay-pool`), body)
		page := strings.Replace(body, "</DescribeInstancesResponse>", "<nextToken>more</nextToken></DescribeInstancesResponse>", 1)
		api.mu.Lock()
		real := api.real
		api.real = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(text)))
			if strings.Contains(string(text), "NextToken=more") {
				_, _ = io.WriteString(w, strings.ReplaceAll(body, "spot-0000000a", "spot-0000000f"))
				return
			}
			if strings.Contains(string(text), "DescribeInstances") {
				_, _ = io.WriteString(w, page)
				return
			}
			real.ServeHTTP(w, r)
		})
		api.mu.Unlock()

		require.ElementsMatch(t, []string{"spot-0000000a RUNNING", "spot-0000000f RUNNING"}, c.ids(t))
	})

	t.Run("NeedsCredentials", func(t *testing.T) {
		c, _ := startEC2(t, moto)
		program := filepath.Join(c.folder, "ec2-spot")
		script := c.read(t, "ec2-spot")
		require.NoError(t, os.WriteFile(program, []byte(strings.Replace(script, "exec ", "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY\n"+
			"export AWS_EC2_METADATA_DISABLED=true HOME=/nonexistent\nexec ", 1)), 0o700))

		_, err := c.List(t.Context(), c.pool)

		require.Equal(t, fleet.Permission, fleet.ClassOf(err), err)
	})
}
