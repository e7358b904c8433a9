-- The catalogue: the models that jobs can name, and the aliases that spread jobs over models.
-- An entry never changes: a change of a model is a new version of it, and a job keeps the version
-- that it was validated with.
CREATE SEQUENCE catalogue_changes;

CREATE TABLE catalogue_entries (
    name       text        NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    version    integer     NOT NULL CHECK (version >= 1),
    is_alias   boolean     NOT NULL,
    -- As it was written: the order of its keys is the order in which people see them.
    entry      json        NOT NULL,
    -- Whether it came with Reelay, from the folder REELAY_MODELS, or from an operator.
    origin     text        NOT NULL CHECK (origin IN ('SHIPPED', 'FOLDER', 'OPERATOR')),
    -- The version that new jobs use. A removed entry has none.
    current    boolean     NOT NULL,
    -- Grows with every change of the table, so that processes notice one.
    change     bigint      NOT NULL DEFAULT nextval('catalogue_changes'),
    created_by text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the entry was removed, and by whom. A removed entry has no current version; these are of its newest.
    removed_at timestamptz,
    removed_by text,
    PRIMARY KEY (name, version)
);

CREATE UNIQUE INDEX catalogue_entries_current ON catalogue_entries (name) WHERE current;
