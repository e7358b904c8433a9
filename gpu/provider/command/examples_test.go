package command_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// example makes a provider of a copy of an example, since programs write to their folder here.
func example(t *testing.T, name, options string) *cloud {
	t.Helper()
	c := setupIn(t, t.TempDir(), name)
	text, err := os.ReadFile(filepath.Join("examples", name))
	require.NoError(t, err)
	require.LessOrEqual(t, len(regexp.MustCompile(`(?m)^.+$`).FindAll(text, -1)), 80, "%s has one screen of lines", name)
	testrun.WriteProgram(t, filepath.Join(c.folder, name), string(text))
	c.pool.Settings = json.RawMessage(`{"program": "` + name + `", "options": ` + options + `}`)
	require.NoError(t, command.CheckPool(c.pool))
	return c
}

// wrapped makes a provider of an example that gets variables of its own, and not those of all tests.
func wrapped(t *testing.T, name, options string, variables map[string]string) *cloud {
	t.Helper()
	c := example(t, name, options)
	require.NoError(t, os.Rename(filepath.Join(c.folder, name), filepath.Join(c.folder, name+".py")))
	var script strings.Builder
	script.WriteString("#!/bin/sh\n")
	for variable, value := range variables {
		script.WriteString("export " + variable + "='" + value + "'\n")
	}
	testrun.WriteProgram(t, filepath.Join(c.folder, name), script.String()+"exec ./"+name+".py \"$@\"\n")
	return c
}

// agentCommand is the AGENT_COMMAND of the documentation.
const agentCommand = "docker run --env REELAY_ENDPOINT --env REELAY_API_KEY --gpus all --network host IMAGE"

// boot runs what a machine runs at its boot, with variables of its own, and returns the variables that docker gives the container.
func boot(t *testing.T, script string, variables ...string) string {
	t.Helper()
	bin := t.TempDir()
	testrun.WriteProgram(t, filepath.Join(bin, "docker"), `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in --env) shift; echo "$1=$(printenv "$1")" ;; esac
	shift
done
`)
	machine := exec.Command("sh", "-c", script)
	machine.Env = append(variables, "PATH="+bin+":/usr/bin:/bin")
	out, err := machine.Output()
	require.NoError(t, err)
	return string(out)
}

// wanted returns the variables that a container needs, as boot returns them.
func (c *cloud) wanted() string {
	return "REELAY_ENDPOINT=https://reelay.example\nREELAY_API_KEY=" + c.key + "\n"
}

// TestAgentCommand checks that the command is documented as it is tested.
func TestAgentCommand(t *testing.T) {
	t.Parallel()
	for file, times := range map[string]int{"../../../docs/operators/clouds.md": 3, "examples/ec2-spot": 1, "examples/lambda": 1, "examples/skypilot": 1} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, times, strings.Count(strings.Join(strings.Fields(string(text)), " "), agentCommand), file)
	}
}

// TestExamplesNeed checks that a program whose variables or tools are missing says so at any verb, and is not called again and
// again: a newcomer sees it at the first list.
func TestExamplesNeed(t *testing.T) {
	t.Parallel()
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	require.NoError(t, err)
	for program, all := range map[string][]string{
		"skypilot": {"SKYPILOT_API_SERVER_ENDPOINT=http://sky.example", "AGENT_COMMAND=agent", "the Python package skypilot"},
		"slurm":    {"AGENT_COMMAND=agent", "squeue"},
		"ec2-spot": {"EC2_LAUNCH_TEMPLATE=reelay", "AGENT_COMMAND=agent", "the Python package boto3"},
		"runpod":   {"RUNPOD_API_KEY=key", "AGENT_IMAGE=image"},
		"vast":     {"VAST_API_KEY=key", "AGENT_IMAGE=image"},
		"lambda":   {"LAMBDA_API_KEY=key", "LAMBDA_SSH_KEY=mine", "AGENT_COMMAND=agent"},
	} {
		for i, missing := range all {
			name, _, variable := strings.Cut(missing, "=")
			t.Run(program+"/"+name, func(t *testing.T) {
				t.Parallel()
				variables := map[string]string{"PYTHONPATH": "lib", "PYTHONDONTWRITEBYTECODE": "1"}
				for j, other := range all {
					if key, value, ok := strings.Cut(other, "="); ok {
						variables[key] = value
						if j == i {
							variables[key] = ""
						}
					}
				}
				variables["PATH"] = "bin" // this host may have Slurm
				c := wrapped(t, program, `{}`, variables)
				for _, folder := range []string{"bin", "lib"} {
					require.NoError(t, os.Mkdir(filepath.Join(c.folder, folder), 0o700))
				}
				require.NoError(t, os.Symlink(strings.TrimSpace(string(python)), filepath.Join(c.folder, "bin/python3")))
				if variable {
					for _, tool := range []string{"sbatch", "squeue", "scancel"} {
						testrun.WriteProgram(t, filepath.Join(c.folder, "bin", tool), "#!/bin/sh\n")
					}
				}
				for _, module := range []string{"sky", "boto3"} { // as if it was not installed
					require.NoError(t, os.WriteFile(filepath.Join(c.folder, "lib", module+".py"), []byte("raise ImportError('none')\n"), 0o600))
				}

				_, listed := c.List(t.Context(), c.pool)
				created := c.create(t, "spot-0000000a")[0].Err
				deleted := c.Delete(t.Context(), c.pool, []fleet.Instance{{ID: "spot-0000000a"}})["spot-0000000a"]

				for _, err := range []error{listed, created, deleted} {
					require.Equal(t, fleet.Permission, fleet.ClassOf(err), err)
					require.ErrorContains(t, err, name)
					require.NotContains(t, err.Error(), "Traceback")
				}
				require.ErrorContains(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-0000000a"}, 0), "does not know the verb")
			})
		}
	}
}

// interrupted creates machines, and kills the program when it waits for an answer.
func (c *cloud) interrupted(t *testing.T, ids ...string) []fleet.Created {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan []fleet.Created, 1)
	go func() { ended <- c.Create(ctx, c.pool, "request-1", ids) }()
	testrun.Eventually(t, "the program waits", func() bool { _, err := os.Stat(filepath.Join(c.folder, "hanging")); return err == nil })
	cancel()
	return testrun.Receive(t, "the call ends", ended)
}

