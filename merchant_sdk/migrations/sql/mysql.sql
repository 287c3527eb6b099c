CREATE TABLE IF NOT EXISTS oncegate_once (
    kind VARCHAR(7) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    `key` VARBINARY(1024) NOT NULL,
    fingerprint VARBINARY(1024) NOT NULL,
    outcome VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reply LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (kind, `key`),
    KEY oncegate_once_at (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
