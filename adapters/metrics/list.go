package metrics

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Info describes a metric under reelay_.
type Info struct {
	Name string
	// Kind is counter, gauge or histogram.
	Kind   string
	Labels []string
	Help   string
}

// List describes all metrics under reelay_ by name, with and without values.
func (m *Metrics) List() []Info {
	var all []Info
	for _, collector := range m.own {
		descs := make(chan *prometheus.Desc, 64)
		collector.Describe(descs)
		close(descs)
		for desc := range descs {
			info := infoOf(desc, kindOf(collector))
			if info.Kind == "gauge" && strings.HasSuffix(info.Name, "_total") { // it is counted elsewhere
				info.Kind = "counter"
			}
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func kindOf(collector prometheus.Collector) string {
	switch collector.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	return "gauge"
}

// described is how a Desc, which has no accessors, prints itself.
var described = regexp.MustCompile(`^Desc\{fqName: "(.*?)", help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{(.*)\}\}$`)

func infoOf(desc *prometheus.Desc, kind string) Info {
	found := described.FindStringSubmatch(desc.String())
	if found == nil {
		panic("a metric describes itself in a new way: " + desc.String())
	}
	info := Info{Name: found[1], Kind: kind}
	if _, err := fmt.Sscanf(found[2], "%q", &info.Help); err != nil {
		panic(fmt.Sprintf("the help of %s: %v", info.Name, err)) // %q printed it
	}
	if found[3] != "" {
		info.Labels = strings.Split(found[3], ",")
	}
	return info
}

// Series returns the names of the series of a metric: a histogram has three.
func (i Info) Series() []string {
	if i.Kind == "histogram" {
		return []string{i.Name + "_bucket", i.Name + "_count", i.Name + "_sum"}
	}
	return []string{i.Name}
}
