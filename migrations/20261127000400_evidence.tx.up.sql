-- Frames that show why a video was refused. The new check allows all that the old one did.
SET LOCAL lock_timeout = '5s';
ALTER TABLE artifacts DROP CONSTRAINT artifacts_type_check,
    ADD CONSTRAINT artifacts_type_check
        CHECK (type IN ('INPUT', 'CHECKPOINT', 'PREVIEW', 'FINAL_VIDEO', 'THUMBNAIL', 'SPRITESHEET', 'LOG', 'EVIDENCE')) NOT VALID;
