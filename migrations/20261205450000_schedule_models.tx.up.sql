-- The models of the jobs that a schedule's workflow has, since its request is sealed: a model that
-- schedules submit is not removed unnoticed. It is filled when the workflow is written.
SET LOCAL lock_timeout = '5s';
ALTER TABLE schedules ADD COLUMN models text[];
