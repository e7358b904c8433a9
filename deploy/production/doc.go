// Package production tries docs/operators/production.md: it runs the commands of the page on small Debian machines,
// which are containers of systemd in network namespaces. `go tool task test:production` runs it.
package production
