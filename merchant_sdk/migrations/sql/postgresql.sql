CREATE TABLE IF NOT EXISTS oncegate_once (
    kind text NOT NULL CHECK (kind IN ('call', 'request')),
    key text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('succeeded', 'refused')),
    reply text NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX IF NOT EXISTS oncegate_once_at ON oncegate_once USING brin (at);
