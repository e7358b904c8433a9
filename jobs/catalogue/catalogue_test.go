package catalogue_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/jsondiff"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// own is a valid entry, as one line of YAML for each field.
const own = `models:
  - name: own
    type: video.generate
    gpuTypes: [L4, H100]
    timeoutSeconds: 600
    gpuSecondsPerSecond: 1
    settings: {weights: /models/own, adapters: [{scale: 0.8}]}
    params:
      type: object
      properties:
        zeta: {type: integer, default: 9007199254740993}
        alpha: {type: string}
`

func TestDocs(t *testing.T) {
	t.Parallel()
	var page []byte
	for _, name := range []string{"models.md", "comfyui.md"} {
		text, err := os.ReadFile("../../docs/users/" + name)
		require.NoError(t, err)
		page = append(page, text...)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(models:\n.*?)```").FindAllSubmatch(page, -1)
	require.GreaterOrEqual(t, len(examples), 6)
	for _, example := range examples {
		_, err := catalogue.Parse("models.md", example[1])
		require.NoError(t, err, "%s", example[1])
	}
}

func TestParse(t *testing.T) {
	t.Parallel()

	t.Run("FillsInDefaultsAndKeepsTheOrderOfKeys", func(t *testing.T) {
		t.Parallel()

		source, err := catalogue.Parse("own.yaml", []byte(own))

		require.NoError(t, err)
		m := source.Models[0]
		require.Equal(t, 1, m.GPUsPerWorker)
		require.Equal(t, 1.0, m.PriceFactor)
		require.True(t, m.RequiresVideo())
		require.JSONEq(t, `{"weights": "/models/own", "adapters": [{"scale": 0.8}]}`, string(m.Settings))
		require.Less(t, strings.Index(string(m.Schema), "zeta"), strings.Index(string(m.Schema), "alpha"))
		params, err := m.Params(nil)
		require.NoError(t, err)
		require.JSONEq(t, `{"zeta": 9007199254740993}`, string(params))
	})

	edit := func(old, new string) string { return strings.Replace(own, old, new, 1) }
	const settings = "    settings: {weights: /models/own, adapters: [{scale: 0.8}]}\n"
	for name, test := range map[string]struct{ source, complaint string }{
		"AnEmptyFile":          {"", "x.yaml: the file is empty"},
		"NoYAML":               {"models: [", "x.yaml:1: "},
		"AListOfNothing":       {"models: []", "1 to 200 models and aliases; it has 0"},
		"TwoDocuments":         {own + "---\n" + own, "2 YAML documents"},
		"AnUnknownKey":         {edit("    type:", "    colour: red\n    type:"), `x.yaml:3: unknown field "colour"`},
		"AnUnknownKeyAtTheTop": {own + "pools: []\n", `x.yaml:13: unknown field "pools"`},
		"AKeyTwice":            {edit("    type:", "    name: own\n    type:"), "x.yaml:3: mapping key \"name\" already defined"},
		"ATextForANumber":      {edit("timeoutSeconds: 600", "timeoutSeconds: soon"), "x.yaml:5: "},
		"NoName":               {edit("name: own", "description: x"), "x.yaml:2: the entry has no name"},
		"ANameWithASlash":      {edit("name: own", "name: a/b"), `x.yaml:2: the name "a/b" must have`},
		"AQualityThatIsUnknown": {own + "    quality: { frozen: 3 }\n",
			`quality has no setting "frozen": it can have check, allowDark, allowStill, blackBrightness`},
		"AQualityOutOfRange":      {own + "    quality: { blackShare: 2 }\n", "quality.blackShare must be a number from 0.01 to 1"},
		"AQualityThatIsNoSwitch":  {own + "    quality: { check: 1 }\n", "quality.check must be true or false"},
		"AQualityThatIsNoMap":     {own + "    quality: [check]\n", "quality must be a map"},
		"ACommandWithoutAProgram": {edit("    settings:", "    runtime: command\n    settings:"), `x.yaml:8: settings have no field "weights"`},
		"AnUnknownPlaceholder": {edit("    settings: {weights: /models/own, adapters: [{scale: 0.8}]}",
			"    runtime: command\n    settings:\n      program:\n        - tool\n        - '{params.beta}'"),
			"x.yaml:11: the placeholder {params.beta} names a parameter that params does not have"},
		"AComfyUIWithoutAGraph": {edit("    settings:", "    runtime: comfyui\n    settings:"),
			`x.yaml:8: settings have no field "weights": those of the runtime comfyui have graph, inputs and output, or any`},
		"ALinkToNoNode": {edit(settings, `    runtime: comfyui
    settings:
      graph:
        "1": {class_type: Load, inputs: {}}
        "2":
          class_type: SaveVideo
          inputs: {video: ["9", 0], filename_prefix: x}
`), "x.yaml:13: the input video of the node 2 comes from the node \"9\", which the graph does not have"},
		"AnInputOfNoParameter": {edit(settings, `    runtime: comfyui
    settings:
      graph: {"2": {class_type: SaveVideo, inputs: {fps: 24, filename_prefix: x}}}
      inputs:
        alpha: 2.fps
        beta: 2.fps
`), "x.yaml:12: inputs has beta, which is no parameter of the model"},
		"AnUnknownProfile": {edit(settings, "    runtime: videos-api\n    settings:\n      profile: sora\n"),
			`x.yaml:9: there is no profile "sora"`},
		"AFieldThatIsAPath": {edit(settings, "    runtime: videos-api\n    settings:\n      profile: sglang\n      fields:\n        alpha: output_path\n"),
			"x.yaml:11: fields.alpha has the field output_path"},
		"AnInputThatIsNoName": {edit(settings, "    runtime: cog\n    settings:\n      inputs:\n        alpha: a b\n"),
			`x.yaml:10: inputs has "a b", which is no name of an input`},
		"AWrongTypeInSettings": {edit(settings, "    runtime: cog\n    settings:\n      prompt: [1]\n"),
			"x.yaml:9: settings.prompt must not be a JSON array"},
		"NoGPUTypes":        {edit("    gpuTypes: [L4, H100]\n", ""), "x.yaml:2: gpuTypes is empty"},
		"AGPUTypeTwice":     {edit("H100", "L4"), "x.yaml:4: gpuTypes must be different"},
		"ATimeoutOfZero":    {edit("600", "0"), "x.yaml:5: timeoutSeconds is 0"},
		"AnInfiniteTimeout": {edit("600", ".inf"), "x.yaml:5: timeoutSeconds is +Inf"},
		"NoNumber":          {edit("gpuSecondsPerSecond: 1", "gpuSecondsPerSecond: .nan"), "x.yaml:6: gpuSecondsPerSecond is NaN"},
		"AnUnknownProduct": {edit("    type:", "    produces: film\n    type:"),
			`x.yaml:3: produces is "FILM": it must be video, image or output`},
		"TooManyAttempts": {edit("    type:", "    retry: {maxAttempts: 21}\n    type:"), "x.yaml:3: maxAttempts is 21"},
		"SettingsThatAreAList": {edit("settings: {weights: /models/own, adapters: [{scale: 0.8}]}", "settings: [1]"),
			"x.yaml:7: settings must be a map"},
		"NoSchema": {own[:strings.Index(own, "    params:")], "x.yaml:2: the model own has no params"},
		"ASchemaOfUnknownType": {edit("type: integer", "type: whole"),
			"x.yaml:9: params is not a valid JSON Schema: params.properties.zeta.type"},
		"ASchemaThatReadsFiles":  {edit("{type: string}", "{$ref: 'file:///etc/passwd'}"), "put that part into the schema itself"},
		"ASchemaWithABadPattern": {edit("{type: string}", "{pattern: '('}"), "params.properties.alpha.pattern"},
		"AnUnknownAnnotation": {edit("{type: string}", "{type: string, X-Reelay-Input: image}"),
			"x.yaml:9: params has the unknown annotation X-Reelay-Input"},
		"StepsThatAreAText": {own + "    drafts: { stepsParam: alpha }\n",
			`stepsParam is "alpha": its type in params must be integer or number`},
		"StepsWithoutAParam": {own + "    drafts: { stepsParam: beta }\n", `stepsParam is "beta": params has no such property`},
		"AnAnchor": {edit("    type: video", "    description: &a x\n    type: video"),
			"x.yaml:3: anchors, aliases and tags of YAML are not supported"},
		"AModelTwice":             {own + strings.TrimPrefix(own, "models:\n"), "x.yaml:13: the name own occurs twice"},
		"AnAliasNamedAsItsModel":  {own + "aliases: [{name: own, models: {own: 1}}]\n", "x.yaml:13: the name own occurs twice"},
		"AnAliasWithoutModels":    {own + "aliases:\n  - name: any\n", "x.yaml:14: the alias any has no models"},
		"WeightsThatSumToZero":    {own + "aliases:\n  - name: any\n    models: {own: 0}\n", "x.yaml:15: the weights of the alias any sum to 0"},
		"ANegativeWeight":         {own + "aliases:\n  - name: any\n    models: {own: -1}\n", "x.yaml:15: the weight of own is -1"},
		"AFileThatIsTooLarge":     {own + strings.Repeat("#", catalogue.MaxSource), "the file may have 262144 bytes"},
		"AFileThatIsNestedDeeply": {"models: " + strings.Repeat("[", 100_000), "nested more than 64 levels deep"},
		"DeepIndentation":         {"models:\n" + strings.Repeat("- ", 100_000), "nested more than 64 levels deep"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()

			_, err := catalogue.Parse("x.yaml", []byte(test.source))

			require.ErrorContains(t, err, test.complaint)
			require.Less(t, len(err.Error()), 3000)
		})
	}

	t.Run("ListsAllProblemsInTheOrderOfTheirLines", func(t *testing.T) {
		t.Parallel()
		source := strings.NewReplacer("600", "0", "name: own", "name: a/b").Replace(own)

		_, err := catalogue.Parse("x.yaml", []byte(source))

		lines := strings.Split(err.Error(), "\n")
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], "x.yaml:2: ")
		require.Contains(t, lines[1], "x.yaml:5: ")
	})
}

// applied is the catalogue after the files were applied one after the other, and the changes
// of the last one.
func applied(t *testing.T, files ...string) ([]*catalogue.Change, *catalogue.Snapshot) {
	t.Helper()
	var rows []*capacity.CatalogueEntry
	var changes []*catalogue.Change
	snapshot := catalogue.New()
	for _, file := range files {
		source, err := catalogue.Parse("x.yaml", []byte(file))
		require.NoError(t, err)
		changes, snapshot, err = source.Plan(rows, capacity.OriginOperator, "key", snapshot)
		require.NoError(t, err)
		for _, c := range changes {
			if c.Row != nil {
				for _, r := range rows {
					r.Current = r.Current && r.Name != c.Name
				}
				rows = append(rows, c.Row)
			}
		}
	}
	return changes, snapshot
}

func TestPlan(t *testing.T) {
	t.Parallel()

	t.Run("KeepsEveryVersion", func(t *testing.T) {
		t.Parallel()

		changes, snapshot := applied(t, own, strings.Replace(own, "[L4, H100]", "[H100]", 1))

		require.Equal(t, catalogue.Changed, changes[0].Kind)
		require.Equal(t, 2, changes[0].Version)
		require.Equal(t, []jsondiff.Difference{{Path: "gpuTypes", Before: []byte(`["L4","H100"]`), After: []byte(`["H100"]`)}},
			changes[0].Differences)
		require.Len(t, snapshot.At("own", 1).GPUTypes, 2)
		require.Len(t, snapshot.At("own", 2).GPUTypes, 1)
		require.Len(t, snapshot.Models(), 1)
	})

	t.Run("ChangesNothingIfTheFileIsTheSame", func(t *testing.T) {
		t.Parallel()

		changes, _ := applied(t, own, "# the same, in other words\n"+own)

		require.Equal(t, catalogue.Unchanged, changes[0].Kind)
		require.Equal(t, 1, changes[0].Version)
		require.Nil(t, changes[0].Row)
	})

	for name, test := range map[string]struct{ source, complaint string }{
		"AnAliasOfNothing": {"aliases: [{name: any, models: {other: 1}}]", "x.yaml:1: the alias any names other, which is neither"},
		"AnAliasOfItself":  {"aliases: [{name: any, models: {any: 1}}]", "the aliases form a cycle: any → any"},
		"ACycleOfAliases": {"aliases:\n- {name: a, models: {b: 1, own: 1}}\n- {name: b, models: {a: 1}}",
			"x.yaml:2: the aliases form a cycle: a → b → a"},
		"AnAliasNamedAsAModel":    {"aliases: [{name: own, models: {own: 1}}]", "own is the name of a model, so it cannot be an alias"},
		"AModelNamedAsAnOldAlias": {strings.Replace(own, "name: own", "name: fast", 1), "fast is the name of an alias, so it cannot be a model"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			alias := raw(`[{"name": "own", "weight": 1}]`)
			model := raw(`{"name": "own", "type": "video.generate", "gpuTypes": ["any"], "params": {}}`)
			rows := []*capacity.CatalogueEntry{
				{Name: "own", Version: 1, Current: true, Entry: model}, {Name: "fast", Version: 1, IsAlias: true, Current: true, Entry: alias},
			}
			source, err := catalogue.Parse("x.yaml", []byte(test.source))
			require.NoError(t, err)

			_, _, err = source.Plan(rows, capacity.OriginOperator, "key", catalogue.New())

			require.ErrorContains(t, err, test.complaint)
		})
	}
}

func raw(text string) []byte { return []byte(text) }

func TestCandidates(t *testing.T) {
	t.Parallel()
	two := own + strings.Replace(strings.TrimPrefix(own, "models:\n"), "name: own", "name: other", 1)
	_, snapshot := applied(t, two+
		"aliases:\n- {name: fast, models: {own: 3, other: 1}}\n- {name: any, models: {fast: 1, other: 1}}\n- {name: unused, models: {own: 1, other: 0}}\n")

	for name, want := range map[string]map[string]float64{
		"own":    {"own": 1},
		"fast":   {"own": 0.75, "other": 0.25},
		"any":    {"own": 0.375, "other": 0.625},
		"unused": {"own": 1},
	} {
		all, err := snapshot.Candidates(name)
		require.NoError(t, err)
		shares := map[string]float64{}
		for _, c := range all {
			shares[c.Model.Name] += c.Share
		}
		require.Equal(t, want, shares, name)
	}

	t.Run("OfAliasesThatShareAliases", func(t *testing.T) {
		t.Parallel()
		// There are 2^60 ways from the first to the last.
		file := two + "aliases:\n"
		for i := range 60 {
			file += fmt.Sprintf("- {name: a%d, models: {b%d: 1, c%d: 3}}\n- {name: b%d, models: {a%d: 1}}\n- {name: c%d, models: {a%d: 1}}\n", i, i,
				i, i, i+1, i, i+1)
		}
		_, snapshot := applied(t, file+"- {name: a60, models: {own: 1, other: 1}}\n")

		all, err := snapshot.Candidates("a0")

		require.NoError(t, err)
		require.Len(t, all, 2)
		require.InDelta(t, 0.5, all[0].Share, 1e-9)
		require.InDelta(t, 0.5, all[1].Share, 1e-9)
	})

	_, err := snapshot.Candidates("none")
	require.ErrorContains(t, err, "The names are: own, other, fast, any, unused")
	_, err = snapshot.Model("fast")
	require.ErrorContains(t, err, "fast is an alias: name a model")
	all, err := snapshot.Candidates("fast")
	require.NoError(t, err)
	chosen := map[string]int{}
	for range 4000 {
		chosen[catalogue.Choose(all).Name]++
	}
	require.InDelta(t, 3000, chosen["own"], 300, "eleven standard deviations")
}

func TestParams(t *testing.T) {
	t.Parallel()
	_, snapshot := applied(t, strings.Replace(own, "{type: string}", "{$ref: '#/properties/alpha'}", 1))

	_, err := snapshot.Models()[0].Params(json.RawMessage(`{"alpha": "a"}`))

	require.ErrorContains(t, err, "params.alpha is not valid: ")
	require.NotContains(t, err.Error(), "file:", "where the server runs is not the client's business")
}

func TestParamsOfACall(t *testing.T) {
	t.Parallel()
	snapshot, err := catalogue.Load()
	require.NoError(t, err)
	model, err := snapshot.Model("http.call")
	require.NoError(t, err)

	for _, accepted := range []string{`{"url": "https://example.com/"}`,
		`{"url": "http://localhost:8080/", "method": "POST", "body": {"a": 1}}`,
		`{"url": "https://example.com/", "expectedStatus": ["200", "2xx", "300-302", 404]}`} {
		_, err := model.Params(json.RawMessage(accepted))
		require.NoError(t, err, accepted)
	}
	for refused, says := range map[string]string{
		`{"url": "example.com"}`:                                              "params.url is not allowed: This is not an absolute URL",
		`{"url": "ftp://example.com/"}`:                                       "params.url is not allowed: The URL must begin with https://",
		`{"url": "https://10.0.0.1/"}`:                                        "params.url is not allowed: The URL leads to an address that is not public",
		`{"url": "https://example.com/", "method": "TRACE"}`:                  "params.method",
		`{"url": "https://example.com/", "body": "x"}`:                        "params.body is not allowed with the method GET",
		`{"url": "https://example.com/", "headers": {"host": "tiger"}}`:       "params.headers must not have Host",
		`{"url": "https://example.com/", "headers": {"a": "tiger\r\nb: c"}}`:  "params.headers has a header whose name or value",
		`{"url": "https://example.com/", "expectedStatus": [201, "300-200"]}`: `params.expectedStatus.1 is "300-200": name a status from 200 to 599, such as 201, or a range, such as "200-299" or "2xx".`,
		`{"url": "https://example.com/", "expectedStatus": ["abc"]}`:          `params.expectedStatus.0 is "abc": name a status`,
		`{"url": "https://example.com/", "expectedStatus": [true]}`:           "must be a whole number or a string, not true or false",
		`{"url": "https://example.com/", "expectedStatus": [99]}`:             "params.expectedStatus",
	} {
		_, err := model.Params(json.RawMessage(refused))
		require.ErrorContains(t, err, says, refused)
		require.NotContains(t, err.Error(), "tiger", "a header may be a secret")
	}
}

func TestParamsNameTheirTypes(t *testing.T) {
	t.Parallel()
	snapshot, err := catalogue.Load()
	require.NoError(t, err)
	model, err := snapshot.Model("testcard")
	require.NoError(t, err)
	for refused, says := range map[string]string{
		`{"seed": 1.5}`:     "params.seed must be a whole number, not one with a fraction",
		`{"seed": "1"}`:     "params.seed must be a whole number, not a string",
		`{"seed": [1]}`:     "params.seed must be a whole number, not an array",
		`{"seed": 1e400}`:   "params.seed is the number 1e400, which is out of range",
		`{"seed": 2.5e300}`: "params.seed must be at most",
	} {
		_, err := model.Params(json.RawMessage(refused))
		require.ErrorContains(t, err, says, refused)
	}
}

func TestCallsOfReelayItself(t *testing.T) {
	t.Parallel()
	snapshot, err := catalogue.Load()
	require.NoError(t, err)
	c := catalogue.Of(snapshot)
	c.Guard(outbound.Policy{}.Except("api.example.com:443", "localhost:5432"))
	model, err := c.Current().Model("http.call")
	require.NoError(t, err)

	for url, says := range map[string]string{
		"https://api.example.com/graphql": "leads to Reelay itself", "https://API.example.com.:443/": "leads to Reelay itself",
		"http://127.0.0.1:8080/": "not public", "https://localhost/": "not public", "https://127.0.0.1:5432/": "not public",
	} {
		_, err := model.Params(json.RawMessage(`{"url": "` + url + `"}`))
		require.ErrorContains(t, err, says, url)
	}
	_, err = model.Params(json.RawMessage(`{"url": "https://example.com/"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"except": ["api.example.com:443", "localhost:5432"]}`, string(model.LeasedSettings()))

	laptop := catalogue.Of(catalogue.New())
	laptop.Guard(outbound.Policy{AllowLoopback: true}.Except("127.0.0.1:6379"))
	again, err := catalogue.Load()
	require.NoError(t, err)
	laptop.Replace(again)
	for _, url := range []string{"http://localhost:6379/", "http://[::1]:6379/", "http://127.0.0.2:6379/", "http://LOCALHOST.:6379/"} {
		model, err := laptop.Current().Model("http.call")
		require.NoError(t, err)
		_, err = model.Params(json.RawMessage(`{"url": "` + url + `"}`))
		require.ErrorContains(t, err, "params.url is not allowed: The URL leads to Reelay itself", url)
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	_, snapshot := applied(t, strings.Replace(own, "settings: {weights: /models/own, adapters: [{scale: 0.8}]}",
		"runtime: command\n    settings: {program: [own-tool, '{prompt}'], install: Install it.}", 1))

	programs := snapshot.Programs()

	require.Contains(t, programs, &catalogue.Program{Model: "own", Program: "own-tool", Install: "Install it."})
	shipped, err := catalogue.Load()
	require.NoError(t, err)
	for _, p := range shipped.Programs() {
		require.NotContains(t, p.Program, "{", "a program that depends on the worker is not known")
	}
}

func TestShipped(t *testing.T) {
	t.Parallel()

	snapshot, err := catalogue.Load()

	require.NoError(t, err)
	require.Equal(t, "testcard", snapshot.Models()[0].Name)
	for _, m := range snapshot.Models() {
		var schema struct{ Required []string }
		require.NoError(t, json.Unmarshal(m.Schema, &schema), m.Name)
		_, err := m.Params(nil)
		if len(schema.Required) > 0 {
			require.ErrorContains(t, err, "is required", m.Name)
			continue
		}
		require.NoError(t, err, m.Name)
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()

	t.Run("LeavesASnapshotAsItWas", func(t *testing.T) {
		t.Parallel()

		c := catalogue.Of(catalogue.New(&catalogue.Model{Name: "old"}))
		begun := c.Current()
		c.Replace(catalogue.New(&catalogue.Model{Name: "new"}))

		_, err := begun.Model("old")
		require.NoError(t, err)
		_, err = c.Current().Model("old")
		require.ErrorContains(t, err, "The names are: new")
	})
}

func TestParams_NamesWhatWasProbablyMeant(t *testing.T) {
	t.Parallel()
	_, snapshot := applied(t, strings.NewReplacer("type: object", "type: object\n      additionalProperties: false", "{type: string}", `
          type: object
          additionalProperties: false
          properties: {pattern: {enum: [spots, worms]}, seeds: {type: array, items: {$ref: '#/properties/alpha/$defs/seed'}}}
          $defs: {seed: {type: object, additionalProperties: false, properties: {value: {type: integer}}}}`).Replace(own))
	for params, want := range map[string]string{
		`{"alpah": {}}`:                            `Unknown parameter "alpah"; did you mean "alpha"?`,
		`{"alpha": {"patern": "worms"}}`:           `Unknown parameter "alpha.patern"; did you mean "pattern"?`,
		`{"alpha": {"seeds": [{}, {"valeu": 1}]}}`: `Unknown parameter "alpha.seeds.1.valeu"; did you mean "value"?`,
		`{"x": 1}`:                        `Unknown parameter "x". The model own has the parameters alpha, zeta.`,
		`{"alpha": {"pattern": "wroms"}}`: `params.alpha.pattern must be spots or worms; did you mean "worms"?`,
		`{"alpha": {"x": 1}}`:             `Unknown parameter "alpha.x". alpha has the parameters pattern, seeds.`,
	} {
		_, err := snapshot.Models()[0].Params(json.RawMessage(params))

		require.EqualError(t, err, want, params)
	}
}

func TestGraphsOfJobs(t *testing.T) {
	t.Parallel()
	source, err := catalogue.Parse("x.yaml", []byte(`models:
  - name: comfyui.graph
    type: video.generate
    runtime: comfyui
    settings: {any: {nodes: [LoadImage, SaveVideo], files: []}}
    gpuTypes: [any]
    timeoutSeconds: 600
    gpuSecondsPerSecond: 1
    params:
      type: object
      additionalProperties: false
      required: [graph]
      properties:
        graph: {type: object}
        files: {type: array, items: {type: string}, maxItems: 20, x-reelay-input: [image, video, audio]}
`))
	require.NoError(t, err)
	m := source.Models[0]
	graph := func(image, more string) string {
		return `{"graph": {"1": {"class_type": "LoadImage", "inputs": {"image": "` + image + `"}},
			"2": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0], "filename_prefix": "x", "seed": 1125899906842624123}}}` + more + `}`
	}

	params, err := m.Params(json.RawMessage(graph("{{files.0}}", `, "files": ["art_1"]`)))
	require.NoError(t, err)
	require.Contains(t, string(params), "1125899906842624123")
	require.Len(t, m.Inputs(params), 1)

	for says, given := range map[string]string{
		"params.graph is required": `{}`,
		"the input image of the node 1 (LoadImage) has the name of a file": graph("of-another.png", ""),
		"is {{files.0}}, but the job has 0 files":                          graph("{{files.0}}", ""),
		"choose Workflow, Export (API)":                                    `{"graph": {"nodes": []}}`,
		"the node 1 is of the class Exec, which this model does not allow": `{"graph": {"1": {"class_type": "Exec"}}}`,
		"params may take 65536 bytes of JSON":                              graph(strings.Repeat("x", 65<<10), ""),
		"must be an object":                                                `{"graph": "x"}`,
		"the node 1 is of the class AB, which this model does not allow":   `{"graph": {"1": {"class_type": "A\u202eB"}}}`,
	} {
		_, err := m.Params(json.RawMessage(given))
		var refused *apierror.Error
		require.ErrorAs(t, err, &refused, says)
		require.Equal(t, apierror.CodeInvalidInput, refused.Code)
		if !strings.Contains(says, "65536") {
			require.Equal(t, "params.graph", refused.Field)
		}
		require.ErrorContains(t, err, says)
	}
}
