// Package servers has the commands that run Reelay, and those that open its stores themselves:
// their configuration, what they construct from it, and the processes of `reelay up`.
package servers
