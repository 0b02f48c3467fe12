/* belay checkpoints prune: removes old checkpoints by the rules, and with the code, of a training run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/claim.h"
#include "checkpoint/shelf.h"
#include "launcher/ckptfind.h"
#include "launcher/ckptview.h"

struct request {
    struct ckptfind place;
    struct retention_policy policy;
    bool dry_run, force;
};

/* What is there, and what of it may go. */
struct view {
    struct retention_item *items;
    int64_t count, going;
    int64_t newest; /* step of the newest complete one, -1 = none */
};

static int look(const struct request *q, struct view *v)
{
    struct err err = {""};
    *v = (struct view){.newest = -1};
    v->count = shelf_survey(q->place.directory, &q->policy, &v->items, &err);
    if (v->count < 0)
        return cli_fail(CLI_NO_SUCH, "%s", err.text);
    for (int64_t i = 0; i < v->count; i++) {
        if (v->newest < 0 && v->items[i].complete)
            v->newest = v->items[i].step;
        v->going += v->items[i].stays == 0;
    }
    return CLI_DONE;
}

/* Before anything goes, and before the lock is taken that a run would wait for. */
static int read_newest_back(const struct request *q, const struct view *v)
{
    struct manifest_state state;
    struct err err = {""};
    char *path = shelf_path(q->place.directory, v->newest);
    int rc = checkpoint_verify(path, 0, 1, &state, &err) == 0
                 ? CLI_DONE
                 : cli_fail(CLI_REFUSED, "nothing was removed, since the newest checkpoint is damaged: %s",
                            err.text);
    free(path);
    return rc;
}

/* Which of those that were to go are gone. */
static int tell(const struct request *q, const struct view *before)
{
    int64_t *left, n = shelf_list(q->place.directory, &left, NULL), stayed = 0;
    for (int64_t i = before->count; i-- > 0;) {
        int64_t k = 0;
        if (before->items[i].stays)
            continue;
        while (k < n && left[k] != before->items[i].step)
            k++;
        stayed += k < n;
        printf("step %" PRId64 " %s\n", before->items[i].step, k < n ? "could not be removed" : "removed");
    }
    free(left);
    printf("%" PRId64 " of %" PRId64 " checkpoints stay\n", n, before->count);
    return stayed > 0 ? CLI_REFUSED : CLI_DONE;
}

static int purge(const struct request *q, const struct view *v)
{
    struct err err = {""};
    int64_t verified = v->newest;
    struct claim *claim = claim_borrow(q->place.directory, &err);
    if (!claim)
        return cli_fail(CLI_REFUSED, "%s", err.text);
    int rc = ckptfind_unclaimed(q->place.directory, q->force); /* one may have begun meanwhile */
    if (rc == CLI_DONE)
        shelf_purge(q->place.directory, &q->policy, 0, &verified);
    claim_close(claim, false);
    return rc == CLI_DONE ? tell(q, v) : rc;
}

static int foretell(const struct view *v)
{
    for (int64_t i = v->count; i-- > 0;)
        if (!v->items[i].stays)
            printf("step %" PRId64 " would be removed\n", v->items[i].step);
    printf("%" PRId64 " of %" PRId64 " checkpoints would stay\n", v->count - v->going, v->count);
    return CLI_DONE;
}

static int act(const struct request *q)
{
    struct view v = {.items = NULL};
    int rc = look(q, &v);
    if (rc == CLI_DONE && q->dry_run) {
        rc = foretell(&v);
    } else if (rc == CLI_DONE && v.going == 0) {
        printf("nothing to remove: all %" PRId64 " checkpoints stay\n", v.count);
    } else if (rc == CLI_DONE) {
        rc = ckptfind_unclaimed(q->place.directory, q->force);
        if (rc == CLI_DONE)
            rc = read_newest_back(q, &v);
        if (rc == CLI_DONE)
            rc = purge(q, &v);
    }
    free(v.items);
    return rc;
}

/* Nothing goes by rules that nobody named. */
static int complete_policy(struct request *q)
{
    struct retention_policy *p = &q->policy;
    if (!q->dry_run && p->keep < 0 && p->keep_every < 0 && p->keep_best < 0)
        return cli_fail(
            CLI_USAGE,
            "checkpoints prune: say what stays: --keep K, --keep-every N or --keep-best B; or see "
            "with --dry-run what --keep %d would remove",
            CKPTVIEW_KEEP);
    p->keep = p->keep < 0 ? CKPTVIEW_KEEP : p->keep;
    p->keep_every = p->keep_every < 0 ? 0 : p->keep_every;
    p->keep_best = p->keep_best < 0 ? 0 : p->keep_best;
    return CLI_DONE;
}

static int prune(const struct command *self, int argc, char **argv)
{
    struct request q = {.policy = {-1, -1, -1}};
    const struct args_option options[] = {
        CKPTVIEW_POLICY(&q.policy),
        ARGS_OPTION_FLAG("dry-run", 0, &q.dry_run, "only say what would go"),
        ARGS_OPTION_FLAG("force", 0, &q.force, "although a job that has not ended owns the directory"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    rc = complete_policy(&q);
    if (rc == CLI_DONE)
        rc = ckptfind_directory(&args, args.words[0], &q.place);
    if (rc == CLI_DONE)
        rc = act(&q);
    ckptfind_clear(&q.place);
    args_clear(&args);
    return rc;
}

const struct command command_checkpoints_prune = {
    .name = "checkpoints prune",
    .args = "DIR|JOB [--keep K] [--keep-every N] [--keep-best B] [--dry-run] [--force]",
    .help = "Removes old checkpoints by the rules of a job file; never the last complete one, and not from "
            "under a live job",
    .examples = "  belay checkpoints prune ckpt --keep 2 --dry-run\n  belay checkpoints prune ckpt --keep 2 "
                "--keep-every 1000\n",
    .min_words = 1,
    .max_words = 1,
    .run = prune,
};
