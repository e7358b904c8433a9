package storyboard_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/storyboard"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compile compiles a film. Its files have the ids art_1, art_2 and so on.
func compile(t *testing.T, data []byte) *client.SubmitWorkflowInput {
	t.Helper()
	film, err := storyboard.Read("film.yaml", data)
	require.NoError(t, err)
	uploads := map[string]string{}
	for i, path := range film.Files() {
		uploads[path] = fmt.Sprintf("art_%d", i+1)
	}
	workflow, err := film.Compile(storyboard.Options{Uploads: uploads})
	require.NoError(t, err)
	return workflow
}

func TestCompile(t *testing.T) {
	t.Parallel()

	for name, path := range map[string]string{
		"harbour": "../../../../docs/users/examples/harbour.yaml", "chain": "testdata/chain.yaml", "long": "testdata/long.yaml",
	} {
		t.Run("MakesTheWorkflowOfTheFilm/"+name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(path)
			require.NoError(t, err)

			got, err := json.MarshalIndent(compile(t, data), "", "  ")
			require.NoError(t, err)

			golden := filepath.Join("testdata", name+".json")
			if *update {
				require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(got))
		})
	}

	t.Run("JoinsAnyNumberOfShotsInTheirOrder", func(t *testing.T) {
		t.Parallel()
		for _, shots := range []int{1, 2, 50, 51, 52, 100, 101, storyboard.MaxShots} {
			workflow := compile(t, filmOf(shots))

			clips := map[string][]string{}
			for _, node := range workflow.Jobs {
				if node.Job.Model == "video.stitch" {
					var params struct{ Clips []string }
					require.NoError(t, json.Unmarshal(*node.Job.Params, &params))
					require.LessOrEqual(t, len(params.Clips), 50)
					clips["{{"+node.Key+".video}}"] = params.Clips
				}
			}
			var order []string
			var visit func(clip string)
			visit = func(clip string) {
				if clips[clip] == nil {
					order = append(order, clip)
				}
				for _, inner := range clips[clip] {
					visit(inner)
				}
			}
			visit("{{film.video}}")
			require.Len(t, order, shots)
			for i, clip := range order {
				require.Equal(t, fmt.Sprintf("{{shots.s%d.video}}", i+1), clip)
			}
		}
	})

	t.Run("ReplacesTheSeedsOfShots", func(t *testing.T) {
		t.Parallel()
		film, err := storyboard.Read("film.yaml", filmOf(2))
		require.NoError(t, err)
		before, err := film.Compile(storyboard.Options{})
		require.NoError(t, err)

		after, err := film.Compile(storyboard.Options{Seeds: map[string]int64{"s2": 77}})

		require.NoError(t, err)
		require.Contains(t, string(*after.Jobs[1].Job.Params), `"seed":77`)
		after.Jobs[1] = before.Jobs[1]
		require.Equal(t, before, after, "the others stay as they are")
	})

	t.Run("LetsShotsWaitForAnApproval", func(t *testing.T) {
		t.Parallel()

		w := compile(t, []byte("name: f\ndefaults: {model: testcard}\napproval: {waitSeconds: 60, onTimeout: first}\nshots:\n"+
			"- {key: fog, prompt: fog, takes: 2, seed: 7}\n- {key: gulls, prompt: gulls, approve: true, startFrom: fog.lastFrame}\n"))

		var nodes []string
		for _, n := range w.Jobs {
			nodes = append(nodes, n.Key+" "+n.Job.Model+" "+string(*n.Job.Params))
		}
		require.Equal(t, []string{
			`shots.fog.t1 testcard {"seed":7}`,
			`shots.fog.t2 testcard {"seed":8}`,
			`shots.fog workflow.approval {"candidates":["{{shots.fog.t1.video}}","{{shots.fog.t2.video}}"],"onTimeout":"first","question":"Which take of the shot fog?","waitSeconds":60}`,
			`shots.gulls.t1 testcard {"referenceImage":"{{shots.fog.lastFrame}}"}`,
			`shots.gulls workflow.approval {"candidates":["{{shots.gulls.t1.video}}"],"onTimeout":"first","question":"Approve the shot gulls?","waitSeconds":60}`,
			`film video.stitch {"clips":["{{shots.fog.video}}","{{shots.gulls.video}}"]}`,
		}, nodes[:6])
	})

	t.Run("ContinuesAPickedDraft", func(t *testing.T) {
		t.Parallel()

		w := compile(t, []byte("name: f\ndefaults: {model: testcard}\nshots:\n"+
			"- {key: fog, prompt: fog, takes: 2, draftSteps: 10}\n- {key: gulls, prompt: gulls, startFrom: fog.lastFrame}\n"))

		require.Equal(t, []int{10, 10}, []int{w.Jobs[0].Job.Draft.Steps, w.Jobs[1].Job.Draft.Steps})
		require.Equal(t, "shots.fog.pick", w.Jobs[2].Key)
		require.Equal(t, `{"candidates":["{{shots.fog.t1.draft}}","{{shots.fog.t2.draft}}"],"question":"Which take of the shot fog?"}`,
			string(*w.Jobs[2].Job.Params))
		require.Equal(t, client.WorkflowJobInput{
			Key: "shots.fog", Continues: new("shots.fog.pick"), Job: client.SubmitJobInput{Model: "testcard"},
		}, w.Jobs[3])
		require.Equal(t, `{"referenceImage":"{{shots.fog.lastFrame}}"}`, string(*w.Jobs[4].Job.Params))
	})

	t.Run("RefusesFilesThatAreNotUploaded", func(t *testing.T) {
		t.Parallel()
		film, err := storyboard.Read("film.yaml",
			[]byte("name: f\ndefaults: {model: m}\nreferences: {a: a.png}\nshots: [{prompt: x, reference: a}]"))
		require.NoError(t, err)
		require.Equal(t, []string{"a.png"}, film.Files())

		_, err = film.Compile(storyboard.Options{})

		require.ErrorContains(t, err, "a.png is not uploaded")
	})
}

