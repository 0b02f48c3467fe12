-- Which ended attempt's slots a job keeps for its next one; 0 = none.
ALTER TABLE jobs ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
