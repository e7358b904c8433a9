SET LOCAL lock_timeout = '5s';

-- Budgets: what an account, or a user of it, may spend in a day or a month of the account's time zone.

ALTER TABLE accounts
    ADD COLUMN time_zone text NOT NULL DEFAULT 'UTC',
    -- It has budgets, so that its jobs are counted in purses.
    ADD COLUMN budgeted boolean NOT NULL DEFAULT false;

-- What the job was expected to cost when it was submitted. NULL: unknown.
ALTER TABLE jobs ADD COLUMN estimated_usd numeric(20, 10) CHECK (estimated_usd >= 0);

-- What an account is charged, by time: for its statements, and for budgets that are set.
CREATE INDEX ledger_of_account ON ledger (account_id, at);

CREATE TABLE budgets (
    id         uuid PRIMARY KEY,
    account_id uuid           NOT NULL REFERENCES accounts,
    -- Of whom: the account as a whole, one user of it, or each user without a budget of their own for this period.
    scope      text           NOT NULL CHECK (scope IN ('ACCOUNT', 'USER', 'EACH_USER')),
    user_id    text           NOT NULL DEFAULT '' CHECK ((user_id <> '') = (scope = 'USER')),
    period     text           NOT NULL CHECK (period IN ('DAY', 'MONTH')),
    limit_usd  numeric(20, 10) NOT NULL CHECK (limit_usd >= 0),
    -- A soft budget only notifies. A hard one refuses submits above it, and at_limit says what becomes of the
    -- waiting jobs once it is spent.
    hard       boolean        NOT NULL,
    at_limit   text           NOT NULL CHECK (at_limit IN ('WAIT', 'CANCEL')),
    -- What a hard budget does with jobs whose cost is unknown.
    unknown    text           NOT NULL CHECK (unknown IN ('REFUSE', 'ALLOW')),
    created_at timestamptz    NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (account_id, scope, user_id, period, hard)
);

-- What an account with budgets (user '') and each user of it has spent in the newest month and day in which something
-- was spent, in the account's time zone, and what its jobs that have not ended are expected to cost.
CREATE TABLE purses (
    account_id   uuid            NOT NULL REFERENCES accounts,
    user_id      text            NOT NULL,
    month        date            NOT NULL,
    month_usd    numeric(20, 10) NOT NULL,
    day          date            NOT NULL,
    day_usd      numeric(20, 10) NOT NULL,
    reserved_usd numeric(20, 10) NOT NULL,
    PRIMARY KEY (account_id, user_id)
);

-- What is to be added to purses. Submits and ends of jobs only add rows here, so that they do not wait for each
-- other; a pass moves them (models/budgets).
CREATE TABLE purse_entries (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id   uuid            NOT NULL,
    user_id      text            NOT NULL,
    at           timestamptz     NOT NULL,
    spent_usd    numeric(20, 10) NOT NULL,
    reserved_usd numeric(20, 10) NOT NULL
);
CREATE INDEX purse_entries_of_account ON purse_entries (account_id);

-- The accounts (user '') and users who have spent a hard budget: none of their jobs starts.
CREATE TABLE budget_holds (
    account_id uuid        NOT NULL REFERENCES accounts,
    user_id    text        NOT NULL,
    budget_id  uuid        NOT NULL REFERENCES budgets ON DELETE CASCADE,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    until      timestamptz NOT NULL,
    PRIMARY KEY (account_id, user_id, budget_id)
);

-- The parts of a budget that were reached, in percent, each told of once in a period.
CREATE TABLE budget_notices (
    budget_id uuid        NOT NULL REFERENCES budgets ON DELETE CASCADE,
    user_id   text        NOT NULL,
    begins    date        NOT NULL,
    percent   integer     NOT NULL,
    spent_usd numeric(20, 10) NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (budget_id, user_id, begins, percent)
);

