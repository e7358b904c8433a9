// Package packages holds the descriptions of the Debian packages, and what only they have: systemd
// units, settings and scripts. deploy/release builds the packages.
package packages
