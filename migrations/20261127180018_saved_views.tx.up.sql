-- A list of jobs that somebody named, to open it again.
CREATE TABLE saved_views (
    id         uuid PRIMARY KEY,
    -- Who made it: the id of a key or a member. Only the owner sees a view that is not shared.
    owner      text        NOT NULL CHECK (length(owner) BETWEEN 1 AND 64),
    shared     boolean     NOT NULL DEFAULT false,
    name       text        NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    -- The query of the list's address. It is parsed again each time the view is opened.
    query      text        NOT NULL CHECK (length(query) <= 4000),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- An owner's names are unique, and so are those of shared views.
CREATE UNIQUE INDEX saved_views_by_owner ON saved_views (owner, lower(name)) WHERE NOT shared;
CREATE UNIQUE INDEX saved_views_shared ON saved_views (lower(name)) WHERE shared;
