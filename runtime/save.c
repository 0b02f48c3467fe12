/* save: see save.h. Which flights there are, what they may overwrite, and when the next one starts.
 *
 * A snapshot is not written into while a flight uses it, nor while it is the newest that memory holds. With the memory tier there are three, so that one is
 * free whatever storage takes its time for; without it there is one. */
#include "runtime/save.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/bucket.h"
#include "runtime/exits.h"
#include "runtime/flight.h"
#include "runtime/signals.h"

#define SNAPSHOTS_MAX 3
#define WAIT_TOLD_S   1

struct saver {
    struct snapshot *snapshots[SNAPSHOTS_MAX];
    size_t n_snapshots;
    struct memory_tier *memory;   /* NULL: no memory tier */
    const struct snapshot *whole; /* the newest that memory holds */
    int64_t held;                 /* its step */
    struct flight flights[TIERS];
    bool failing[TIERS]; /* the last of the tier failed */
    bool told_alone;
    int64_t crowded; /* copies in memory that were left out */
    struct shards *shards;
    atomic_bool stop;
};

/* ---- setting up ------------------------------------------------------------------------------------------------------------ */

/* All ranks have a shim that holds copies, or none is used. */
static struct memory_tier *open_memory(struct run *run)
{
    struct err err = {""};
    const char *socket = getenv("BELAY_MEMORY_SOCKET");
    if (run->spec->checkpoint.memory_every == 0)
        return NULL;
    struct memory_tier *memory = socket ? memory_open(socket, &err) : NULL;
    if (!socket)
        err_set(&err, "no shim started this rank");
    if (!memory && run->rank == 0)
        log_warn("checkpoint.memory is not used: %s", err.text);
    if (comm_max_int(comm_world(run->comm), !memory) == 0)
        return memory;
    memory_close(memory);
    return NULL;
}

int save_open(struct run *run)
{
    struct err err = {""};
    struct saver *s = mem_zero(1, sizeof *s);
    int code = 0;
    run->saver = s;
    s->shards = shards_new();
    s->memory = open_memory(run);
    size_t wanted = s->memory ? SNAPSHOTS_MAX : 1;
    while (code == 0 && s->n_snapshots < wanted) {
        struct snapshot *new = snapshot_new(run->share, run->n_share, s->memory != NULL, &err);
        code = new ? 0 : EXIT_ERROR;
        s->snapshots[s->n_snapshots] = new;
        s->n_snapshots += new != NULL;
    }
    return run_agree(run, code, &err);
}

void save_close(struct run *run)
{
    struct saver *s = run->saver;
    if (!s)
        return;
    atomic_store(&s->stop, true);
    for (int t = 0; t < TIERS; t++)
        flight_end(&s->flights[t]);
    for (size_t i = 0; i < s->n_snapshots; i++)
        snapshot_free(s->snapshots[i]);
    memory_close(s->memory);
    shards_free(s->shards);
    free(s);
    run->saver = NULL;
}

struct memory_tier *save_memory(const struct run *run)
{
    return run->saver->memory;
}

/* ---- starting -------------------------------------------------------------------------------------------------------------- */

static bool under_way(const struct saver *s, enum tier tier)
{
    return s->flights[tier].phase != FLIGHT_LANDED;
}

/* There always is one: see above. */
static struct snapshot *free_snapshot(const struct saver *s)
{
    for (size_t i = 0; i < s->n_snapshots; i++) {
        bool used = s->snapshots[i] == s->whole;
        for (int t = 0; t < TIERS; t++)
            used = used || (under_way(s, (enum tier)t) && s->flights[t].snapshot == s->snapshots[i]);
        if (!used)
            return s->snapshots[i];
    }
    abort();
}

static void prepare(struct run *run, enum tier tier, const struct snapshot *snapshot, double now)
{
    struct saver *s = run->saver;
    flight_end(&s->flights[tier]);
    s->flights[tier] = (struct flight){.tier = tier,
                                       .run = run,
                                       .shards = s->shards,
                                       .memory = s->memory,
                                       .snapshot = snapshot,
                                       .stop = &s->stop,
                                       .step = run->state.step,
                                       .state = run->state,
                                       .start = now};
}

