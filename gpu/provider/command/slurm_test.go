package command_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// slurmAgent notes how it was started, and which signals it gets.
const slurmAgent = `#!/bin/sh
cd "${0%/*}"
echo "$REELAY_ENDPOINT $REELAY_API_KEY $REELAY_AGENT_NOTICE $*" >>started
trap 'echo "$6" >>noticed; exit 0' TERM
sleep 1000 &
wait
`

// slurmCluster starts a real Slurm of one node with 2 CPUs and 2 GPUs, which are files. Its partition spot, the default one, is
// preempted by jobs of the partition owner.
func slurmCluster(t *testing.T, options string) *cloud {
	t.Helper()
	if os.Getenv("REELAY_TEST_CLOUDS") == "" {
		t.Skip("takes minutes, and needs Slurm and root: `go tool task test:slurm` installs it, and runs this test")
	}
	// A socket's path is short.
	dir, err := os.MkdirTemp("/tmp", "slurm")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	write("munge.key", rand.Text()+rand.Text()+rand.Text(), 0o600)
	write("gpu0", "", 0o600)
	write("gpu1", "", 0o600)
	write("gres.conf", "Name=gpu File="+dir+"/gpu[0-1]\n", 0o644)
	write("slurm.conf", fmt.Sprintf(`ClusterName=reelay
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]s
SlurmdPort=%[3]s
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=%[4]s/munge.socket
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/spool
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmdPidFile=%[4]s/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
KillWait=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SchedulerParameters=sched_interval=1,bf_interval=1
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=2 Gres=gpu:2 State=UNKNOWN
PartitionName=spot Nodes=ALL Default=YES MaxTime=600 PriorityTier=1 GraceTime=60
PartitionName=owner Nodes=ALL PriorityTier=10 PreemptMode=OFF
`, host, testrun.FreePort(t), testrun.FreePort(t), dir), 0o644)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "spool"), 0o700))
	start := func(program string, args ...string) {
		daemon := testrun.Command(t, program, args...)
		daemon.Env = append(os.Environ(), "SLURM_CONF="+dir+"/slurm.conf")
		require.NoError(t, daemon.Start())
	}
	start("munged", "--foreground", "--force", "--socket="+dir+"/munge.socket", "--key-file="+dir+"/munge.key",
		"--pid-file="+dir+"/munge.pid", "--seed-file="+dir+"/munge.seed", "--log-file="+dir+"/munge.log")
	testrun.Eventually(t, "munged listens", func() bool { _, err := os.Stat(dir + "/munge.socket"); return err == nil })
	start("slurmctld", "-D", "-c")
	start("slurmd", "-D")

	c := wrapped(t, "slurm", options, map[string]string{"SLURM_CONF": dir + "/slurm.conf", "AGENT_COMMAND": dir + "/agent"})
	c.pool.MachineType = ""
	testrun.WriteProgram(t, filepath.Join(dir, "agent"), slurmAgent)
	require.NoError(t, os.Symlink(dir, filepath.Join(c.folder, "slurm.d")))
	testrun.Eventually(t, "the node is idle", func() bool { return strings.Contains(c.slurm(t, "sinfo", "--noheader", "-o", "%T"), "idle") })
	return c
}

// endJobs ends all jobs, which outlive the daemons otherwise. It must be deferred: at a cleanup the daemons have been killed.
func (c *cloud) endJobs(t *testing.T) {
	t.Helper()
	c.slurm(t, "scancel", "--signal=KILL", "--full", "--user=root")
	c.slurm(t, "scancel", "--user=root")
	testrun.Eventually(t, "all jobs end", func() bool { return c.slurm(t, "squeue", "--noheader") == "" })
}

// slurm runs a command of Slurm, and returns its output.
func (c *cloud) slurm(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+filepath.Join(c.folder, "slurm.d", "slurm.conf"))
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func (c *cloud) awaits(t *testing.T, what, file string) {
	t.Helper()
	testrun.Eventually(t, what, func() bool { _, err := os.Stat(filepath.Join(c.folder, "slurm.d", file)); return err == nil })
}

