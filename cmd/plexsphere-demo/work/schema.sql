-- The tables of the reference replica's background work. A row falls due by its own columns; what handles it writes to handled.

CREATE TABLE IF NOT EXISTS invitations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL DEFAULT 'pending', expires_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS proposals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL DEFAULT 'open', deadline timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS executions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL DEFAULT 'live', times_out_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, revoked_at timestamptz, expires_at timestamptz NOT NULL, idle_until timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS auth_states (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL, elapses_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS rate_budgets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, last_used timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS sse_nonces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, last_seen timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS credentials (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL, state text NOT NULL DEFAULT 'active', expires_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS projects (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, cluster text, wanted_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS resources (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, declared int NOT NULL DEFAULT 1, reconciled int NOT NULL DEFAULT 0, declared_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS artifacts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, revision int NOT NULL DEFAULT 1, indexed int NOT NULL DEFAULT 0, pushed_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS catalog_sources (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, track_tag text NOT NULL DEFAULT 'v2', imported_tag text NOT NULL DEFAULT 'v1', tagged_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS endpoint_observations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, observed_at timestamptz NOT NULL, tombstoned_at timestamptz);
CREATE TABLE IF NOT EXISTS nodes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL DEFAULT 'reachable', last_seen timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS audit_records (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, object text, written_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS authz_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, mirrored_at timestamptz, written_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, consumed_by text, arrived_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS durables (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, orphaned_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS sse_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, relayed_at timestamptz, published_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS sse_cursor (
    one boolean PRIMARY KEY DEFAULT true CHECK (one));
CREATE TABLE IF NOT EXISTS sse_signing_key (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), version bigint NOT NULL DEFAULT 1);
CREATE TABLE IF NOT EXISTS capacity (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), used_percent int NOT NULL DEFAULT 0, swings int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS capacity_crossings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, used_percent int NOT NULL, crossed_at timestamptz NOT NULL DEFAULT clock_timestamp());
INSERT INTO sse_cursor DEFAULT VALUES ON CONFLICT DO NOTHING;
INSERT INTO sse_signing_key DEFAULT VALUES ON CONFLICT DO NOTHING;
INSERT INTO capacity DEFAULT VALUES ON CONFLICT DO NOTHING;

-- The books: what will fall due, what was handled, and each pass, also one that found nothing to do. No constraint keeps a row from being handled twice: that is to be seen.
CREATE TABLE IF NOT EXISTS due (
    loop text NOT NULL, id bigint NOT NULL, due_at timestamptz NOT NULL, PRIMARY KEY (loop, id));
CREATE TABLE IF NOT EXISTS handled (
    loop text NOT NULL, id bigint NOT NULL, replica text NOT NULL DEFAULT current_setting('application_name'),
    origin text NOT NULL, fence bigint, handled_at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX IF NOT EXISTS handled_by_row ON handled (loop, id);
CREATE TABLE IF NOT EXISTS passes (
    pass text NOT NULL, replica text NOT NULL DEFAULT current_setting('application_name'), origin text NOT NULL, fence bigint,
    began_at timestamptz NOT NULL DEFAULT statement_timestamp(), ended_at timestamptz NOT NULL DEFAULT clock_timestamp());
