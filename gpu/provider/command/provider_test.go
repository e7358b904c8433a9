package command_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestCreate(t *testing.T) {
	t.Parallel()

	t.Run("GivesTheProgramARequestAndReadsAResultPerInstance", func(t *testing.T) {
		t.Parallel()
		c := setup(t, `cat >request; env >env; printf %s "$*" >arguments
			echo '{"id": "spot-0000000b", "error": {"class": "STOCKOUT", "message": "none left", "zonesAvailable": ["eu-1c"]}}'
			echo '{"id": "spot-0000000a", "zone": "eu-1b"}'`)

		all := c.create(t, "spot-0000000a", "spot-0000000b")

		require.Equal(t, fleet.Created{ID: "spot-0000000a", Zone: "eu-1b"}, all[0])
		require.EqualError(t, all[1].Err, "none left")
		require.Equal(t, fleet.Stockout, fleet.ClassOf(all[1].Err))
		require.Equal(t, []string{"eu-1c"}, all[1].Err.(*fleet.ProviderError).ZonesAvailable)
		require.Equal(t, "create", c.read(t, "arguments"))
		require.JSONEq(t, `{"verb": "create", "requestId": "request-1", "options": {"size": 2},
			"environment": {"REELAY_ENDPOINT": "https://reelay.example", "REELAY_API_KEY": "`+c.key+`"},
			"pool": {"id": "`+string(c.pool.ID)+`", "name": "spot", "region": "eu-1", "zones": ["eu-1a"], "machineType": "big", "gpuType": "L4",
				"capacityClass": "SPOT", "models": ["testcard", "other"]},
			"instances": [`+instance(c.pool, "spot-0000000a")+`, `+instance(c.pool, "spot-0000000b")+`]}`, c.read(t, "request"))
		require.Contains(t, c.read(t, "env"), "CLOUD_TOKEN=mine")
		require.NotContains(t, c.read(t, "env"), "hunter2")
		require.NotContains(t, c.read(t, "env"), c.key)
	})

	for name, f := range map[string]struct {
		script string
		class  fleet.ErrorClass
		says   string
	}{
		"nothing":                {`:`, fleet.Transient, "ended without a result for this instance"},
		"nonsense":               {`echo Hello`, fleet.Transient, "a line of its output is not the JSON object of one instance"},
		"an unknown field":       {`echo '{"id": "spot-0000000b", "zoone": ""}'`, fleet.Transient, "zoone"},
		"two objects in a line":  {`echo '{"id": "spot-0000000b"} {"id": "spot-0000000b"}'`, fleet.Transient, "something follows the object"},
		"an id of another":       {`echo '{"id": "spot-000000ff"}'`, fleet.Transient, "names the instance spot-000000ff, which was not asked for"},
		"an unknown class":       {`echo '{"id": "spot-0000000b", "error": {"class": "BAD", "message": "x"}}'`, fleet.Transient, `class "BAD"`},
		"gone":                   {`echo '{"id": "spot-0000000b", "error": {"class": "GONE", "message": "x"}}'`, fleet.Transient, `class "GONE"`},
		"an error without words": {`echo '{"id": "spot-0000000b", "error": {"class": "QUOTA"}}'`, fleet.Quota, "gave no message"},
		"the key in an error":    {`read -r r; k=${r#*REELAY_API_KEY\":\"}; echo "{\"id\": \"spot-0000000b\", \"error\": {\"class\": \"QUOTA\", \"message\": \"${k%%\"*}\"}}"`, fleet.Quota, "[key]"},
		"a status of a class":    {`echo no quota >&2; exit 11`, fleet.Quota, "ended with the status 11: no quota"},
		"another status":         {`exit 1`, fleet.Transient, "ended with the status 1"},
		"no such verb":           {`exit 14`, fleet.Invalid, "does not know the verb create"},
		"death":                  {`kill -9 $$`, fleet.Transient, "was ended by the signal killed"},
		"an endless line":        {`cat /dev/zero`, fleet.Transient, "wrote more than 20000 lines or 8 MiB"},
		"endless lines":          {`yes`, fleet.Transient, "wrote more than 20000 lines or 8 MiB"},
	} {
		t.Run("KeepsWhatIsDoneOnFault/"+name, func(t *testing.T) {
			t.Parallel()
			c := setup(t, `echo '{"id": "spot-0000000a"}'; `+f.script)

			all := c.create(t, "spot-0000000a", "spot-0000000b")

			require.NoError(t, all[0].Err)
			require.ErrorContains(t, all[1].Err, f.says)
			require.Equal(t, f.class, fleet.ClassOf(all[1].Err))
			require.NotContains(t, all[1].Err.Error(), c.key)
			require.Less(t, len(all[1].Err.Error()), 1000)
		})
	}

	t.Run("KillsAProgramThatHangsAndIgnoresSIGTERM", func(t *testing.T) {
		t.Parallel()
		c := setup(t, `trap '' TERM; echo '{"id": "spot-0000000a"}'; sleep 1000 & echo $! >child; while :; do sleep 1000; done`)
		c.pool.Settings = []byte(`{"program": "cloud", "timeoutSeconds": 1}`)

		all := c.create(t, "spot-0000000a", "spot-0000000b")

		require.NoError(t, all[0].Err)
		require.ErrorContains(t, all[1].Err, "the program cloud was killed because its create took longer than 1s")
		child, err := strconv.Atoi(strings.TrimSpace(c.read(t, "child")))
		require.NoError(t, err)
		testrun.Eventually(t, "the program's child is gone", func() bool { return ended(child) })
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()
		c := setup(t, `sleep 1000`)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()

		all := c.Create(ctx, c.pool, "", []string{"spot-0000000a"})

		require.ErrorContains(t, all[0].Err, "control did not wait for its create any longer")
	})

	t.Run("DoesNotWaitForAProgramThatLeavesItsInputUnread", func(t *testing.T) {
		t.Parallel()
		c := setup(t, `echo '{"id": "spot-0000000a"}'`)
		c.pool.Models = []string{strings.Repeat("m", 1<<20)}

		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
	})

	t.Run("NeedsAProgramAndAKey", func(t *testing.T) {
		t.Parallel()
		c := setup(t, `:`)
		require.NoError(t, os.Mkdir(filepath.Join(c.folder, "folder"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(c.folder, "data"), nil, 0o600))
		testrun.WriteProgram(t, filepath.Join(c.folder, "broken"), "#!/no/such/interpreter\n")
		for program, want := range map[string]fleet.ErrorClass{"none": fleet.Invalid, "folder": fleet.Invalid, "data": fleet.Permission,
			"broken": fleet.Permission} {
			c.pool.Settings = []byte(`{"program": "` + program + `"}`)
			err := c.create(t, "spot-0000000a")[0].Err
			require.Equal(t, want, fleet.ClassOf(err), "%s: %v", program, err)
			require.NotContains(t, err.Error(), c.folder)
		}

		keyless := command.New(command.Config{Folder: c.folder, Enrolment: fleet.Enrolment{Endpoint: "https://reelay.example"}})
		err := keyless.Create(t.Context(), c.pool, "", []string{"spot-0000000a"})[0].Err
		require.ErrorContains(t, err, "REELAY_AGENT_KEY_FILE")
		require.Equal(t, fleet.Permission, fleet.ClassOf(err))
	})
}

// instance is an instance of the request of a create.
func instance(pool *capacity.Pool, id string) string {
	return `{"id": "` + id + `", "arguments": ["` + strings.Join(fleet.AgentArguments("command", pool, id), `", "`) + `"]}`
}

// ended reports whether a process does not run any more. Its parent is gone, too, so it may stay
// a zombie where no init collects it.
func ended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil {
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "Z")
	}
	return syscall.Kill(pid, 0) == syscall.ESRCH
}

