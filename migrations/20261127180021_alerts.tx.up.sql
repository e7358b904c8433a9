-- Alerts: rules that control evaluates. A row is one time during which the condition of a rule
-- holds: pending first, then firing, at last resolved.
CREATE TABLE alerts (
    id              uuid PRIMARY KEY,
    rule            text             NOT NULL,
    severity        text             NOT NULL CHECK (severity IN ('P1', 'P2', 'P3')),
    message         text             NOT NULL,
    value           double precision NOT NULL,
    threshold       double precision NOT NULL,
    -- Since when the condition holds.
    since           timestamptz      NOT NULL,
    -- When it was last found to hold. Pending rows that nobody evaluated for a while start again.
    held_at         timestamptz      NOT NULL,
    -- Since when it does not hold any more, while the alert fires.
    clear_since     timestamptz,
    fired_at        timestamptz,
    resolved_at     timestamptz,
    acknowledged_at timestamptz,
    acknowledged_by uuid             REFERENCES api_keys,
    CHECK (resolved_at IS NULL OR fired_at IS NOT NULL),
    CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL))
);
CREATE UNIQUE INDEX alerts_open ON alerts (rule) WHERE resolved_at IS NULL;
CREATE INDEX alerts_fired ON alerts (fired_at DESC, id DESC) WHERE fired_at IS NOT NULL;

-- Times in which a rule, or all of them, notifies nobody.
CREATE TABLE alert_silences (
    id         uuid PRIMARY KEY,
    -- Empty: all rules.
    rule       text        NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by uuid        NOT NULL REFERENCES api_keys,
    until      timestamptz NOT NULL CHECK (until > created_at)
);
CREATE INDEX alert_silences_until ON alert_silences (until);

-- What is sent to the receivers of alerts. route is a name in the configuration.
CREATE TABLE alert_notices (
    id           uuid PRIMARY KEY,
    -- NULL: a daily digest.
    alert_id     uuid        REFERENCES alerts ON DELETE CASCADE,
    event        text        NOT NULL CHECK (event IN ('FIRED', 'RESOLVED', 'ACKNOWLEDGED', 'DIGEST')),
    route        text        NOT NULL,
    -- The text of a digest.
    body         text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it is due. NULL: it was sent, or given up.
    next_at      timestamptz DEFAULT clock_timestamp(),
    tries        integer     NOT NULL DEFAULT 0 CHECK (tries >= 0),
    sent_at      timestamptz,
    last_error   text,
    UNIQUE (alert_id, event, route)
);
CREATE INDEX alert_notices_due ON alert_notices (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX alert_notices_created ON alert_notices (created_at DESC, id DESC);

-- The days, in the zone of the digest, for which a digest was written.
CREATE TABLE alert_digests (
    day        date PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
