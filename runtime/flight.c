/* flight: see flight.h. The tiers differ in what a thread does with a shard, and rank 0's with all of them; everything between is the same. */
#include "runtime/flight.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/shelf.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/bucket.h"
#include "runtime/commit.h"
#include "runtime/exits.h"
#include "runtime/holding.h"

enum { TAG_RECORD = 1 };

struct shards {
    bool known;                        /* by rank 0 */
    struct checkpoint_record *records; /* (size), rank 0: cut from one block */
    char *block;
};

struct shards *shards_new(void)
{
    return mem_zero(1, sizeof(struct shards));
}

void shards_free(struct shards *shards)
{
    if (!shards)
        return;
    free(shards->records);
    free(shards->block);
    free(shards);
}

/* ---- the end of one ------------------------------------------------------------------------------------------------------ */

static const char *what(const struct flight *f)
{
    return f->tier == TIER_STORAGE ? "saved" : "kept in memory";
}

static const char *tier_name(const struct flight *f)
{
    return f->tier == TIER_STORAGE ? "storage" : "memory";
}

/* Nothing comes of it (rank 0: err). EXIT_ERROR or EXIT_SUPERSEDED. */
static int give_up(struct flight *f)
{
    struct run *run = f->run;
    int code = EXIT_ERROR;
    f->phase = FLIGHT_LANDED;
    if (run->rank == 0) {
        code = f->tier == TIER_STORAGE ? commit_abandon(run, f->folder, &f->err) : EXIT_ERROR;
        log_error("step %" PRId64 " cannot be %s: %s", f->step, what(f), f->err.text);
        notify_keep(run->notify, "CHECKPOINT_TIER=%s\nCHECKPOINT_FAILED=%" PRId64 "\nCHECKPOINT_WHY=%.300s",
                    tier_name(f), f->step, f->err.text);
    }
    comm_broadcast(comm_world(run->comm), &code, sizeof code, 0);
    return code;
}

void flight_end(struct flight *f)
{
    task_join(&f->task);
    free(f->files);
    f->files = NULL;
}

/* ---- sealing ------------------------------------------------------------------------------------------------------------- */

/* Rank 0 makes the folder; all get its name, "" when that failed (rank 0: err). */
static void make_folder(struct flight *f)
{
    struct run *run = f->run;
    memset(f->folder, 0, sizeof f->folder);
    if (run->rank == 0) {
        char *path = shelf_begin(run->spec->checkpoint.directory, f->step, run->state.attempt, &f->err);
        if (path && strlen(path) >= sizeof f->folder)
            err_set(&f->err, "checkpoint.directory is too long");
        else if (path)
            memcpy(f->folder, path, strlen(path) + 1);
        free(path);
    }
    comm_broadcast(comm_world(run->comm), f->folder, sizeof f->folder, 0);
}

int flight_begin(struct flight *f)
{
    if (f->tier == TIER_MEMORY)
        return 0;
    make_folder(f);
    return f->folder[0] ? 0 : give_up(f);
}

/* A rank's thread. */
static void seal(void *owner)
{
    struct flight *f = owner;
    char *path = str_printf("%s/%s", f->folder, f->file.name);
    int rc = f->tier == TIER_STORAGE ? snapshot_write(f->snapshot, path, f->stop, f->file.hash, &f->err)
                                     : holding_shard(f->memory, f->snapshot, f->run->rank, &f->state,
                                                     &f->file, f->stop, &f->alone, &f->err);
    f->code = rc == 0 ? 0 : EXIT_ERROR;
    free(path);
}

void flight_seal(struct flight *f)
{
    checkpoint_shard_name(f->run->rank, f->file.name);
    f->file.bytes = snapshot_bytes(f->snapshot);
    f->phase = FLIGHT_SEALING;
    task_start(&f->task, seal, f);
}

/* ---- what the ranks have written ----------------------------------------------------------------------------------------- */

/* Rank 0: one block with the records of all ranks, each in its place. */
static void receive_records(const struct flight *f, const struct checkpoint_record *mine,
                            const uint64_t *lens)
{
    struct shards *s = f->shards;
    struct comm_group *world = comm_world(f->run->comm);
    size_t size = (size_t)f->run->size, at = 0, all = 0;
    for (size_t r = 0; r < size; r++)
        all += lens[r];
    s->records = mem_zero(size, sizeof *s->records);
    s->block = mem_grow(NULL, all, 1);
    memcpy(s->block, mine->bytes, mine->len);
    for (size_t r = 0; r < size; at += lens[r++]) {
        s->records[r] = (struct checkpoint_record){s->block + at, lens[r]};
        if (r > 0)
            comm_receive_record(world, s->block + at, lens[r], (int)r, TAG_RECORD);
    }
}

