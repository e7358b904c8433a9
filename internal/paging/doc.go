// Package paging has cursors: pages of a list whose rows may change between the requests.
package paging
