// Package api serves over HTTP what is known of locks: their state, the terms of their holders, changes as they happen, and a
// status page.
//
//	GET /                     the status page
//	GET /api/v1/locks         the present state of each lock
//	GET /api/v1/terms         terms, newest first, in pages
//	GET /api/v1/events        a stream of server-sent events
//	GET /api/v1/openapi.yaml  all of this, for machines
//
// # Invariants
//
//   - I1: no request waits for a database, and none for another one.
//   - I2: what is not known is said to be unknown, with the reason; it is never the last holder.
//   - I3: a reader of events that does not keep up is disconnected; it can go on with the id of the last event that it got.
//   - I4: nothing that is served holds a secret.
//
// # Concurrency
//
// Handlers, and Events, are safe from any goroutine.
//
// # What this does not guarantee
//
// An event says what a poll saw: what began and ended between two polls was not seen. Events of an earlier process cannot be
// read again: a reader that asks for them is told so by an event named reset, and the terms tell what it has missed.
package api
