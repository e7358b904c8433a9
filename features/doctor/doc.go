// Package doctor checks the guarantees of Reelay on a live system: rows, objects, Redis, and the
// configuration of the stores. Each finding says why it matters and what to do.
package doctor