func TestList(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsThePoolsMachines", func(t *testing.T) {
		t.Parallel()
		c := setup(t, `cat >request
			echo '{"id": "spot-0000000a", "zone": "eu-1a", "state": "BOOTING", "createdAt": "2026-11-25T12:00:00Z"}'
			echo; echo '{"id": "spot-0000000b", "state": "ENDED", "reclaimed": true}'
			echo '{"id": "spot-large-c", "state": "RUNNING"}'; echo '{"id": "other", "state": "RUNNING"}'; echo '{"id": "spot-", "state": "RUNNING"}'
			echo '{"id": "spot-dev", "state": "RUNNING"}'`)

		for range 3 {
			all, err := c.List(t.Context(), c.pool)

			require.NoError(t, err)
			require.Equal(t, []fleet.Instance{
				{ID: "spot-0000000a", Zone: "eu-1a", State: fleet.InstanceBooting, CreatedAt: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)},
				{ID: "spot-0000000b", State: fleet.InstanceEnded, Reclaimed: true},
			}, all)
		}
		require.NotContains(t, c.read(t, "request"), c.key, "only create needs the key")
		log := strings.Join(logged.about("cloud"), "")
		require.Equal(t, 1, strings.Count(log, "machines that are not the pool's"), log)
	})

	for name, f := range map[string]struct{ script, says string }{
		"nonsense":         {`echo Hello`, "the list of the program cloud cannot be used (a line of its output is not the JSON object"},
		"an unknown state": {`echo '{"id": "spot-0000000b", "state": "UP"}'`, `state "UP"`},
		"no id":            {`echo '{"state": "RUNNING"}'`, "no id"},
		"an error":         {`echo '{"id": "spot-0000000b", "state": "RUNNING", "error": {"class": "QUOTA"}}'`, "has an error"},
		"a machine twice":  {`echo '{"id": "spot-0000000a", "state": "RUNNING"}'`, "two lines for the instance spot-0000000a"},
		"a cut line":       {`printf '{"id": "spot-0000000b", "sta'`, "unexpected EOF"},
		"a status":         {`exit 3`, "ended with the status 3"},
		"death":            {`kill -9 $$`, "the signal killed"},
		"endless lines":    {`yes`, "wrote more than"},
	} {
		t.Run("IsWholeOrAnError/"+name, func(t *testing.T) {
			t.Parallel()
			c := setup(t, `echo '{"id": "spot-0000000a", "state": "RUNNING"}'; `+f.script)

			all, err := c.List(t.Context(), c.pool)

			require.ErrorContains(t, err, f.says)
			require.Equal(t, fleet.Transient, fleet.ClassOf(err))
			require.Nil(t, all, "a machine that is left out counts as gone")
		})
	}
}

