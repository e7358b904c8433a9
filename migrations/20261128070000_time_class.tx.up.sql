-- Render times are learned per class of the parameters that a model's entry names. The class is
-- written at submit, so that no read computes it from params.
SET LOCAL lock_timeout = '5s';
ALTER TABLE jobs ADD COLUMN time_class text NOT NULL DEFAULT '';

DELETE FROM render_times;
ALTER TABLE render_times
    DROP CONSTRAINT render_times_pkey,
    DROP COLUMN resolution,
    DROP COLUMN duration_seconds,
    ADD COLUMN time_class text NOT NULL,
    ADD PRIMARY KEY (model, time_class, gpu_type);
