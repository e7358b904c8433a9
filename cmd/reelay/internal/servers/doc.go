// Package servers has the commands that run Reelay, and those that open its stores themselves: what
// they construct from their settings, and the processes of `reelay up`.
package servers
