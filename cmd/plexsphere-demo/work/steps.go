package work

// Ticked returns the steps of the ticked loops, in the order of the spec's table. A loop may have more than one.
func Ticked() []Step { return append(sweeps(), reconciles()...) }

// sweeps returns the steps that end what has run out.
func sweeps() []Step {
	return []Step{
		{
			Loop:   "invitations-expire",
			handle: `UPDATE invitations SET state = 'expired' WHERE state = 'pending' AND expires_at <= now() RETURNING id`,
			seed:   `INSERT INTO invitations (expires_at) VALUES (now() + $1) RETURNING id`,
		},
		{
			Loop:   "approvals-expire",
			handle: `UPDATE proposals SET state = 'expired' WHERE state = 'open' AND deadline <= now() RETURNING id`,
			seed:   `INSERT INTO proposals (deadline) VALUES (now() + $1) RETURNING id`,
		},
		{
			Loop:   "actions-timeout",
			handle: `UPDATE executions SET state = 'timed out' WHERE state = 'live' AND times_out_at <= now() RETURNING id`,
			seed:   `INSERT INTO executions (times_out_at) VALUES (now() + $1) RETURNING id`,
		},
		{
			Loop:   "access-session-sweep",
			handle: `UPDATE sessions SET revoked_at = now() WHERE revoked_at IS NULL AND least(expires_at, idle_until) <= now() RETURNING id`,
			seed:   `INSERT INTO sessions (expires_at, idle_until) VALUES (now() + interval '12 hours', now() + $1) RETURNING id`,
		},
		{
			Loop:   "auth-state-sweep",
			handle: `DELETE FROM auth_states WHERE elapses_at <= now() RETURNING id`,
			seed:   `INSERT INTO auth_states (kind, elapses_at) VALUES ('sign-in', now() + $1) RETURNING id`,
		},
		{
			Loop:   "rate-budget-sweep",
			handle: `DELETE FROM rate_budgets WHERE last_used <= now() - interval '1 hour' RETURNING id`,
			seed:   `INSERT INTO rate_budgets (last_used) VALUES (now() - interval '1 hour' + $1) RETURNING id`,
		},
		{
			Loop:   "sse-nonce-sweep",
			handle: `DELETE FROM sse_nonces WHERE last_seen <= now() - interval '5 minutes' RETURNING id`,
			seed:   `INSERT INTO sse_nonces (last_seen) VALUES (now() - interval '5 minutes' + $1) RETURNING id`,
		},
		{
			Loop: "credentials-sweeper",
			handle: `UPDATE credentials SET state = 'expired'
				WHERE kind = 'node' AND state = 'active' AND expires_at <= now() RETURNING id`,
			seed: `INSERT INTO credentials (kind, expires_at) VALUES ('node', now() + $1) RETURNING id`,
		},
		{
			Loop: "cloud-credentials-sweeper",
			handle: `UPDATE credentials SET state = 'expired'
				WHERE kind = 'cloud' AND state = 'active' AND expires_at <= now() RETURNING id`,
			seed: `INSERT INTO credentials (kind, expires_at) VALUES ('cloud', now() + $1) RETURNING id`,
		},
	}
}

