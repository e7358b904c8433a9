-- The running processes of Reelay: for those who look after them. A process deletes its row when it
-- ends; what is silent for an hour is forgotten.
CREATE TABLE replicas (
    id         uuid PRIMARY KEY,
    kind       text        NOT NULL CHECK (kind IN ('api', 'control')),
    version    text        NOT NULL,
    host       text        NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50);
