SET LOCAL lock_timeout = '5s';

-- The sums of days of all accounts together, so that a report of a year reads as many rows for one account as for
-- thousands.
CREATE TABLE ledger_fleet_days (
    day            date             NOT NULL,
    type           text             NOT NULL,
    model          text             NOT NULL,
    pool           text             NOT NULL,
    provider       text             NOT NULL,
    region         text             NOT NULL,
    gpu_type       text             NOT NULL,
    attempts       bigint           NOT NULL,
    completed      bigint           NOT NULL,
    unpriced       bigint           NOT NULL,
    useful_seconds float8           NOT NULL,
    wasted_seconds float8           NOT NULL,
    useful_usd     numeric(20, 10)  NOT NULL,
    wasted_usd     numeric(20, 10)  NOT NULL,
    charged_usd    numeric(20, 10)  NOT NULL,
    PRIMARY KEY (day, type, model, pool, provider, region, gpu_type)
);

-- The sums of months (UTC) that are over, for reports by account and by user.
CREATE TABLE ledger_months (
    account_id     uuid             NOT NULL,
    month          date             NOT NULL,
    attempts       bigint           NOT NULL,
    completed      bigint           NOT NULL,
    unpriced       bigint           NOT NULL,
    useful_seconds float8           NOT NULL,
    wasted_seconds float8           NOT NULL,
    useful_usd     numeric(20, 10)  NOT NULL,
    wasted_usd     numeric(20, 10)  NOT NULL,
    charged_usd    numeric(20, 10)  NOT NULL,
    PRIMARY KEY (account_id, month)
);
CREATE TABLE ledger_user_months (
    account_id     uuid             NOT NULL,
    month          date             NOT NULL,
    user_id        text             NOT NULL,
    attempts       bigint           NOT NULL,
    completed      bigint           NOT NULL,
    unpriced       bigint           NOT NULL,
    useful_seconds float8           NOT NULL,
    wasted_seconds float8           NOT NULL,
    useful_usd     numeric(20, 10)  NOT NULL,
    wasted_usd     numeric(20, 10)  NOT NULL,
    charged_usd    numeric(20, 10)  NOT NULL,
    PRIMARY KEY (account_id, month, user_id)
);
CREATE INDEX ledger_user_months_by_month ON ledger_user_months (month);

INSERT INTO ledger_fleet_days
SELECT day, type, model, pool, provider, region, gpu_type, sum(attempts), sum(completed), sum(unpriced), sum(useful_seconds), sum(wasted_seconds),
    sum(useful_usd), sum(wasted_usd), sum(charged_usd)
FROM ledger_days GROUP BY day, type, model, pool, provider, region, gpu_type;

INSERT INTO ledger_months
SELECT account_id, date_trunc('month', day::timestamp)::date, sum(attempts), sum(completed), sum(unpriced), sum(useful_seconds), sum(wasted_seconds),
    sum(useful_usd), sum(wasted_usd), sum(charged_usd)
FROM ledger_days WHERE day < (SELECT date_trunc('month', until, 'UTC') AT TIME ZONE 'UTC' FROM ledger_closing) GROUP BY 1, 2;

INSERT INTO ledger_user_months
SELECT account_id, date_trunc('month', day::timestamp)::date, user_id, sum(attempts), sum(completed), sum(unpriced), sum(useful_seconds),
    sum(wasted_seconds), sum(useful_usd), sum(wasted_usd), sum(charged_usd)
FROM ledger_user_days WHERE day < (SELECT date_trunc('month', until, 'UTC') AT TIME ZONE 'UTC' FROM ledger_closing) GROUP BY 1, 2, 3;