// stuck is the id of a machine whose create gets no answer from the imitations of docker and others.
const stuck = "spot-0000bad0"

func TestAnswersOfACallThatIsKilled(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operators/providers.md")
	require.NoError(t, err)
	walkthrough := string(regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)[1])
	for name, cloudOf := range map[string]func(*testing.T) *cloud{
		"docker-compose": func(t *testing.T) *cloud { return example(t, "docker-compose", `{"service": "worker"}`) },
		"skypilot":       func(t *testing.T) *cloud { return skypilot(t, `{}`) },
		"slurm":          func(t *testing.T) *cloud { return fakeSlurm(t, `{}`) },
		"mycloud": func(t *testing.T) *cloud {
			c := setupIn(t, t.TempDir(), "mycloud")
			testrun.WriteProgram(t, filepath.Join(c.folder, "mycloud"), walkthrough)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			all := cloudOf(t).interrupted(t, "spot-0000000a", stuck)

			require.NoError(t, all[0].Err)
			require.Equal(t, fleet.Transient, fleet.ClassOf(all[1].Err), all[1].Err)
		})
	}
}

// ids lists the ids and states of the pool's machines.
func (c *cloud) ids(t *testing.T) (ids []string) {
	t.Helper()
	all, err := c.List(t.Context(), c.pool)
	require.NoError(t, err)
	for _, i := range all {
		ids = append(ids, i.ID+" "+string(i.State))
	}
	return ids
}

func (c *cloud) delete(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		require.Empty(t, c.Delete(t.Context(), c.pool, []fleet.Instance{{ID: id}}))
	}
}

func TestDockerCompose(t *testing.T) {
	t.Parallel()
	c := example(t, "docker-compose", `{"service": "worker"}`)

	for range 2 { // a create can be repeated
		for _, result := range c.create(t, "spot-0000000a", "spot-0000000b") {
			require.NoError(t, result.Err)
		}
	}
	require.Equal(t, []string{"spot-0000000a RUNNING", "spot-0000000b RUNNING"}, c.ids(t))
	require.Equal(t, "https://reelay.example "+c.key+"\n", c.read(t, "containers/spot-0000000a"))
	denied := c.create(t, "spot-denied")[0].Err
	require.Equal(t, fleet.Permission, fleet.ClassOf(denied), denied)
	c.delete(t, "spot-0000000a", "spot-0000000a")
	require.Equal(t, []string{"spot-0000000b RUNNING"}, c.ids(t))
	require.ErrorContains(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-0000000b"}, 0), "does not know the verb")

	calls := c.read(t, "calls")
	require.Contains(t, calls, "compose run --detach --rm --no-deps --name spot-0000000a --label reelay.pool=spot -e REELAY_ENDPOINT -e REELAY_API_KEY worker --provider command --instance-id spot-0000000a --pool "+string(c.pool.ID))
	require.Contains(t, calls, "ps --all --filter label=reelay.pool=spot --format {{json .}}")
	require.Contains(t, calls, "rm --force spot-0000000a")
	require.NotContains(t, calls, c.key, "other users can read arguments")

	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "down"), nil, 0o600))
	_, err := c.List(t.Context(), c.pool)
	require.ErrorContains(t, err, "Cannot connect to the Docker daemon")
	for options, class := range map[string]fleet.ErrorClass{`{"service": "absent"}`: fleet.Invalid,
		`{"service": "-v/:/host"}`: fleet.Invalid, `{"image": "x"}`: fleet.Invalid} {
		c.pool.Settings = json.RawMessage(`{"program": "docker-compose", "options": ` + options + `}`)
		require.Equal(t, class, fleet.ClassOf(c.create(t, "spot-0000000c")[0].Err))
	}
	require.NotContains(t, c.read(t, "calls"), "/host")
}