func TestSlurm(t *testing.T) {
	t.Parallel()

	t.Run("ConformsToTheProtocol", func(t *testing.T) {
		t.Parallel()
		c := slurmCluster(t, `{}`)
		defer c.endJobs(t)

		report, err := conformWithin(t, c, 30*time.Second, `"options": {"queueSeconds": 10}, "timeoutSeconds": 30`)

		require.NoError(t, err)
		require.Empty(t, wrong(report))
	})

	t.Run("RunsTheAgentOfAJob", func(t *testing.T) {
		t.Parallel()
		c := slurmCluster(t, `{"minutes": 30}`)
		defer c.endJobs(t)

		for range 2 {
			require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		}
		c.awaits(t, "the agent starts", "started")

		started := c.read(t, "slurm.d/started")
		require.Equal(t, "https://reelay.example "+c.key+" 110s "+strings.Join(fleet.AgentArguments("command", c.pool, "spot-0000000a"), " ")+"\n", started)
		shown := c.slurm(t, "scontrol", "show", "job")
		require.NotContains(t, shown, c.key, "all users can read it")
		require.Contains(t, shown, "TimeLimit=00:30:00")
		require.Contains(t, shown, "Requeue=0")
		require.Equal(t, []string{"spot-0000000a RUNNING"}, c.ids(t))
		all, err := c.List(t.Context(), c.pool)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), all[0].CreatedAt, 5*time.Minute)
		c.delete(t, "spot-0000000a", "spot-0000000a", "spot-0000dead")
		testrun.Eventually(t, "the job ends", func() bool { return c.ids(t)[0] == "spot-0000000a ENDED" })
	})

	t.Run("GivesNoticeOfAPreemption", func(t *testing.T) {
		t.Parallel()
		c := slurmCluster(t, `{"gpus": 2}`)
		defer c.endJobs(t)
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
		c.awaits(t, "the agent starts", "started")

		c.slurm(t, "sbatch", "--partition=owner", "--gres=gpu:2", "--output=/dev/null", "--chdir=/tmp", "--wrap=sleep 1000")

		c.awaits(t, "the agent gets SIGTERM when the grace time begins", "noticed")
		testrun.Eventually(t, "the list says so", func() bool {
			all, err := c.List(t.Context(), c.pool)
			require.NoError(t, err)
			return all[0].State == fleet.InstanceEnded && all[0].Reclaimed
		})
		taken := c.create(t, "spot-0000000b")[0].Err
		require.Equal(t, fleet.Stockout, fleet.ClassOf(taken), taken)
		require.NotContains(t, c.ids(t), "spot-0000000b BOOTING", "it does not wait in the queue")
	})

	t.Run("LeavesJobsOfOthersAlone", func(t *testing.T) {
		t.Parallel()
		c := slurmCluster(t, `{}`)
		defer c.endJobs(t)
		c.slurm(t, "sbatch", "--job-name=spot-000000ff", "--comment=reelay-other", "--output=/dev/null", "--wrap=sleep 1000")
		c.slurm(t, "sbatch", "--job-name=spot-000000ff", "--output=/dev/null", "--wrap=sleep 1000")

		require.Empty(t, c.ids(t))
		c.delete(t, "spot-000000ff")

		require.Equal(t, 2, strings.Count(c.slurm(t, "squeue", "--noheader", "-o", "%j"), "spot-000000ff"))
	})

	t.Run("RunsOneOfTwoJobsOfAName", func(t *testing.T) {
		t.Parallel()
		c := slurmCluster(t, `{}`)
		defer c.endJobs(t)
		for range 2 { // as two lost answers leave them
			c.slurm(t, "sbatch", "--job-name=spot-0000000a", "--comment=reelay-spot", "--dependency=singleton", "--output=/dev/null", "--wrap=sleep 1000")
		}

		testrun.Eventually(t, "one runs", func() bool { return c.ids(t)[0] == "spot-0000000a RUNNING" })
		c.delete(t, "spot-0000000a")

		testrun.Eventually(t, "both end", func() bool { return !strings.Contains(c.slurm(t, "squeue", "--noheader", "-o", "%j"), "spot-0000000a") })
	})

	t.Run("SaysWhatIsWrong", func(t *testing.T) {
		t.Parallel()
		c := slurmCluster(t, `{"gpus": 9}`)
		require.Equal(t, fleet.Invalid, fleet.ClassOf(c.create(t, "spot-0000000a")[0].Err))
		c.pool.MachineType = "nowhere"
		require.ErrorContains(t, c.create(t, "spot-0000000a")[0].Err, "Invalid partition name")
		c.pool.MachineType = "spot --uid=0"
		require.Equal(t, fleet.Invalid, fleet.ClassOf(c.create(t, "spot-0000000a")[0].Err))
		c.pool.MachineType = ""
		require.NoError(t, os.Remove(filepath.Join(c.folder, "slurm.d", "slurm.conf")))
		_, err := c.List(t.Context(), c.pool)
		require.Equal(t, fleet.Transient, fleet.ClassOf(err))
	})
}

