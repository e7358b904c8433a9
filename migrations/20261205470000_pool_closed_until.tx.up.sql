-- When the active hours of a pool begin again, as the scaler last found it outside of them. NULL within them.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools ADD COLUMN closed_until timestamptz;