func TestDeleteAndPreempt(t *testing.T) {
	t.Parallel()

	c := setup(t, `cat >$1
		case $1 in
		delete) echo '{"id": "spot-0000000a"}'; echo '{"id": "spot-0000000b", "error": {"class": "PERMISSION", "message": "not yours"}}' ;;
		preempt) grep -q spot-0000000a preempt || echo '{"id": "spot-0000000b", "error": {"class": "GONE"}}'; grep -q spot-0000000b preempt || echo '{"id": "spot-0000000a"}' ;;
		esac`)
	a, b := fleet.Instance{ID: "spot-0000000a", Zone: "eu-1b"}, fleet.Instance{ID: "spot-0000000b"}

	failed := c.Delete(t.Context(), c.pool, []fleet.Instance{a, b})

	require.Len(t, failed, 1)
	require.EqualError(t, failed["spot-0000000b"], "not yours")
	require.Equal(t, fleet.Permission, fleet.ClassOf(failed["spot-0000000b"]))
	require.Contains(t, c.read(t, "delete"), `"instances":[{"id":"spot-0000000a","zone":"eu-1b"},{"id":"spot-0000000b"}]`)
	require.NoError(t, c.Preempt(t.Context(), c.pool, a, 30*time.Second))
	require.Contains(t, c.read(t, "preempt"), `"noticeSeconds":30`)
	require.ErrorIs(t, c.Preempt(t.Context(), c.pool, b, 0), fleet.ErrNoInstance)

	c = setup(t, `exit 14`)
	err := c.Preempt(t.Context(), c.pool, a, 0)
	require.ErrorContains(t, err, "does not know the verb preempt")
	require.Equal(t, fleet.Invalid, fleet.ClassOf(err))
	require.ErrorContains(t, c.Delete(t.Context(), c.pool, []fleet.Instance{a})["spot-0000000a"], "does not know the verb delete")
}

