-- No CHECK: PostgreSQL parses one anew for every INSERT and UPDATE, a tenth of what they cost.
CREATE TABLE IF NOT EXISTS oncegate_once (
    kind text NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,
    outcome text NOT NULL,
    reply text NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX IF NOT EXISTS oncegate_once_at ON oncegate_once USING brin (at);
