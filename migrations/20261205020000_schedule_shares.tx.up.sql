-- The slots that wait are shared out by account, and an account has a bounded number of them.
SET LOCAL lock_timeout = '5s';

ALTER TABLE schedules
    -- How many slots it has in its busiest hour. Control corrects the default when a schedule fires next.
    ADD COLUMN slots_an_hour integer NOT NULL DEFAULT 1 CHECK (slots_an_hour >= 1),
    -- Since when its slots are not decided, since too many of its account wait.
    ADD COLUMN held_at timestamptz;

-- Whose slot it is. Only slots that wait need it, and they are few.
ALTER TABLE schedule_slots ADD COLUMN account_id uuid;
UPDATE schedule_slots sl SET account_id = sc.account_id FROM schedules sc WHERE sc.id = sl.schedule_id AND sl.due_at IS NOT NULL;
ALTER TABLE schedule_slots ADD CONSTRAINT schedule_slots_account CHECK (due_at IS NULL OR account_id IS NOT NULL) NOT VALID;