func TestLog(t *testing.T) {
	t.Parallel()

	c := setupIn(t, t.TempDir(), "chatty")
	testrun.WriteProgram(t, filepath.Join(c.folder, "chatty"),
		"#!/bin/sh\nsed s/.*environment// >&2\ni=0; while [ $i -lt 1000 ]; do echo $i >&2; i=$((i+1)); done\nhead -c 100000 /dev/zero | tr '\\0' x >&2\n")

	for range 2 {
		c.create(t, "spot-0000000a")
	}

	lines := logged.about("chatty")
	require.GreaterOrEqual(t, len(lines), 20)
	require.Less(t, len(lines), 40)
	all := strings.Join(lines, "")
	require.NotContains(t, all, c.key)
	require.Contains(t, all, "[key]")
	require.Contains(t, all, "verb=create pool=spot")
}

func TestCheckPool(t *testing.T) {
	t.Parallel()

	for settings, says := range map[string]string{
		`{"program": "docker-compose"}`:                                        "",
		`{"program": "a.b_c-1", "options": {"a": [1]}, "timeoutSeconds": 120}`: "",
		`{"program": "docker-compose", "options": null}`:                       "",
		`{}`:                     "settings.program must be the name of a file",
		`{"program": ""}`:        "settings.program must",
		`{"program": "../sh"}`:   "settings.program must",
		`{"program": "/bin/sh"}`: "settings.program must",
		`{"program": ".."}`:      "settings.program must",
		`{"program": ".hidden"}`: "settings.program must",
		`{"program": "-c"}`:      "settings.program must",
		`{"program": "a b"}`:     "settings.program must",
		`{"program": "a\u0000"}`: "settings.program must",
		`{"program": "` + strings.Repeat("a", 65) + `"}`: "settings.program must",
		`{"program": ["sh", "-c"]}`:                      "settings.program must be a text; it is a list",
		`{"program": "a", "options": "x"}`:               "settings.options must be a JSON object",
		`{"program": "a", "options": []}`:                "settings.options must be a JSON object",
		`{"program": "a", "timeoutSeconds": -1}`:         "settings.timeoutSeconds must be from 1 to 120",
		`{"program": "a", "timeoutSeconds": 121}`:        "settings.timeoutSeconds must be from 1 to 120",
		`{"program": "a", "timeoutSeconds": 1.5}`:        "settings.timeoutSeconds must be a whole number; it is 1.5",
		`{"program": "a", "arguments": ["-c"]}`:          `settings have no field "arguments"`,
		`"a"`:                                            "settings must be a JSON object",
	} {
		err := command.CheckPool(&capacity.Pool{PoolSpec: capacity.PoolSpec{Settings: []byte(settings)}})

		if says == "" {
			require.NoError(t, err, settings)
			continue
		}
		require.ErrorContains(t, err, says, settings)
		require.True(t, apierror.HasCode(err, apierror.CodeInvalidInput), settings)
	}
	require.ErrorContains(t, command.CheckPool(&capacity.Pool{}), "settings.program must")
}
