// Package leadertest is a scripted PostgreSQL for testing/synctest bubbles.
//
// A Server speaks the wire protocol over in-memory connections: the real pgx, the real pgxpool and the real
// leader.Elector run against it, on the fake clock of the bubble. Hours of election pass in milliseconds, and a test says
// exactly when a network is cut, a backend ends or a server stops. Use it to test what your own loops do when leadership
// moves:
//
//	synctest.Test(t, func(t *testing.T) {
//		server := leadertest.NewServer(t)
//		a := server.Client("a")
//		elector, _ := leader.New(leader.Config{Pool: a.Pool(t)})
//		// ... go elector.Run(ctx), then:
//		a.Cut()                      // the network of replica a drops everything
//		time.Sleep(10 * time.Second) // fake time; a has demoted itself, and its lock is free again
//	})
//
// # What it knows
//
// Session advisory locks with PostgreSQL's counting, their end with the session, idle_session_timeout, recovery, and the
// version. It answers the elector's statements, plain calls of the lock functions, SELECT 1, pings, SHOW
// idle_session_timeout, and whatever Script taught it, all over the simple query protocol (pgx.QueryExecModeSimpleProtocol,
// which the pools it hands out use). Everything else gets an error that says so. It is no SQL engine: what must be true of
// PostgreSQL itself is tested against PostgreSQL.
//
// # Histories
//
// A History takes what replicas and server saw happen, from a bubble or from processes on a real PostgreSQL. Its Check
// decides whether the election kept its promises: one holder, rising fences, and the bounds of each Fault.
//
//	var h leadertest.History
//	elector, _ := leader.New(leader.Config{Pool: pool, Registerer: h.Registerer("a")}) // records the terms
//	h.Started("a")                                  // then go elector.Run(ctx)
//	h.Do(ctx, elector, "a", work)                   // records the units of work
//	h.LockGranted(pid, "a")                         // by whoever watches the server
//	h.FaultBegan("a", leadertest.Partition)         // by whoever cuts the network, just before
//	report, err := h.Check(leadertest.Config{})     // err joins a *Violation for each broken promise
//
// # Concurrency
//
// Every method of Server, Client and History is safe from any goroutine, those of Server and Client within its bubble.
// NewServer and Pool must be called inside it; both clean up at the end of the test, so that no goroutine is left in the
// bubble.
package leadertest
