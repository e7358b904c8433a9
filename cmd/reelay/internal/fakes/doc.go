// Package fakes runs fakes of hosted providers, with which `reelay up --fake-providers` shows Reelay
// without an account of one.
package fakes
