/* save: see save.h.
 *
 * A save is a flight: staged by all ranks at the same step, then SEALING (each rank's thread writes its shard), then COMMITTING (rank 0's thread
 * makes it visible). It lands when all ranks know how it ended. What threads read does not change while they run; what they write is read after they
 * have ended. */
#include "runtime/save.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/shelf.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/commit.h"
#include "runtime/exits.h"
#include "runtime/image.h"
#include "runtime/signals.h"
#include "runtime/task.h"

enum { TAG_RECORD = 1 };
enum phase { IDLE, SEALING, COMMITTING };

struct flight {
    enum phase phase;
    int64_t step;
    struct manifest_state state; /* where the run stood when it was staged */
    double start;                /* clock when it was begun */
    char folder[PATH_MAX];       /* hidden, until it is committed */
    struct task task;
    /* what the task came to */
    int code;
    struct err err;
    struct manifest_file file;
    double seconds; /* from the start until it was durable */
};

struct saver {
    struct image *image;
    struct flight flight;
    bool described; /* rank 0 has the records */
    /* rank 0: of all shards, cut from one block; the pieces are the same in each save of a run */
    struct checkpoint_record *records;
    char *block;
    uint64_t bytes; /* of all shards together */
    bool failing;   /* the last save failed */
    atomic_bool stop;
};

int save_open(struct run *run)
{
    struct err err = {""};
    struct saver *s = mem_zero(1, sizeof *s);
    run->saver = s;
    s->image = image_new(run->share, run->n_share, false, &err);
    return run_agree(run, s->image ? 0 : EXIT_ERROR, &err);
}

void save_close(struct run *run)
{
    struct saver *s = run->saver;
    if (!s)
        return;
    atomic_store(&s->stop, true);
    task_join(&s->flight.task);
    image_free(s->image);
    free(s->records);
    free(s->block);
    free(s);
    run->saver = NULL;
}

/* ---- staging ---- */

/* Rank 0 makes the folder; all get its name, "" when that failed (rank 0: err). */
static void begin(struct run *run, char folder[PATH_MAX], struct err *err)
{
    memset(folder, 0, PATH_MAX);
    if (run->rank == 0) {
        char *path = shelf_begin(run->spec->checkpoint.directory, run->state.step, run->state.attempt, err);
        if (path && strlen(path) >= PATH_MAX)
            err_set(err, "checkpoint.directory is too long");
        else if (path)
            memcpy(folder, path, strlen(path) + 1);
        free(path);
    }
    comm_broadcast(comm_world(run->comm), folder, PATH_MAX, 0);
}

/* A rank's thread: its shard. */
static void seal(void *owner)
{
    struct run *run = owner;
    struct flight *f = &run->saver->flight;
    checkpoint_shard_name(run->rank, f->file.name);
    char *path = str_printf("%s/%s", f->folder, f->file.name);
    f->file.bytes = image_bytes(run->saver->image);
    f->code =
        image_write(run->saver->image, path, &run->saver->stop, f->file.hash, &f->err) == 0 ? 0 : EXIT_ERROR;
    free(path);
}

/* Nothing is saved of this step (rank 0: err). What it means for the run. */
static int give_up(struct run *run)
{
    struct flight *f = &run->saver->flight;
    int code = EXIT_ERROR;
    f->phase = IDLE;
    if (run->rank == 0) {
        code = commit_abandon(run, f->folder, &f->err);
        log_error("step %" PRId64 " cannot be saved: %s", f->step, f->err.text);
        notify_keep(run->notify, "CHECKPOINT_FAILED=%" PRId64 "\nCHECKPOINT_WHY=%.300s", f->step,
                    f->err.text);
    }
    comm_broadcast(comm_world(run->comm), &code, sizeof code, 0);
    run->saver->failing = true;
    return code;
}

static void stage(struct run *run)
{
    struct saver *s = run->saver;
    struct flight *f = &s->flight;
    image_stage(s->image);
    f->phase = SEALING;
    task_start(&f->task, seal, run);
    if (run->rank == 0)
        notify_keep(run->notify, "CHECKPOINT_STAGED=%" PRId64 "\nCHECKPOINT_STAGED_MS=%.0f", f->step,
                    (clock_monotonic_s() - f->start) * 1e3);
}