// fakeSlurm makes a provider with an imitation of Slurm whose jobs wait: each is a file of the folder jobs, whose text is its
// state. A scancel finds that the job spot-0000000b has just started.
func fakeSlurm(t *testing.T, options string) *cloud {
	t.Helper()
	c := wrapped(t, "slurm", options, map[string]string{"PATH": "bin:" + os.Getenv("PATH"), "AGENT_COMMAND": "agent"})
	c.pool.MachineType = ""
	require.NoError(t, os.MkdirAll(filepath.Join(c.folder, "jobs"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(c.folder, "bin"), 0o700))
	testrun.WriteProgram(t, filepath.Join(c.folder, "bin/sbatch"), `#!/bin/sh
case $2 in `+stuck+`) >hanging; exec sleep 1000 ;; esac
echo PENDING >"jobs/$2"
`)
	testrun.WriteProgram(t, filepath.Join(c.folder, "bin/squeue"), `#!/bin/sh
cd jobs
separator=
printf '{"jobs": ['
for job in *; do
	[ -e "$job" ] || continue
	printf '%s{"name": "%s", "job_id": "%s", "job_state": "%s", "comment": "reelay-spot", "user_id": %s, "submit_time": 1, "state_reason": "Resources"}' \
		"$separator" "$job" "$job" "$(cat "$job")" "$(id -u)"
	separator=,
done
echo ']}'
`)
	testrun.WriteProgram(t, filepath.Join(c.folder, "bin/scancel"), `#!/bin/sh
cd jobs
[ ! -e spot-0000000b ] || echo RUNNING >spot-0000000b
for job; do
	[ -e "$job" ] || continue
	case "$*" in *--state=PENDING*) grep -q PENDING "$job" || continue ;; esac
	echo CANCELLED >"$job"
done
`)
	return c
}

// TestSlurmStarts has jobs that start while the program gives up.
func TestSlurmStarts(t *testing.T) {
	t.Parallel()
	c := fakeSlurm(t, `{"queueSeconds": 1}`)

	all := c.create(t, "spot-0000000a", "spot-0000000b")

	require.Equal(t, fleet.Stockout, fleet.ClassOf(all[0].Err), all[0].Err)
	require.ErrorContains(t, all[0].Err, "Resources")
	require.NoError(t, all[1].Err, "it has a node now")
	require.ElementsMatch(t, []string{"spot-0000000a ENDED", "spot-0000000b RUNNING"}, c.ids(t))
}

// TestSlurmIsBusy has a squeue that fails after the jobs were submitted.
func TestSlurmIsBusy(t *testing.T) {
	t.Parallel()

	busy := func(t *testing.T, c *cloud, fails string) {
		t.Helper()
		require.NoError(t, os.Rename(filepath.Join(c.folder, "bin/squeue"), filepath.Join(c.folder, "bin/squeue.real")))
		testrun.WriteProgram(t, filepath.Join(c.folder, "bin/squeue"), `#!/bin/sh
echo >>looks
n=$(wc -l <looks)
if `+fails+`; then echo "slurm_load_jobs error: Socket timed out on send/recv operation" >&2; exit 1; fi
exec bin/squeue.real
`)
	}

	t.Run("OneLookFails", func(t *testing.T) {
		t.Parallel()
		c := fakeSlurm(t, `{"queueSeconds": 3}`)
		busy(t, c, "[ $n = 2 ]")

		all := c.create(t, "spot-0000000a", "spot-0000000b")

		require.Equal(t, fleet.Stockout, fleet.ClassOf(all[0].Err), all[0].Err)
		require.NoError(t, all[1].Err)
	})

	t.Run("AllLooksFail", func(t *testing.T) {
		t.Parallel()
		c := fakeSlurm(t, `{"queueSeconds": 3}`)
		busy(t, c, "[ $n != 1 ]")

		for _, result := range c.create(t, "spot-0000000a", "spot-0000000c") {
			require.NoError(t, result.Err, "its job is in the queue, or runs")
		}
		require.Equal(t, "PENDING\n", c.read(t, "jobs/spot-0000000a"), "nothing is cancelled unseen")
		require.Equal(t, 3, strings.Count(c.read(t, "looks"), "\n"), "a look each 2 seconds")
		_, err := c.List(t.Context(), c.pool)
		require.Equal(t, fleet.Transient, fleet.ClassOf(err))
		require.ErrorContains(t, err, "Socket timed out")
	})

	t.Run("TheLastLookFails", func(t *testing.T) {
		t.Parallel()
		c := fakeSlurm(t, `{"queueSeconds": 1}`)
		busy(t, c, "[ $n -gt 2 ]")

		require.NoError(t, c.create(t, "spot-0000000a")[0].Err, "it may have started before it could be cancelled")
	})
}

// TestSlurmOptions refuses what cannot work.
func TestSlurmOptions(t *testing.T) {
	t.Parallel()
	for options, class := range map[string]fleet.ErrorClass{
		`{"minutes": 4, "noticeSeconds": 179, "queueSeconds": 0}`:       "",
		`{"minutes": 2, "noticeSeconds": 0, "queueSeconds": 0}`:         "",
		`{"minutes": 10000, "noticeSeconds": 65535, "queueSeconds": 0}`: "",
		`{"minutes": 4, "noticeSeconds": 180}`:                          fleet.Invalid, // the agent would leave before it had a minute
		`{"minutes": 1}`:                                                fleet.Invalid,
		`{"minutes": 1, "noticeSeconds": 0}`:                            fleet.Invalid,
		`{"minutes": 0}`:                                                fleet.Invalid, // to Slurm, 0 is no limit
		`{"minutes": 0, "noticeSeconds": 0}`:                            fleet.Invalid,
		`{"minutes": 10000, "noticeSeconds": 65536}`:                    fleet.Invalid, // Slurm's signals have 16 bits for it
		`{"minutes": "4"}`:                                              fleet.Invalid,
		`{"minutes": true}`:                                             fleet.Invalid,
		`{"noticeSeconds": -1}`:                                         fleet.Invalid,
		`{"comment": "reelay-other"}`:                                   fleet.Invalid,
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			err := fakeSlurm(t, options).create(t, "spot-0000000a")[0].Err

			if class == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, class, fleet.ClassOf(err), err)
			require.ErrorContains(t, err, "noticeSeconds (<= 65535, < 60 * minutes - 60)")
		})
	}
}