-- budget_standing returns how much of the budgets of an account is used: a row for each budget of the account and of
-- users, and for each user under a budget of EACH_USER. users NULL means all who have a purse; else, of users, only
-- these.
CREATE FUNCTION budget_standing(account uuid, users text[])
    RETURNS TABLE (budget_id uuid, user_id text, spent_usd numeric, reserved_usd numeric, begins date, starts_at timestamptz, ends_at timestamptz)
    LANGUAGE sql STABLE AS $$
    WITH here AS MATERIALIZED (
        SELECT a.time_zone, clock_timestamp() AT TIME ZONE a.time_zone AS now FROM accounts a WHERE a.id = account
    ),
    periods AS (
        SELECT 'DAY' AS period, date_trunc('day', h.now)::date AS begins, '1 day'::interval AS length, h.time_zone FROM here h
        UNION ALL
        SELECT 'MONTH', date_trunc('month', h.now)::date, '1 month', h.time_zone FROM here h
    ),
    asked AS (
        SELECT '' AS user_id
        UNION SELECT unnest(users)
        UNION SELECT p.user_id FROM purses p WHERE p.account_id = account AND users IS NULL
        UNION SELECT e.user_id FROM purse_entries e WHERE e.account_id = account AND users IS NULL
    ),
    entered AS MATERIALIZED (
        SELECT t.period, coalesce(e.user_id, '') AS user_id, sum(e.spent_usd) FILTER (WHERE (e.at AT TIME ZONE t.time_zone)::date >= t.begins) AS spent,
            sum(e.reserved_usd) AS reserved
        FROM purse_entries e CROSS JOIN periods t WHERE e.account_id = account
        GROUP BY GROUPING SETS ((t.period), (t.period, e.user_id)) HAVING grouping(e.user_id) = 1 OR e.user_id <> ''
    ),
    used AS (
        SELECT a.user_id, p.month, p.month_usd, p.day, p.day_usd, coalesce(p.reserved_usd, 0) AS reserved_usd
        FROM asked a LEFT JOIN purses p ON p.account_id = account AND p.user_id = a.user_id
    )
    SELECT b.id, u.user_id,
        CASE WHEN b.period = 'DAY' AND u.day = t.begins THEN u.day_usd WHEN b.period = 'MONTH' AND u.month = t.begins THEN u.month_usd ELSE 0 END
            + coalesce(e.spent, 0),
        u.reserved_usd + coalesce(e.reserved, 0), t.begins,
        t.begins::timestamp AT TIME ZONE t.time_zone, (t.begins + t.length) AT TIME ZONE t.time_zone
    FROM budgets b
    JOIN periods t ON t.period = b.period
    JOIN used u ON CASE b.scope
        WHEN 'ACCOUNT' THEN u.user_id = ''
        WHEN 'USER' THEN u.user_id = b.user_id
        ELSE u.user_id <> '' AND NOT EXISTS (SELECT FROM budgets own WHERE own.account_id = account AND own.scope = 'USER'
            AND own.user_id = u.user_id AND own.period = b.period AND own.hard = b.hard) END
    LEFT JOIN entered e ON e.period = t.period AND e.user_id = u.user_id
    WHERE b.account_id = account
$$;

