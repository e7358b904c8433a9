// Command render checks a chart as `helm lint --strict` does, renders it as Helm does, with the files of values that follow it,
// and prints its objects as a JSON array. It is strict where Helm is not: each object must be one of a known kind without an unknown field, but for those of
// External Secrets, whose types are in no module. It is a module of its own: no part of it is linked into Reelay.
//
// With -patch it reads objects as a release before, a release and a cluster have them, and prints the patches of Helm 3.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/runtime"
	strict "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: render CHART [VALUES …], or render -patch")
		os.Exit(2)
	}
	do := func() error { return render(os.Stdout, os.Args[1], os.Args[2:]) }
	if os.Args[1] == "-patch" {
		do = func() error { return patch(os.Stdout, os.Stdin) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

// render writes the objects of the chart in a folder. Later files of values override those before.
func render(to io.Writer, folder string, files []string) error {
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	values := chartutil.Values{}
	for _, file := range files {
		more, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		values = chartutil.MergeTables(more, values)
	}
	for _, message := range lint.All(folder, values, "video", true).Messages {
		if message.Severity > support.InfoSev { // an icon is missing
			return fmt.Errorf("lint: %w", message)
		}
	}
	release := chartutil.ReleaseOptions{Name: "reelay", Namespace: "video", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	manifests, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return err
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme} {
		if err := add(known); err != nil {
			return err
		}
	}
	decoder := strict.NewSerializerWithOptions(strict.DefaultMetaFactory, known, known, strict.SerializerOptions{Strict: true})
	objects := []json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader([]byte(manifests[name]))))
		for {
			text, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			object, err := yaml.ToJSON(text)
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			if string(object) == "null" {
				continue
			}
			_, _, err = decoder.Decode(object, nil, nil)
			if err != nil && !(runtime.IsNotRegisteredError(err) && bytes.Contains(object, []byte(`"apiVersion":"external-secrets.io/v1"`))) {
				return fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			objects = append(objects, object)
		}
	}
	return json.NewEncoder(to).Encode(objects)
}

// patch prints the strategic merge patches of objects of Kubernetes, which Helm 3 makes of three versions of each.
func patch(to io.Writer, from io.Reader) error {
	var all []struct{ Before, After, Current json.RawMessage }
	if err := json.NewDecoder(from).Decode(&all); err != nil {
		return err
	}
	patches := []json.RawMessage{}
	for _, one := range all {
		object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(one.After, nil, nil)
		if err != nil {
			return err
		}
		meta, err := strategicpatch.NewPatchMetaFromStruct(object)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.Kind, err)
		}
		made, err := strategicpatch.CreateThreeWayMergePatch(one.Before, one.After, one.Current, meta, true)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.Kind, err)
		}
		patches = append(patches, made)
	}
	return json.NewEncoder(to).Encode(patches)
}