static int start(struct run *run)
{
    struct flight *f = &run->saver->flight;
    int code = 0;
    *f = (struct flight){.step = run->state.step, .state = run->state, .start = clock_monotonic_s()};
    notify_send(run->notify, "PHASE=checkpointing");
    begin(run, f->folder, &f->err);
    if (f->folder[0])
        stage(run);
    else
        code = give_up(run);
    run->held_up.staged_s += clock_monotonic_s() - f->start;
    notify_send(run->notify, "PHASE=training");
    return code;
}

/* ---- what the ranks have written ---- */

/* Rank 0: one block with the records of all ranks, each in its place. */
static void receive_records(struct run *run, const struct checkpoint_record *mine, const uint64_t *lens)
{
    struct saver *s = run->saver;
    size_t size = (size_t)run->size, at = 0, all = 0;
    for (size_t r = 0; r < size; r++)
        all += lens[r];
    s->records = mem_zero(size, sizeof *s->records);
    s->block = mem_grow(NULL, all, 1);
    memcpy(s->block, mine->bytes, mine->len);
    for (size_t r = 0; r < size; at += lens[r++]) {
        s->records[r] = (struct checkpoint_record){s->block + at, lens[r]};
        if (r > 0)
            comm_receive_record(comm_world(run->comm), s->block + at, lens[r], (int)r, TAG_RECORD);
    }
}

/* Once a run, the records of all ranks, which may differ in length, come to rank 0. They are some 100 KiB each, and no other rank needs them: all of a
 * large run's on every rank would be gigabytes a node. */
static void share_records(struct run *run)
{
    struct comm_group *world = comm_world(run->comm);
    struct checkpoint_record mine = checkpoint_describe(run->share, run->n_share, &run->saver->flight.file);
    uint64_t *lens = mem_zero((size_t)run->size, sizeof *lens), own = mine.len;
    comm_share(world, &own, sizeof own, lens);
    if (run->rank == 0)
        receive_records(run, &mine, lens);
    else
        comm_send_record(world, mine.bytes, mine.len, 0, TAG_RECORD);
    free(mine.bytes);
    free(lens);
}

/* What a rank's thread came to. */
struct sealed {
    int code;
    struct manifest_file file;
};

/* The worst code of all; rank 0 has each shard's size and hash in its record, and the first rank's reason is everybody's. */
static int share_sealed(struct run *run)
{
    struct saver *s = run->saver;
    struct flight *f = &s->flight;
    struct sealed mine = {f->code, f->file}, *all = mem_zero((size_t)run->size, sizeof *all);
    int failed = -1;
    comm_share(comm_world(run->comm), &mine, sizeof mine, all);
    s->bytes = 0;
    for (int r = 0; r < run->size; r++) {
        failed = all[r].code != 0 && failed < 0 ? r : failed;
        s->bytes += all[r].file.bytes;
        if (run->rank == 0)
            checkpoint_record_file(&s->records[r], &all[r].file);
    }
    free(all);
    if (failed < 0)
        return 0;
    comm_broadcast(comm_world(run->comm), &f->err, sizeof f->err, failed);
    return EXIT_ERROR;
}

/* ---- landing ---- */

/* Rank 0's thread: at the moment when it is durable, whoever waits for it hears so. */
static void commit(void *owner)
{
    struct run *run = owner;
    struct saver *s = run->saver;
    struct flight *f = &s->flight;
    struct commit c = {f->folder, s->records, (size_t)run->size, &f->state};
    f->code = commit_checkpoint(run, &c, &f->err);
    f->seconds = clock_monotonic_s() - f->start;
    if (f->code != 0)
        return;
    notify_keep(run->notify,
                "CHECKPOINT_DURABLE=%" PRId64 "\nCHECKPOINT_BYTES=%" PRIu64 "\nCHECKPOINT_DURABLE_MS=%.0f",
                f->step, s->bytes, f->seconds * 1e3);
    printf("checkpoint step %" PRId64 ": %.1f MiB in %.2f s\n", f->step, (double)s->bytes / 1048576,
           f->seconds);
}

