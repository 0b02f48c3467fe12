/* store_columns: which field of each record is which column (schema/sql/). What is not here is not stored: job_record.yaml and
 * spec (table specs), attempt placements and nodes (own tables), a node's connection and heartbeat (not kept at all). */
#include "daemon/store_private.h"

#define JOB(name, kind)      COLUMN(job_record, #name, COLUMN_##kind, name)
#define PROGRESS(name, kind) COLUMN(job_record, #name, COLUMN_##kind, progress.name)
#define LOST(record, name)   COLUMN(record, "lost_" #name, COLUMN_INT64, lost.name)
#define ATTEMPT(name, kind)  COLUMN(attempt_record, #name, COLUMN_##kind, name)
#define NODE(name, kind)     COLUMN(node_record, #name, COLUMN_##kind, name)
#define EVENT(name, kind)    COLUMN(event_record, #name, COLUMN_##kind, name)
#define SAVE(name, kind)     COLUMN(attempt_record, "save_" #name, COLUMN_##kind, save.name)
#define CHECKPOINT(name)     COLUMN(checkpoint_record, #name, COLUMN_INT64, name)
#define TABLE(name, keys, columns, extra_or_null)                                                            \
    {                                                                                                        \
        name, keys, columns, sizeof(columns) / sizeof((columns)[0]), extra_or_null                           \
    }

static const struct column jobs[] = {
    JOB(id, INT64),
    JOB(rev, INT64),
    JOB(key, TEXT),
    JOB(user, TEXT),
    JOB(uid, INT64),
    JOB(gid, INT64),
    JOB(cwd, TEXT),
    JOB(state, JOB_STATE),
    JOB(reason, TEXT),
    JOB(attempt, INT64),
    JOB(restarts, INT64),
    JOB(cancel_requested, BOOL),
    JOB(hold_requested, BOOL),
    JOB(not_before_ms, INT64),
    JOB(submitted_ms, INT64),
    JOB(started_ms, INT64),
    JOB(ended_ms, INT64),
    JOB(productive_ms, INT64),
    LOST(job_record, detect),
    LOST(job_record, stop),
    LOST(job_record, place),
    LOST(job_record, load),
    LOST(job_record, replay),
    PROGRESS(step, INT64),
    PROGRESS(steps, INT64),
    PROGRESS(loss, REAL),
    PROGRESS(tokens_per_second, REAL),
    PROGRESS(mfu, REAL),
    PROGRESS(phase, CHARS),
    PROGRESS(status, CHARS),
    PROGRESS(checkpoint_step, INT64),
    PROGRESS(checkpoint_ms, INT64),
    PROGRESS(checkpoint_bytes, INT64),
    PROGRESS(updated_ms, INT64),
    PROGRESS(upload_step, INT64),
    PROGRESS(upload_ms, INT64),
    COLUMN(job_record, "save_interval", COLUMN_CHARS, progress.interval),
    JOB(kept, INT64),
    JOB(first_failure_rank, INT64),
    JOB(exit_code, INT),
};
const struct columns store_jobs = TABLE("jobs", "id", jobs, NULL);

static const struct column attempts[] = {
    ATTEMPT(job, INT64),
    ATTEMPT(number, INT64),
    ATTEMPT(state, ATTEMPT_STATE),
    ATTEMPT(outcome, OUTCOME),
    ATTEMPT(reason, TEXT),
    ATTEMPT(token, CHARS),
    ATTEMPT(created_ms, INT64),
    ATTEMPT(running_ms, INT64),
    ATTEMPT(failed_ms, INT64),
    ATTEMPT(ended_ms, INT64),
    ATTEMPT(from_step, INT64),
    ATTEMPT(to_step, INT64),
    LOST(attempt_record, detect),
    LOST(attempt_record, stop),
    LOST(attempt_record, place),
    LOST(attempt_record, load),
    LOST(attempt_record, replay),
    ATTEMPT(checkpoint_request, INT64),
    ATTEMPT(checkpoint_on, BOOL),
    SAVE(asked_ms, INT64),
    SAVE(from_step, INT64),
    SAVE(waiting, BOOL),
    SAVE(step, INT64),
    SAVE(then, OUTCOME),
    SAVE(why, CHARS),
    SAVE(answer, CHARS),
};
const struct columns store_attempts = TABLE("attempts", "job, number", attempts, NULL);

static const struct column nodes[] = {
    NODE(name, CHARS),
    NODE(state, NODE_STATE),
    NODE(reason, TEXT),
    NODE(since_ms, INT64),
    NODE(drain_requested, BOOL),
    NODE(drain_now, BOOL),
    NODE(drain_deadline_ms, INT64),
    NODE(boot, CHARS),
};
const struct columns store_nodes = TABLE("nodes", "name", nodes, "inventory");

static const struct column events[] = {
    EVENT(id, INT64),      EVENT(time_ms, INT64), EVENT(kind, CHARS), EVENT(job, INT64),
    EVENT(attempt, INT64), EVENT(rank, INT64),    EVENT(node, CHARS), EVENT(text, TEXT),
};
const struct columns store_events_columns = TABLE("events", "id", events, NULL);

static const struct column checkpoints[] = {
    CHECKPOINT(job),
    CHECKPOINT(step),
    CHECKPOINT(attempt),
    CHECKPOINT(time_ms),
    CHECKPOINT(bytes),
    CHECKPOINT(staged_ms),
    CHECKPOINT(durable_ms),
    COLUMN(checkpoint_record, "path", COLUMN_TEXT, path),
    COLUMN(checkpoint_record, "held_loss", COLUMN_REAL, held_loss),
};
const struct columns store_checkpoints_columns = TABLE("checkpoints", "job, step", checkpoints, NULL);
