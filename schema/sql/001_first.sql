-- What belayd knows, one table a record (daemon/core/records.h). Times are UTC milliseconds, 0 = not yet.
-- States are stored by name, so that a new state never changes the meaning of an old row.
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE jobs (
  id                  INTEGER PRIMARY KEY,
  rev                 INTEGER NOT NULL,
  key                 TEXT,
  user                TEXT NOT NULL,
  uid                 INTEGER NOT NULL,
  gid                 INTEGER NOT NULL,
  cwd                 TEXT NOT NULL,
  state               TEXT NOT NULL,
  reason              TEXT NOT NULL,
  attempt             INTEGER NOT NULL,
  restarts            INTEGER NOT NULL,
  cancel_requested    INTEGER NOT NULL,
  hold_requested      INTEGER NOT NULL,
  not_before_ms       INTEGER NOT NULL,
  submitted_ms        INTEGER NOT NULL,
  started_ms          INTEGER NOT NULL,
  ended_ms            INTEGER NOT NULL,
  productive_ms       INTEGER NOT NULL,
  lost_detect         INTEGER NOT NULL,
  lost_stop           INTEGER NOT NULL,
  lost_place          INTEGER NOT NULL,
  lost_load           INTEGER NOT NULL,
  lost_replay         INTEGER NOT NULL,
  step                INTEGER NOT NULL,
  steps               INTEGER NOT NULL,
  loss                REAL,
  tokens_per_second   REAL,
  mfu                 REAL,
  phase               TEXT NOT NULL,
  status              TEXT NOT NULL,
  checkpoint_step     INTEGER NOT NULL,
  checkpoint_ms       INTEGER NOT NULL,
  checkpoint_bytes    INTEGER NOT NULL,
  updated_ms          INTEGER NOT NULL,
  first_failure_rank  INTEGER NOT NULL,
  exit_code           INTEGER NOT NULL
);
-- The last fence against one submit stored twice.
CREATE UNIQUE INDEX jobs_by_key ON jobs (uid, key) WHERE key IS NOT NULL;

-- Job files apart: a job's row is written again at every change, its file never.
CREATE TABLE specs (
  job  INTEGER PRIMARY KEY,
  yaml TEXT NOT NULL
);

CREATE TABLE attempts (
  job                INTEGER NOT NULL,
  number             INTEGER NOT NULL,
  state              TEXT NOT NULL,
  outcome            TEXT NOT NULL,
  reason             TEXT NOT NULL,
  token              TEXT NOT NULL,
  created_ms         INTEGER NOT NULL,
  running_ms         INTEGER NOT NULL,
  failed_ms          INTEGER NOT NULL,
  ended_ms           INTEGER NOT NULL,
  from_step          INTEGER NOT NULL,
  to_step            INTEGER NOT NULL,
  lost_detect        INTEGER NOT NULL,
  lost_stop          INTEGER NOT NULL,
  lost_place         INTEGER NOT NULL,
  lost_load          INTEGER NOT NULL,
  lost_replay        INTEGER NOT NULL,
  checkpoint_request INTEGER NOT NULL,
  PRIMARY KEY (job, number)
) WITHOUT ROWID;

-- ranks: JSON [[rank, node, slot, tp, pp, cp, dp], ...] in rank order; then the spares, with rank -1.
CREATE TABLE placements (
  job    INTEGER NOT NULL,
  number INTEGER NOT NULL,
  ranks  TEXT NOT NULL,
  PRIMARY KEY (job, number)
);

-- One row a node of an attempt, in node_rank order; report: the newest REPORT (docs/protocols.md) or NULL.
CREATE TABLE attempt_nodes (
  job       INTEGER NOT NULL,
  number    INTEGER NOT NULL,
  node_rank INTEGER NOT NULL,
  node      TEXT NOT NULL,
  report    TEXT,
  PRIMARY KEY (job, number, node_rank)
) WITHOUT ROWID;

CREATE TABLE nodes (
  name              TEXT PRIMARY KEY,
  state             TEXT NOT NULL,
  reason            TEXT NOT NULL,
  since_ms          INTEGER NOT NULL,
  drain_requested   INTEGER NOT NULL,
  drain_now         INTEGER NOT NULL,
  drain_deadline_ms INTEGER NOT NULL,
  boot              TEXT NOT NULL,
  inventory         TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE events (
  id      INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  job     INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank    INTEGER NOT NULL,
  node    TEXT NOT NULL,
  text    TEXT NOT NULL
);
CREATE INDEX events_by_job ON events (job, id);
CREATE INDEX events_by_node ON events (node, id);

CREATE TABLE checkpoints (
  job     INTEGER NOT NULL,
  step    INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  bytes   INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) WITHOUT ROWID;