/* Once a run, the records of all ranks, which may differ in length, come to rank 0. They are some 100 KiB each, and no other rank needs them: all of a
 * large run's on every rank would be gigabytes a node. */
static void share_records(const struct flight *f)
{
    const struct run *run = f->run;
    struct comm_group *world = comm_world(run->comm);
    struct checkpoint_record mine = checkpoint_describe(run->share, run->n_share, &f->file);
    uint64_t *lens = mem_zero((size_t)run->size, sizeof *lens), own = mine.len;
    comm_share(world, &own, sizeof own, lens);
    if (run->rank == 0)
        receive_records(f, &mine, lens);
    else
        comm_send_record(world, mine.bytes, mine.len, 0, TAG_RECORD);
    f->shards->known = true;
    free(mine.bytes);
    free(lens);
}

/* What a rank's thread came to. */
struct sealed {
    int code;
    bool alone;
    struct manifest_file file;
};

/* Everybody's to everybody: 0, or EXIT_ERROR with the first failed rank's reason. */
static int share_sealed(struct flight *f)
{
    struct run *run = f->run;
    struct sealed mine = {f->code, f->alone, f->file}, *all = mem_zero((size_t)run->size, sizeof *all);
    int failed = -1;
    comm_share(comm_world(run->comm), &mine, sizeof mine, all);
    if (run->rank == 0)
        f->files = mem_zero((size_t)run->size, sizeof *f->files);
    for (int r = 0; r < run->size; r++) {
        failed = all[r].code != 0 && failed < 0 ? r : failed;
        f->bytes += all[r].file.bytes;
        f->alone = f->alone || all[r].alone;
        if (f->files)
            f->files[r] = all[r].file;
    }
    free(all);
    if (failed < 0)
        return 0;
    comm_broadcast(comm_world(run->comm), &f->err, sizeof f->err, failed);
    return EXIT_ERROR;
}

/* ---- committing ---------------------------------------------------------------------------------------------------------- */

/* Rank 0's thread: at the moment when it is safe, whoever waits for it hears so. */
static void commit(void *owner)
{
    struct flight *f = owner;
    struct run *run = f->run;
    struct commit c = {f->folder, f->shards->records, f->files, (size_t)run->size, &f->state};
    bool alone = false;
    f->code = f->tier == TIER_STORAGE ? commit_checkpoint(run, &c, &f->err)
                                      : holding_manifest(f->memory, &c, f->stop, &alone, &f->err);
    f->alone = f->alone || alone;
    f->seconds = clock_monotonic_s() - f->start;
    if (f->code != 0)
        return;
    char loss[48] = ""; /* known when this step was evaluated */
    if (f->tier == TIER_STORAGE && isfinite(f->state.held_loss))
        (void)snprintf(loss, sizeof loss, "\nCHECKPOINT_LOSS=%.9g", f->state.held_loss); /* fits */
    notify_keep(run->notify,
                "CHECKPOINT_TIER=%s\nCHECKPOINT_DURABLE=%" PRId64 "\nCHECKPOINT_BYTES=%" PRIu64
                "\nCHECKPOINT_DURABLE_MS=%.0f%s",
                tier_name(f), f->step, f->bytes, f->seconds * 1e3, loss);
    if (f->tier == TIER_STORAGE)
        printf("checkpoint step %" PRId64 ": %.1f MiB in %.2f s\n", f->step, (double)f->bytes / 1048576,
               f->seconds);
    if (f->tier == TIER_STORAGE)
        commit_purge(run, f->spare);
}

int flight_advance(struct flight *f)
{
    struct run *run = f->run;
    task_join(&f->task);
    if (f->phase == FLIGHT_SEALING) {
        if (!f->shards->known)
            share_records(f);
        if (share_sealed(f) != 0)
            return give_up(f);
        f->phase = FLIGHT_COMMITTING;
        f->spare = bucket_step(run);
        if (run->rank == 0)
            task_start(&f->task, commit, f);
        return 0;
    }
    int code = f->code;
    comm_broadcast(comm_world(run->comm), &code, sizeof code, 0);
    if (code != 0)
        return give_up(f);
    f->phase = FLIGHT_LANDED;
    return 0;
}
