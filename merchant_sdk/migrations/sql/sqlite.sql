CREATE TABLE IF NOT EXISTS oncegate_once (
    kind TEXT NOT NULL CHECK (kind IN ('call', 'request')),
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('succeeded', 'refused')),
    reply TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oncegate_once_at ON oncegate_once (at);
