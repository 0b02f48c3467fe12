/* commit: see commit.h. */
#include "runtime/commit.h"

#include <stdbool.h>

#include "checkpoint/shelf.h"
#include "common/fsutil.h"
#include "runtime/exits.h"

int commit_checkpoint(struct run *run, const struct commit *c, struct err *err)
{
    if (metrics_sync(run->metrics, err) != 0 ||
        checkpoint_seal(c->folder, c->records, c->files, c->n_files, c->state, err) != 0)
        return EXIT_ERROR;
    enum claim_result claim = claim_lock(run->claim, err);
    if (claim != CLAIM_OK)
        return claim == CLAIM_SUPERSEDED ? EXIT_SUPERSEDED : EXIT_ERROR;
    int rc = shelf_commit(run->spec->checkpoint.directory, c->folder, c->state->step, err);
    claim_unlock(run->claim);
    return rc == 0 ? 0 : EXIT_ERROR;
}

void commit_purge(struct run *run, int64_t spare)
{
    struct err why;
    const struct retention_policy policy = {.keep = run->spec->checkpoint.keep,
                                            .keep_every = run->spec->checkpoint.keep_every,
                                            .keep_best = run->spec->checkpoint.keep_best};
    if (claim_lock(run->claim, &why) != CLAIM_OK)
        return; /* a newer attempt owns the directory: the next save says so */
    shelf_purge(run->spec->checkpoint.directory, &policy, spare, &run->verified);
    claim_unlock(run->claim);
}

/* Was it because a newer attempt has cleared our files away? */
static bool superseded(struct run *run, struct err *err)
{
    struct err why;
    enum claim_result claim = claim_lock(run->claim, &why);
    if (claim == CLAIM_OK)
        claim_unlock(run->claim);
    if (claim == CLAIM_SUPERSEDED)
        *err = why;
    return claim == CLAIM_SUPERSEDED;
}

int commit_abandon(struct run *run, const char *folder, struct err *err)
{
    struct err ignored;
    int code = superseded(run, err) ? EXIT_SUPERSEDED : EXIT_ERROR;
    if (folder[0])
        (void)fs_remove_tree(folder, &ignored); /* the next owner of the directory sweeps */
    return code;
}