-- hold_spent notes who of an account has spent a hard budget. users is as in budget_standing.
CREATE FUNCTION hold_spent(account uuid, users text[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO budget_holds (account_id, user_id, budget_id, until)
    SELECT account, s.user_id, s.budget_id, s.ends_at
    FROM budget_standing(account, users) s JOIN budgets b ON b.id = s.budget_id
    WHERE b.hard AND s.spent_usd >= b.limit_usd
    ON CONFLICT (account_id, user_id, budget_id) DO UPDATE SET until = excluded.until WHERE budget_holds.until <> excluded.until
$$;

-- reserve_job keeps what the jobs of an account with budgets that have not ended are expected to cost.
CREATE FUNCTION reserve_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    job   jobs := coalesce(NEW, OLD);
    delta numeric := 0;
BEGIN
    IF TG_OP <> 'DELETE' AND NEW.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN
        delta := coalesce(NEW.estimated_usd, 0);
    END IF;
    IF TG_OP <> 'INSERT' AND OLD.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN
        delta := delta - coalesce(OLD.estimated_usd, 0);
    END IF;
    IF delta <> 0 THEN
        INSERT INTO purse_entries (account_id, user_id, at, spent_usd, reserved_usd)
        SELECT a.id, coalesce(job.user_id, ''), clock_timestamp(), 0, delta FROM accounts a WHERE a.id = job.account_id AND a.budgeted;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_reserved AFTER INSERT ON jobs FOR EACH ROW WHEN (NEW.estimated_usd > 0) EXECUTE FUNCTION reserve_job();
CREATE TRIGGER jobs_settled AFTER UPDATE ON jobs FOR EACH ROW
    WHEN ((NEW.estimated_usd > 0 OR OLD.estimated_usd > 0) AND (OLD.estimated_usd IS DISTINCT FROM NEW.estimated_usd
        OR (OLD.status IN ('COMPLETED', 'FAILED', 'CANCELLED')) <> (NEW.status IN ('COMPLETED', 'FAILED', 'CANCELLED'))))
    EXECUTE FUNCTION reserve_job();
CREATE TRIGGER jobs_unreserved AFTER DELETE ON jobs FOR EACH ROW
    WHEN (OLD.estimated_usd > 0 AND OLD.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')) EXECUTE FUNCTION reserve_job();

-- spend_budget counts what an account with budgets is charged. An unknown charge counts as it was estimated.
CREATE FUNCTION spend_budget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO purse_entries (account_id, user_id, at, spent_usd, reserved_usd)
    SELECT a.id, coalesce(NEW.user_id, ''), NEW.at,
        coalesce(NEW.charged_usd, (SELECT j.estimated_usd FROM jobs j WHERE j.id = NEW.job_id), 0), 0
    FROM accounts a WHERE a.id = NEW.account_id AND a.budgeted;
    IF FOUND THEN
        PERFORM hold_spent(NEW.account_id, ARRAY[coalesce(NEW.user_id, '')]);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER ledger_spent AFTER INSERT ON ledger FOR EACH ROW WHEN (NEW.charged_usd IS DISTINCT FROM 0) EXECUTE FUNCTION spend_budget();

-- open_purses counts anew what an account and its users have spent and reserved. The caller holds the account's submits
-- (models.LockSubmits) and its row, so that no job of it begins or ends meanwhile.
CREATE FUNCTION open_purses(account uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    zone  text := (SELECT time_zone FROM accounts WHERE id = account);
    today date := (clock_timestamp() AT TIME ZONE zone)::date;
    first date := date_trunc('month', today)::date;
BEGIN
    DELETE FROM purse_entries e WHERE e.account_id = account;
    DELETE FROM purses p WHERE p.account_id = account;
    INSERT INTO purses (account_id, user_id, month, month_usd, day, day_usd, reserved_usd)
    SELECT account, coalesce(x.user_id, ''), first, sum(x.spent), today, coalesce(sum(x.spent) FILTER (WHERE x.at >= today::timestamp AT TIME ZONE zone), 0),
        sum(x.reserved)
    FROM (
        SELECT coalesce(l.user_id, '') AS user_id, l.at,
            coalesce(l.charged_usd, (SELECT j.estimated_usd FROM jobs j WHERE j.id = l.job_id), 0) AS spent, 0::numeric AS reserved
        FROM ledger l WHERE l.account_id = account AND l.charged_usd IS DISTINCT FROM 0 AND l.at >= first::timestamp AT TIME ZONE zone
        UNION ALL
        SELECT coalesce(j.user_id, ''), NULL, 0, j.estimated_usd
        FROM jobs j WHERE j.account_id = account AND j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING') AND j.estimated_usd > 0) x
    GROUP BY GROUPING SETS ((), (x.user_id)) HAVING count(*) > 0 AND (grouping(x.user_id) = 1 OR x.user_id <> '');
END
$$;

-- A webhook can say that a part of a budget was reached.
ALTER TABLE webhook_events ADD COLUMN budget jsonb;
ALTER TABLE webhook_events DROP CONSTRAINT webhook_events_type_check;
ALTER TABLE webhook_events ADD CONSTRAINT webhook_events_type_check CHECK (type IN (
    'job.completed', 'job.failed', 'job.cancelled', 'webhook.test',
    'workflow.completed', 'workflow.failed', 'workflow.cancelled', 'workflow.approval_requested', 'budget.reached')) NOT VALID;
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_type_check;
ALTER TABLE webhook_events ADD CONSTRAINT webhook_events_budget_check CHECK ((budget IS NOT NULL) = (type = 'budget.reached')) NOT VALID;
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_budget_check;
