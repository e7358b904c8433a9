// Package periodic runs passes at intervals, and shares them out between processes.
package periodic
