/* save: see save.h. Rank 0 makes the folder and commits; every rank writes its shard. Folder, shards and commit are each agreed upon
 * before the next begins, so that no rank is left waiting for one that failed. */
#include "runtime/save.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/shelf.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/exits.h"

enum { TAG_RECORD = 1 };

/* Rank 0 makes the folder; all get its name. */
static int begin(struct run *run, char folder[PATH_MAX])
{
    struct err err = {""};
    int code = 0;
    memset(folder, 0, PATH_MAX);
    if (run->rank == 0) {
        char *path = shelf_begin(run->spec->checkpoint.directory, run->state.step, run->state.attempt, &err);
        if (!path)
            code = EXIT_ERROR;
        else if (strlen(path) >= PATH_MAX)
            code = err_set(&err, "checkpoint.directory is too long") ? EXIT_ERROR : 0;
        else
            memcpy(folder, path, strlen(path) + 1);
        free(path);
    }
    code = run_agree(run, code, &err);
    if (code == 0)
        comm_broadcast(comm_world(run->comm), folder, PATH_MAX, 0);
    return code;
}

/* What the ranks have written: rank 0 knows it all. */
struct shards {
    struct checkpoint_record *records; /* (size), cut from one block */
    char *block;
    uint64_t bytes;
};

/* Rank 0: one block with the records of all ranks, each in its place. */
static void receive_records(struct run *run, const struct checkpoint_record *mine, const uint64_t *lens,
                            struct shards *out)
{
    size_t size = (size_t)run->size, at = 0, all = 0;
    for (size_t r = 0; r < size; r++)
        all += lens[r];
    out->block = mem_grow(NULL, all, 1);
    memcpy(out->block, mine->bytes, mine->len);
    for (size_t r = 0; r < size; at += lens[r++]) {
        out->records[r] = (struct checkpoint_record){out->block + at, lens[r]};
        if (r > 0)
            comm_receive_record(comm_world(run->comm), out->block + at, lens[r], (int)r, TAG_RECORD);
    }
}

/* The records of all ranks, which may differ in length, come to rank 0. They are some 100 KiB each, and no other rank needs them: all of a
 * large run's on every rank would be gigabytes a node. */
static void share_records(struct run *run, const struct checkpoint_record *mine, struct shards *out)
{
    struct comm_group *world = comm_world(run->comm);
    uint64_t *lens = mem_zero((size_t)run->size, sizeof *lens), own = mine->len;
    comm_share(world, &own, sizeof own, lens);
    if (run->rank == 0)
        receive_records(run, mine, lens, out);
    else
        comm_send_record(world, mine->bytes, mine->len, 0, TAG_RECORD);
    free(lens);
}

/* Every rank writes its part. */
static int write_shards(struct run *run, const char *folder, struct shards *out)
{
    struct err err = {""};
    struct manifest_file mine = {.bytes = 0};
    int code = 0;
    if (checkpoint_write_shard(folder, run->rank, run->share, run->n_share, &mine, &err) != 0) {
        err_prefix(&err, "step %" PRId64 " cannot be saved", run->state.step);
        code = EXIT_ERROR;
    }
    out->bytes = (uint64_t)comm_sum_double(comm_world(run->comm), (double)mine.bytes);
    struct checkpoint_record record = checkpoint_describe(run->share, run->n_share, &mine);
    share_records(run, &record, out);
    free(record.bytes);
    return run_agree(run, code, &err);
}

/* Rank 0, with the claim held. */
static int commit_locked(struct run *run, const char *folder, struct err *err)
{
    const char *directory = run->spec->checkpoint.directory;
    const struct retention_policy policy = {.keep = run->spec->checkpoint.keep,
                                            .keep_every = run->spec->checkpoint.keep_every,
                                            .keep_best = run->spec->checkpoint.keep_best};
    if (shelf_commit(directory, folder, run->state.step, err) != 0)
        return EXIT_ERROR;
    shelf_purge(directory, &policy, &run->verified);
    return 0;
}

/* Rank 0: from finished shards to a visible checkpoint. */
static int commit(struct run *run, const char *folder, const struct shards *shards, struct err *err)
{
    if (metrics_sync(run->metrics, err) != 0 ||
        checkpoint_seal(folder, shards->records, (size_t)run->size, &run->state, err) != 0)
        return EXIT_ERROR;
    enum claim_result claim = claim_lock(run->claim, err);
    if (claim != CLAIM_OK)
        return claim == CLAIM_SUPERSEDED ? EXIT_SUPERSEDED : EXIT_ERROR;
    int code = commit_locked(run, folder, err);
    claim_unlock(run->claim);
    return code;
}

/* Rank 0, after a failure: was it because a newer attempt has cleared our files away? */
static bool superseded(struct run *run, struct err *err)
{
    enum claim_result claim = claim_lock(run->claim, err);
    if (claim == CLAIM_OK)
        claim_unlock(run->claim);
    return claim == CLAIM_SUPERSEDED;
}

/* Rank 0 commits, or clears away; it decides what became of the checkpoint and tells the others. */
static int finish(struct run *run, const char *folder, const struct shards *shards, int code)
{
    struct err err = {""}, ignored;
    if (run->rank == 0) {
        code = code == 0 ? commit(run, folder, shards, &err) : code;
        if (err.text[0])
            log_error("step %" PRId64 " cannot be saved: %s", run->state.step, err.text);
        if (code == EXIT_ERROR && superseded(run, &err)) {
            log_error("%s", err.text);
            code = EXIT_SUPERSEDED;
        }
        if (code != 0)
            (void)fs_remove_tree(folder, &ignored); /* the next owner of the directory sweeps */
    }
    comm_broadcast(comm_world(run->comm), &code, sizeof code, 0);
    return code;
}

static void announce(struct run *run, uint64_t bytes, double seconds)
{
    notify_keep(run->notify, "CHECKPOINT_DURABLE=%" PRId64 "\nCHECKPOINT_BYTES=%" PRIu64, run->state.step,
                bytes);
    printf("checkpoint step %" PRId64 ": %.1f MiB in %.2f s\n", run->state.step, (double)bytes / 1048576,
           seconds);
}

int save_checkpoint(struct run *run)
{
    char folder[PATH_MAX];
    double start = clock_monotonic_s();
    notify_send(run->notify, "PHASE=checkpointing");
    struct shards shards = {.records = mem_zero((size_t)run->size, sizeof *shards.records)};
    int code = begin(run, folder);
    if (code == 0) {
        code = write_shards(run, folder, &shards);
        if (code == 0 && run->rank == 0)
            notify_keep(run->notify, "CHECKPOINT_STAGED=%" PRId64, run->state.step);
        code = finish(run, folder, &shards, code);
    }
    if (code == 0)
        run->saved = run->state.step;
    if (code == 0 && run->rank == 0)
        announce(run, shards.bytes, clock_monotonic_s() - start);
    free(shards.records);
    free(shards.block);
    notify_send(run->notify, "PHASE=training");
    return code;
}
