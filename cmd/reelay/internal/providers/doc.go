// Package providers has `reelay providers`, for those who write a program of the provider command.
package providers
