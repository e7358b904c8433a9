SET LOCAL lock_timeout = '5s';

-- Keys with the role VIEWER read what operators read. The table is small: its check is quick.
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_role_check,
    ADD CONSTRAINT api_keys_role_check CHECK (role IN ('CLIENT', 'WORKER', 'VIEWER', 'OPERATOR', 'ADMIN'));