func TestFakeCloud(t *testing.T) {
	t.Parallel()
	c := example(t, "fake-cloud", `{}`)
	require.NoError(t, os.Mkdir(filepath.Join(c.folder, "machines"), 0o700))
	agent := "#!/bin/sh\necho \"$REELAY_ENDPOINT $REELAY_API_KEY $*\" >>started\nsleep 1000 &\nwait\n"
	testrun.WriteProgram(t, filepath.Join(c.folder, "agent"), agent)
	t.Cleanup(func() {
		c.Delete(context.Background(), c.pool, []fleet.Instance{{ID: "spot-0000000a"}, {ID: "spot-0000000b"}, {ID: "spot-0000000c"}})
	})

	for range 2 {
		require.Equal(t, fleet.Created{ID: "spot-0000000a", Zone: "fake-a"}, c.create(t, "spot-0000000a", "spot-0000000b")[0])
	}
	require.Equal(t, []string{"spot-0000000a RUNNING", "spot-0000000b RUNNING"}, c.ids(t))
	testrun.Eventually(t, "two agents start", func() bool {
		started, _ := os.ReadFile(filepath.Join(c.folder, "started"))
		return strings.Count(string(started), "https://reelay.example "+c.key+" --provider command --instance-id spot-") == 2
	})
	require.NoError(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-0000000a"}, 0))
	testrun.Eventually(t, "the machine ends", func() bool { return c.ids(t)[0] == "spot-0000000a ENDED" })
	all, err := c.List(t.Context(), c.pool)
	require.NoError(t, err)
	require.True(t, all[0].Reclaimed)
	require.ErrorIs(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-0000000a"}, 0), fleet.ErrNoInstance)
	c.delete(t, "spot-0000000b", "spot-0000000b")
	require.Equal(t, []string{"spot-0000000a ENDED"}, c.ids(t))

	c.pool.Settings = json.RawMessage(`{"program": "fake-cloud", "options": {"soldOut": true}}`)
	require.Equal(t, fleet.Stockout, fleet.ClassOf(c.create(t, "spot-0000000c")[0].Err))
}

// TestWalkthrough follows "A new provider in 60 lines" of the documentation.
func TestWalkthrough(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operators/providers.md")
	require.NoError(t, err)
	block := func(language string) string {
		found := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		require.Len(t, found, 1, language)
		return found[0][1]
	}
	c := setupIn(t, t.TempDir(), "mycloud")
	require.LessOrEqual(t, strings.Count(block("python"), "\n"), 60)
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "mycloud"), []byte(block("python")), 0o600))

	byHand := exec.Command("sh", "-euc", block("sh"))
	byHand.Dir = c.folder
	out, err := byHand.Output()

	require.NoError(t, err)
	require.Equal(t, `{"id": "h100-spot-00000001"}`+"\n"+`{"id": "h100-spot-00000001", "state": "RUNNING"}`+"\n"+
		`{"id": "h100-spot-00000001"}`+"\n", string(out))
	for range 2 {
		require.NoError(t, c.create(t, "spot-0000000a")[0].Err)
	}
	script := c.read(t, "machines/spot-0000000a")
	require.Contains(t, script, "\nexport REELAY_API_KEY="+c.key+"\n")
	require.Contains(t, script, "\nexec reelay-agent --provider command --instance-id spot-0000000a ")
	require.Equal(t, []string{"spot-0000000a RUNNING"}, c.ids(t))
	c.delete(t, "spot-0000000a", "spot-0000000a")
	require.Empty(t, c.ids(t))
	c.pool.MachineType = "sold-out"
	require.Equal(t, fleet.Stockout, fleet.ClassOf(c.create(t, "spot-0000000b")[0].Err))
	require.ErrorContains(t, c.Preempt(t.Context(), c.pool, fleet.Instance{ID: "spot-0000000a"}, 0), "does not know the verb")
}