/* checkpoint.every: auto. Rank 0 knows what a save costs, and says to all when the next one is due. */
static void plan_next(struct run *run, double stall_s)
{
    int64_t steps = 0;
    const char *news = NULL;
    if (run->interval.every != JOB_EVERY_AUTO)
        return;
    if (run->rank == 0) {
        steps = interval_next(&run->interval, stall_s);
        news = interval_news(&run->interval);
    }
    comm_broadcast(comm_world(run->comm), &steps, sizeof steps, 0);
    interval_set(&run->interval, run->state.step, steps);
    if (!news)
        return;
    printf("saves %s\n", news);
    notify_keep(run->notify, "CHECKPOINT_INTERVAL=%s", news);
}

/* The tiers share one copy. 0 or the code of the one that failed. */
static int start(struct run *run, const bool wanted[TIERS])
{
    struct saver *s = run->saver;
    struct snapshot *snapshot = free_snapshot(s);
    double now = clock_monotonic_s();
    bool begun[TIERS] = {false};
    int code = 0;
    notify_send(run->notify, "PHASE=checkpointing");
    for (int t = 0; t < TIERS; t++) {
        if (!wanted[t])
            continue;
        prepare(run, (enum tier)t, snapshot, now);
        int failed = flight_begin(&s->flights[t]);
        begun[t] = failed == 0;
        s->failing[t] = s->failing[t] || failed;
        code = failed > code ? failed : code;
    }
    if (begun[TIER_STORAGE] || begun[TIER_MEMORY])
        snapshot_stage(snapshot);
    for (int t = 0; t < TIERS; t++)
        if (begun[t])
            flight_seal(&s->flights[t]);
    double seconds = clock_monotonic_s() - now;
    run->held_up.staged_s += seconds;
    if (run->rank == 0 && begun[TIER_STORAGE])
        notify_keep(run->notify, "CHECKPOINT_STAGED=%" PRId64 "\nCHECKPOINT_STAGED_MS=%.0f", run->state.step,
                    seconds * 1e3);
    if (wanted[TIER_STORAGE])
        plan_next(run, seconds);
    notify_send(run->notify, "PHASE=training");
    return code;
}

/* ---- landing --------------------------------------------------------------------------------------------------------------- */

static void tell_alone(struct run *run, const struct flight *f)
{
    struct saver *s = run->saver;
    if (run->rank == 0 && f->alone && !s->told_alone && run->spec->checkpoint.buddy)
        log_warn("copies in memory are on their own node only: there is no other node, or it cannot be "
                 "reached; a node that is lost "
                 "costs the steps since the last checkpoint on storage");
    s->told_alone = f->alone;
}

static void land(struct run *run, struct flight *f)
{
    struct saver *s = run->saver;
    if (run->rank == 0 && s->failing[f->tier])
        log_info("step %" PRId64 " is %s", f->step,
                 f->tier == TIER_STORAGE ? "saved: checkpoints can be written again"
                                         : "kept in memory again");
    s->failing[f->tier] = false;
    if (f->tier == TIER_STORAGE) {
        run->saved = f->step;
        run->held_up.durable_s = f->seconds;
        interval_durable(&run->interval, f->seconds);
        bucket_add(run, f->step);
        return;
    }
    s->whole = f->snapshot;
    s->held = f->step;
    tell_alone(run, f);
}

int save_busy(const struct run *run)
{
    int busy = 0;
    for (int t = 0; run->saver && t < TIERS; t++)
        busy |= task_done(&run->saver->flights[t].task) ? 0 : 1 << t;
    return busy;
}

int save_advance(struct run *run, int busy)
{
    struct saver *s = run->saver;
    for (int t = 0; t < TIERS; t++) {
        struct flight *f = &s->flights[t];
        if ((busy & 1 << t) || f->phase == FLIGHT_LANDED)
            continue;
        int code = flight_advance(f);
        s->failing[t] = s->failing[t] || code != 0;
        if (code == EXIT_SUPERSEDED)
            return code;
        if (code == 0 && f->phase == FLIGHT_LANDED)
            land(run, f);
    }
    return 0;
}

/* One look at all ranks. */
static int look(struct run *run)
{
    int mine = save_busy(run), busy = 0;
    for (int t = 0; t < TIERS; t++)
        busy |= comm_max_int(comm_world(run->comm), mine & 1 << t);
    return save_advance(run, busy);
}