func filmOf(shots int) []byte {
	var b bytes.Buffer
	b.WriteString("name: many\ndefaults: {model: testcard, durationSeconds: 2}\ntransition: {seconds: 1}\nshots:\n")
	for i := range shots {
		fmt.Fprintf(&b, "- prompt: shot %d\n", i+1)
	}
	return b.Bytes()
}

func TestRead(t *testing.T) {
	t.Parallel()

	const head = "name: f\ndefaults: {model: testcard, durationSeconds: 2}\n"
	for text, says := range map[string]string{
		"":                                       "film.yaml: the file is empty",
		"name: f":                                "film.yaml:1: the film has no shots",
		head + "shots: []":                       "the film has no shots",
		head + "shots: {}":                       "shots must be a list",
		"shots: [{prompt: x, model: m}]":         "a film needs a name",
		head + "shots: [{}]":                     "film.yaml:3: the shot s1 has no prompt",
		"name: f\nshots: [{prompt: x}]":          "the shot s1 has no model",
		head + "shots:\n- promt: x":              `film.yaml:4: unknown field "promt"; did you mean prompt?`,
		head + "shots:\n- prompt: x\n  zebra: 1": `film.yaml:5: unknown field "zebra"; the keys here are model, durationSeconds`,
		head + "transitions: {}\nshots:\n- prompt: x":                           `film.yaml:3: unknown field "transitions"; did you mean transition?`,
		head + "shots:\n- prompt: x\n- prompt: y\n  key: s1":                    "film.yaml:6: the shots 1 and 2 have the same key, s1",
		head + "shots:\n- prompt: x\n  key: s2\n- prompt: y":                    "shot 2 has no key, and the one that it would get, s2, is that of shot 1",
		head + "shots: [{prompt: x, key: a b}]":                                 "the key of a shot is a b",
		head + "shots: [{prompt: x, takes: 9}]":                                 "the shot s1 has 9 takes: it may have 8",
		head + "shots: [{prompt: x, takes: -1}]":                                "the shot s1 has -1 takes",
		head + "approval: {waitSeconds: 0}\nshots: [{prompt: x}]":               "waitSeconds is 0: it must be from 1 to 7776000",
		head + "approval: {onTimeout: last}\nshots: [{prompt: x}]":              "onTimeout is last: it must be reject, approve or first",
		head + "shots: [{prompt: x, takes: 2, draftSteps: -1}]":                 "has -1 draftSteps",
		head + "shots: [{prompt: x, draftSteps: 5}]":                            "has draftSteps, but no approval: set takes or approve",
		head + "approval: {onTimeout: approve}\nshots: [{prompt: x, takes: 2}]": "which does not say which one",
		head + "shots: [{prompt: x, key: previous}]":                            "previous cannot be the key",
		head + "shots: [{prompt: x, startFrom: previous.lastFrame}]":            "the shot s1 starts from the shot before, but it is the first",
		head + "shots: [{prompt: x, startFrom: s1.lastFrame}]":                  "the shot s1 starts from itself",

		head + "shots: [{prompt: x, key: fog}, {prompt: y, startFrom: fig.lastFrame}]": "the shot s2 starts from the shot fig, which does not exist; did you mean fog?",

		head + "shots: [{prompt: x}, {prompt: y, startFrom: zebra.lastFrame}]": "which does not exist: the shots are s1, s2",
		head + "shots: [{prompt: x, startFrom: me.png}]":                       "an image is a reference",
		head + "shots: [{prompt: x, startFrom: frame pier}]":                   "starts from the frame pier, which does not exist: the film has no frames",
		head + "frames: {a: s9.lastFrame}\nshots: [{prompt: x}]":               "film.yaml:3: the frame a starts from the shot s9",
		head + "frames: {a: previous.lastFrame}\nshots: [{prompt: x}]":         "a frame has no shot before it",
		head + "references: {a: ''}\nshots: [{prompt: x}]":                     "the reference a has no image",
		head + "shots: [{prompt: x, reference: mara}]":                         "names the reference mara, which does not exist",

		head + "references: {a: a.png}\nshots: [{prompt: x}, {prompt: y, reference: a, startFrom: previous.lastFrame}]": "the shot s2 begins with several images",

		head + "shots: [{prompt: x, startFrom: s3.lastFrame}, {prompt: y, startFrom: s1.lastFrame}, {prompt: z, startFrom: previous.lastFrame}]": "the shot s1 waits for itself: s1 → s3 → s2 → s1",
		head + "transition: {kind: fade, seconds: 1.5}\nshots: [{prompt: x}, {prompt: y, durationSeconds: 5}]":                                   "film.yaml:3: a transition of 1.5 s is too long for the shot s1, which has 2 s",
		head + "transition: {kind: melt}\nshots: [{prompt: x}]":                                                                                  "the transition is melt: it must be one of cut, fade",
		head + "transition: {kind: cut, seconds: 1}\nshots: [{prompt: x}]":                                                                       "a cut takes no time",
		head + "transition: {seconds: .nan}\nshots: [{prompt: x}]":                                                                               "a transition takes 0 to 10 s",
		head + "shots: [{prompt: x, durationSeconds: -1}]":                                                                                       "the shot s1 takes -1 s",
		head + "shots: [{prompt: x, durationSeconds: long}]":                                                                                     `durationSeconds must be a number; it is "long"`,
		head + "shots: [{prompt: x, seed: 1.5}]":                                                                                                 "seed must be a whole number",
		head + "shots: [{prompt: x, seed: 1, params: {seed: 2}}]":                                                                                "the shot s1 has seed twice",
		head + "shots: [{prompt: x, params: [1]}]":                                                                                               "the shot s1 has params that are not a map",
		head + "shots: [{prompt: x, params: {durationSeconds: 3}, durationSeconds: 3}]":                                                          "the shot s1 has durationSeconds twice",
		head + "music: {volume: 2}\nshots: [{prompt: x}]":                                                                                        "the volume of the music is 2",
		head + "music: {file: 'https://example.com/a.mp3'}\nshots: [{prompt: x}]":                                                                "music cannot be fetched from a URL",
		head + "output: {width: 63}\nshots: [{prompt: x}]":                                                                                       "the width is 63",
		head + "output: {thumbnailAtSeconds: 2}\nshots: [{prompt: x}]":                                                                           "thumbnailAtSeconds is 2, but the film has only 2 s",
		head + "defaults: {}\nshots: [{prompt: x}]":                                                                                              "film.yaml:3",
		head + "shots: [&a {prompt: x}, *a]":                                                                                                     "anchors, aliases and tags of YAML are not supported",
		head + "shots: [{prompt: x}]\n---\n{}":                                                                                                   "the file has 2 YAML documents",
		head + "shots: [{prompt: " + strings.Repeat("x", 10_001) +
			"}]": "the shot s1 has a prompt of 10001 characters",
		string(filmOf(storyboard.MaxShots +
			1)): "the film has 1001 shots: it may have 1000",
		strings.Repeat("# long\n", storyboard.MaxBytes/7+
			1): "the file may have 1048576 bytes",
		strings.Repeat("[", 5000): "nested more than",
	} {
		_, err := storyboard.Read("film.yaml", []byte(text))

		require.ErrorContains(t, err, says, text[:min(len(text), 200)])
	}
}

