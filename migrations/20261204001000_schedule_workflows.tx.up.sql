-- A schedule can submit a workflow in place of a job.
SET LOCAL lock_timeout = '5s';

-- What lists show of a workflow: its name, and how many jobs it has. Then the schedule has no model.
-- The check finds nothing: the schedules of before have models.
ALTER TABLE schedules
    ADD COLUMN workflow      text,
    ADD COLUMN workflow_jobs integer CHECK (workflow_jobs >= 1),
    ADD CONSTRAINT schedules_submits CHECK (
        (model = '') = (workflow IS NOT NULL) AND (workflow IS NULL) = (workflow_jobs IS NULL)) NOT VALID;

-- What a slot submitted: a job or a workflow. Retention deletes both without asking slots.
ALTER TABLE schedule_slots
    ADD COLUMN workflow_id uuid,
    DROP CONSTRAINT schedule_slots_check2,
    ADD CONSTRAINT schedule_slots_fired CHECK (num_nonnulls(job_id, workflow_id) = (state = 'FIRED')::integer) NOT VALID;
