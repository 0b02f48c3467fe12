-- What is known of a checkpoint: how long it took (milliseconds, -1 = not said), and where a program says that it lies.
ALTER TABLE checkpoints ADD COLUMN staged_ms INTEGER NOT NULL DEFAULT -1;
ALTER TABLE checkpoints ADD COLUMN durable_ms INTEGER NOT NULL DEFAULT -1;
ALTER TABLE checkpoints ADD COLUMN path TEXT;
ALTER TABLE jobs ADD COLUMN upload_step INTEGER NOT NULL DEFAULT -1;
ALTER TABLE jobs ADD COLUMN upload_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN save_interval TEXT NOT NULL DEFAULT '';
-- The newest request for a checkpoint of an attempt, and its answer.
ALTER TABLE attempts ADD COLUMN checkpoint_on INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN save_asked_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN save_from_step INTEGER NOT NULL DEFAULT -1;
ALTER TABLE attempts ADD COLUMN save_waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN save_step INTEGER NOT NULL DEFAULT -1;
ALTER TABLE attempts ADD COLUMN save_then TEXT NOT NULL DEFAULT 'none';
ALTER TABLE attempts ADD COLUMN save_why TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN save_answer TEXT NOT NULL DEFAULT '';