func TestReadKeepsTexts(t *testing.T) {
	t.Parallel()

	film, err := storyboard.Read("film.yaml",
		[]byte("\ufeffname: 1.10\r\nstyle: 12:30\r\ndefaults: {model: testcard, durationSeconds: 2}\r\nshots:\r\n- {key: 010, prompt: 007}\r\n- {prompt: 1.10}\r\n"))

	require.NoError(t, err)
	require.Equal(t, []string{"1.10", "12:30", "010", "007", "1.10"}, []string{film.Name, film.Style, film.Shots[0].Key, film.Shots[0].Prompt,
		film.Shots[1].Prompt})
	for text, says := range map[string]string{
		"name: x\ndefaults: {durationSeconds: 010}\nshots: [{prompt: x}]": "film.yaml:2: durationSeconds is 010, which some programs read as octal: write 10",
		"name: x\nshots: [{prompt: caf\xe9}]":                             "film.yaml:2: the line is not valid UTF-8: save the file as UTF-8",
	} {
		_, err := storyboard.Read("film.yaml", []byte(text))
		require.ErrorContains(t, err, says)
	}
}

func FuzzRead(f *testing.F) {
	for _, path := range []string{"../../../../docs/users/examples/harbour.yaml", "testdata/chain.yaml"} {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("name: f\nshots: [{prompt: x, startFrom: s2.lastFrame}, {prompt: y, startFrom: s1.lastFrame}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		film, err := storyboard.Read("film.yaml", data)
		if err != nil {
			require.Contains(t, err.Error(), "film.yaml")
			return
		}
		uploads := map[string]string{}
		for _, path := range film.Files() {
			uploads[path] = "art_1"
		}
		workflow, err := film.Compile(storyboard.Options{Uploads: uploads})
		require.NoError(t, err)
		_, err = json.Marshal(workflow)
		require.NoError(t, err)
		keys := map[string]bool{}
		for _, node := range workflow.Jobs {
			require.False(t, keys[node.Key], "the key %s is used twice", node.Key)
			keys[node.Key] = true
		}
	})
}