// reconciles returns the steps that bring what is there to what was asked for.
func reconciles() []Step {
	return []Step{
		{
			Loop:   "management-fleet-reconcile",
			handle: `UPDATE projects SET cluster = 'cluster-' || id % 3 WHERE cluster IS NULL AND wanted_at <= now() RETURNING id`,
			seed:   `INSERT INTO projects (wanted_at) VALUES (now() + $1) RETURNING id`,
		},
		{
			Loop:   "provisioning-broker-reconcile",
			handle: `UPDATE resources SET reconciled = declared WHERE reconciled < declared AND declared_at <= now() RETURNING id`,
			seed:   `INSERT INTO resources (declared_at) VALUES (now() + $1) RETURNING id`,
		},
		{
			Loop:   "artifacts-refresh",
			handle: `UPDATE artifacts SET indexed = revision WHERE indexed < revision AND pushed_at <= now() RETURNING id`,
			seed:   `INSERT INTO artifacts (pushed_at) VALUES (now() + $1) RETURNING id`,
		},
		{
			Loop:   "blueprint-catalogs-tracking",
			handle: `UPDATE catalog_sources SET imported_tag = track_tag WHERE imported_tag <> track_tag AND tagged_at <= now() RETURNING id`,
			seed:   `INSERT INTO catalog_sources (tagged_at) VALUES (now() + $1) RETURNING id`,
		},
		{
			Loop: "peers-endpoint-sweeper",
			handle: `UPDATE endpoint_observations SET tombstoned_at = now()
				WHERE tombstoned_at IS NULL AND observed_at <= now() - interval '10 minutes' RETURNING id`,
			seed: `INSERT INTO endpoint_observations (observed_at) VALUES (now() - interval '10 minutes' + $1) RETURNING id`,
		},
		{
			Loop:   "reachability-evaluator",
			Pass:   "reachability-evaluator, stale",
			handle: `UPDATE nodes SET state = 'stale' WHERE state = 'reachable' AND last_seen <= now() - interval '1 minute' RETURNING id`,
			seed:   `INSERT INTO nodes (last_seen) VALUES (now() - interval '1 minute' + $1) RETURNING id`,
		},
		{
			Loop:   "reachability-evaluator",
			Pass:   "reachability-evaluator, recovery", // a node that is seen in the future stays reachable
			atOnce: true,
			handle: `UPDATE nodes SET state = 'reachable' WHERE state = 'stale' AND last_seen > now() RETURNING id`,
			seed:   `INSERT INTO nodes (state, last_seen) VALUES ('stale', now() + $1 + interval '100 years') RETURNING id`,
		},
	}
}

// Archive drains a batch of the audit records to the object store.
func Archive() Step {
	return Step{
		Loop: "audit-archiver",
		handle: `UPDATE audit_records SET object = 'audit/' || id WHERE object IS NULL AND id IN (
			SELECT id FROM audit_records WHERE object IS NULL AND written_at <= now() ORDER BY id LIMIT 100) RETURNING id`,
		seed: `INSERT INTO audit_records (written_at) VALUES (now() + $1) RETURNING id`,
	}
}

// Mirror mirrors a batch of the outbox into the store of relations.
func Mirror() Step {
	return Step{
		Loop: "authz-outbox-consumer",
		handle: `UPDATE authz_outbox SET mirrored_at = now() WHERE mirrored_at IS NULL AND id IN (
			SELECT id FROM authz_outbox WHERE mirrored_at IS NULL AND written_at <= now() ORDER BY id LIMIT 100) RETURNING id`,
		seed: `INSERT INTO authz_outbox (written_at) VALUES (now() + $1) RETURNING id`,
	}
}

// Consume takes a share of the deliveries, beside other replicas.
func Consume() Step {
	return Step{
		Loop: "observability-routing-consume",
		handle: `UPDATE deliveries SET consumed_by = current_setting('application_name') WHERE id IN (
			SELECT id FROM deliveries WHERE consumed_by IS NULL AND arrived_at <= now() LIMIT 10 FOR UPDATE SKIP LOCKED) RETURNING id`,
		seed: `INSERT INTO deliveries (arrived_at) VALUES (now() + $1) RETURNING id`,
	}
}

// RemoveDurables removes orphaned durables: the gated step of the loop that consumes. It has a name of its own in the books.
func RemoveDurables() Step {
	return Step{
		Loop:   "observability-routing-durables",
		handle: `DELETE FROM durables WHERE orphaned_at <= now() RETURNING id`,
		seed:   `INSERT INTO durables (orphaned_at) VALUES (now() + $1) RETURNING id`,
	}
}

// Relay relays what was published. Only the replica that has the cursor's row locked does; others skip.
func Relay() Step {
	return Step{
		Loop: "sse-relay",
		handle: `UPDATE sse_events SET relayed_at = now() WHERE relayed_at IS NULL AND published_at <= now()
			AND EXISTS (SELECT FROM sse_cursor FOR UPDATE SKIP LOCKED) RETURNING id`,
		seed: `INSERT INTO sse_events (published_at) VALUES (now() + $1) RETURNING id`,
	}
}

// all returns the steps of all loops.
func all() []Step {
	return append(Ticked(), Archive(), Mirror(), Consume(), RemoveDurables(), Relay())
}