static int wait_for(struct run *run, enum tier tier)
{
    struct saver *s = run->saver;
    double before = clock_monotonic_s();
    int code = 0;
    if (!under_way(s, tier))
        return 0;
    notify_send(run->notify, "PHASE=checkpointing");
    while (code == 0 && under_way(s, tier)) {
        task_join(&s->flights[tier].task);
        code = look(run);
    }
    run->held_up.staged_s += clock_monotonic_s() - before;
    notify_send(run->notify, "PHASE=training");
    return code;
}

bool save_under_way(const struct run *run)
{
    return under_way(run->saver, TIER_STORAGE) || under_way(run->saver, TIER_MEMORY);
}

int save_wait(struct run *run)
{
    int code = wait_for(run, TIER_STORAGE);
    return code == 0 ? wait_for(run, TIER_MEMORY) : code;
}

/* ---- when ------------------------------------------------------------------------------------------------------------------ */

static bool every(int64_t steps, int64_t step)
{
    return steps > 0 && step % steps == 0;
}

static void find_due(const struct run *run, int signals, bool last, bool due[TIERS])
{
    const struct saver *s = run->saver;
    int64_t step = run->state.step;
    bool asked = last || (signals & SIGNALS_SAVE);
    due[TIER_STORAGE] = (asked || interval_due(&run->interval, step)) && run->saved != step;
    due[TIER_MEMORY] = s->memory && s->held != step && !last &&
                       (due[TIER_STORAGE] || every(run->spec->checkpoint.memory_every, step));
}

/* The last one on storage; a wait that somebody may notice is told. */
static int wait_for_last(struct run *run)
{
    double before = clock_monotonic_s();
    int64_t step = run->saver->flights[TIER_STORAGE].step;
    int code = wait_for(run, TIER_STORAGE);
    double seconds = clock_monotonic_s() - before;
    if (seconds > WAIT_TOLD_S && run->rank == 0)
        log_warn("training waited %.1f s for the checkpoint of step %" PRId64
                 " to be written before that of step %" PRId64
                 "; save less often, or set checkpoint.busy: skip",
                 seconds, step, run->state.step);
    return code;
}

/* Another of the tier is under way and one is due: may it begin? What has been asked for is never left out. */
static int make_way(struct run *run, bool must, bool due[TIERS])
{
    struct saver *s = run->saver;
    bool wait = must || run->spec->checkpoint.busy == JOB_BUSY_WAIT;
    int code = 0;
    for (int turn = 0; code == 0 && save_under_way(run) && turn < 2; turn++)
        code = look(run);
    if (code == 0 && due[TIER_STORAGE] && under_way(s, TIER_STORAGE) && wait)
        code = wait_for_last(run);
    bool later = run->interval.every == JOB_EVERY_AUTO; /* it stays due */
    if (due[TIER_STORAGE] && under_way(s, TIER_STORAGE) && run->rank == 0 && !later)
        log_warn("step %" PRId64 " is not saved: the checkpoint of step %" PRId64
                 " is still being written; save less often, or set checkpoint.busy: wait",
                 run->state.step, s->flights[TIER_STORAGE].step);
    if (due[TIER_MEMORY] && under_way(s, TIER_MEMORY) && s->crowded++ == 0 && run->rank == 0)
        log_warn("step %" PRId64 " is not kept in memory: the copy of step %" PRId64
                 " is still on its way; from here on this is not told again",
                 run->state.step, s->flights[TIER_MEMORY].step);
    for (int t = 0; t < TIERS; t++)
        due[t] = due[t] && !under_way(s, (enum tier)t);
    return code;
}

int save_if_due(struct run *run, int signals, bool last)
{
    bool due[TIERS];
    find_due(run, signals, last, due);
    int code = 0;
    if (due[TIER_STORAGE] || due[TIER_MEMORY]) {
        code = make_way(run, last || (signals & SIGNALS_SAVE), due);
        if (code == 0 && (due[TIER_STORAGE] || due[TIER_MEMORY]))
            code = start(run, due);
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

int save_went_back(struct run *run)
{
    const bool due[TIERS] = {[TIER_MEMORY] = true};
    if (!run->saver->memory)
        return 0;
    int code = start(run, due);
    if (code == 0)
        code = wait_for(run, TIER_MEMORY);
    return code == EXIT_SUPERSEDED ? code : 0;
}
