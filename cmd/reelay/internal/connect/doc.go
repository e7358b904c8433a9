// Package connect is the way of a command to a server: which API it calls and with whose key, the
// call or the list that it shows, ids and their completion, and what a user can do about an error.
// It also has the commands about the connection itself, such as `reelay login`.
package connect
