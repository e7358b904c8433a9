// Package prices reads what the workers of pools cost from the sources that operators configure: a
// file, a URL, or a program. A pool names a source; only the configuration says where it leads.
package prices