/* All ranks have written, or not. */
static int sealed(struct run *run)
{
    struct saver *s = run->saver;
    struct flight *f = &s->flight;
    if (!s->described)
        share_records(run);
    s->described = true;
    if (share_sealed(run) != 0)
        return give_up(run) == EXIT_SUPERSEDED ? EXIT_SUPERSEDED : 0;
    f->phase = COMMITTING;
    if (run->rank == 0)
        task_start(&f->task, commit, run);
    return 0;
}

/* Rank 0 has committed, or not. */
static int committed(struct run *run)
{
    struct saver *s = run->saver;
    struct flight *f = &s->flight;
    int code = f->code;
    comm_broadcast(comm_world(run->comm), &code, sizeof code, 0);
    if (code != 0)
        return give_up(run) == EXIT_SUPERSEDED ? EXIT_SUPERSEDED : 0;
    f->phase = IDLE;
    run->saved = f->step;
    run->held_up.durable_s = f->seconds;
    if (run->rank == 0 && s->failing)
        log_info("step %" PRId64 " is saved: checkpoints can be written again", f->step);
    s->failing = false;
    return 0;
}

int save_busy(const struct run *run)
{
    return run->saver && !task_done(&run->saver->flight.task);
}

int save_advance(struct run *run, int busy)
{
    struct flight *f = &run->saver->flight;
    if (busy || f->phase == IDLE)
        return 0;
    task_join(&f->task);
    return f->phase == SEALING ? sealed(run) : committed(run);
}

int save_wait(struct run *run)
{
    struct flight *f = &run->saver->flight;
    int code = 0;
    if (f->phase != IDLE)
        notify_send(run->notify, "PHASE=checkpointing");
    while (code == 0 && f->phase != IDLE) {
        task_join(&f->task);
        code = save_advance(run, comm_max_int(comm_world(run->comm), save_busy(run)));
    }
    return code;
}

/* ---- when ---- */

static bool is_due(const struct run *run, int signals, bool last)
{
    int64_t every = run->spec->checkpoint.every;
    bool due = last || (signals & SIGNALS_SAVE) || (every > 0 && run->state.step % every == 0);
    return due && run->saved != run->state.step;
}

/* Another save is under way and one is due: may it begin? What has been asked for is never left out. */
static int make_way(struct run *run, bool must, bool *free)
{
    const struct flight *f = &run->saver->flight;
    int code = 0;
    for (int turn = 0; code == 0 && f->phase != IDLE && turn < 2; turn++)
        code = save_advance(run, comm_max_int(comm_world(run->comm), save_busy(run)));
    if (code == 0 && f->phase != IDLE && (must || run->spec->checkpoint.busy == JOB_BUSY_WAIT)) {
        double before = clock_monotonic_s();
        code = save_wait(run);
        run->held_up.staged_s += clock_monotonic_s() - before;
    }
    *free = f->phase == IDLE;
    if (code == 0 && !*free && run->rank == 0)
        log_warn("step %" PRId64 " is not saved: the checkpoint of step %" PRId64
                 " is still being written; save less often, or set checkpoint.busy: wait",
                 run->state.step, f->step);
    return code;
}

int save_if_due(struct run *run, int signals, bool last)
{
    bool free = true, must = last || (signals & SIGNALS_SAVE);
    int code = 0;
    if (is_due(run, signals, last)) {
        code = make_way(run, must, &free);
        if (code == 0 && free)
            code = start(run);
        if (code == EXIT_ERROR && !last) {
            if (run->rank == 0)
                log_warn("training goes on without a checkpoint of step %" PRId64, run->state.step);
            return 0;
        }
    }
    if (code != 0 || !last)
        return code;
    code = save_wait(run);
    return code == 0 && run->saved != run->state.step ? EXIT_ERROR : code;
}
