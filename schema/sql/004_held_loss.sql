-- The loss over held-out data after a checkpoint's step, by which the best are kept; NULL = not said.
ALTER TABLE checkpoints ADD COLUMN held_loss REAL;
