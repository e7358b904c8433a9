// Package access has the commands about accounts, keys and members.
package access
