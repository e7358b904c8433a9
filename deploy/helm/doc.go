// Package helm has the chart of Helm, and its tests. docs/operators/helm.md describes it.
package helm