// TestSlurmAnswers reads what squeue writes, of old and new versions.
func TestSlurmAnswers(t *testing.T) {
	t.Parallel()
	job := func(name, state string, more string) string {
		return `{"name": "` + name + `", "job_state": ` + state + `, "job_id": 1, "comment": "reelay-spot", ` + more + `}`
	}
	own := fmt.Sprint(`"user_id": `, os.Getuid())
	old, recent := own+`, "submit_time": 1764000000, "preempt_time": 0`, own+`, "submit_time": {"set": true, "number": 1764000000}`
	for name, c := range map[string]struct {
		out  string
		want []string
		err  string
	}{
		"22.05": {`{"errors": [], "jobs": [` + job("spot-0000000a", `"RUNNING"`, old) + `]}`, []string{"spot-0000000a RUNNING"}, ""},
		"24.11": {`{"warnings": [], "errors": [], "jobs": [` + job("spot-0000000a", `["RUNNING", "COMPLETING"]`, recent) + "," +
			job("spot-0000000b", `["PENDING"]`, recent) + "," + job("spot-0000000c", `["NODE_FAIL"]`, recent) + "," + job("spot-0000000d", `["UNHEARD_OF"]`, recent) +
			`]}`, []string{"spot-0000000a ENDING", "spot-0000000b BOOTING", "spot-0000000c ENDED", "spot-0000000d RUNNING"}, ""},
		"the newer job of a name": {`{"jobs": [` + job("spot-0000000a", `"CANCELLED"`, old) + "," + job("spot-0000000a", `"PENDING"`, old) + `]}`,
			[]string{"spot-0000000a BOOTING"}, ""},
		"another user": {`{"jobs": [` + job("spot-0000000a", `"RUNNING"`, `"user_id": 65533, "submit_time": 1`) + `]}`, nil, ""},
		"errors":       {`{"errors": [{"error": "Unable to contact slurm controller"}], "jobs": []}`, nil, "Unable to contact"},
		"half":         {`{"jobs": [{"name": `, nil, "JSONDecodeError"},
		"nothing":      {``, nil, "JSONDecodeError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := wrapped(t, "slurm", `{}`, map[string]string{"PATH": "bin:" + os.Getenv("PATH"), "AGENT_COMMAND": "agent"})
			p.pool.MachineType = ""
			require.NoError(t, os.Mkdir(filepath.Join(p.folder, "bin"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(p.folder, "out"), []byte(c.out), 0o600))
			for _, tool := range []string{"squeue", "sbatch", "scancel"} {
				testrun.WriteProgram(t, filepath.Join(p.folder, "bin", tool), "#!/bin/sh\ncat out\n")
			}

			all, err := p.List(t.Context(), p.pool)

			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			var ids []string
			for _, i := range all {
				ids = append(ids, i.ID+" "+string(i.State))
				require.Equal(t, i.ID == "spot-0000000c", i.Reclaimed)
			}
			require.Equal(t, c.want, ids)
		})
	}
}
