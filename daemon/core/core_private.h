/* core_private: what the modules of the core share: the objects around the records, and which module does what.
 *
 * Event functions (core_node_report, …) only note facts and put the objects concerned on the examine lists; core_turn draws the
 * conclusions. So a turn costs what changed in it, however many events it had. What decides the future is in the records alone:
 * a core loaded from them goes on as the old one would have. The other fields here are derived, or only speed and timing. */
#ifndef BELAY_DAEMON_CORE_CORE_PRIVATE_H
#define BELAY_DAEMON_CORE_CORE_PRIVATE_H

#include "daemon/core/core.h"
#include "daemon/core/idmap.h"
#include "daemon/core/machines.h"
#include "daemon/core/placement.h"
#include "daemon/core/timers.h"

/* One node's part of an attempt, with what its newest report comes to. */
struct seat {
    struct node *node;
    size_t first, n_ranks;              /* its ranks are by_seat[first .. first + n_ranks - 1] */
    size_t n_ok, n_exited;              /* ranks that exited with 0; that exited at all */
    bool connected;                     /* some rank called PMIx_Init */
    const struct link_rank *bad;        /* earliest rank that exited with anything but 0, or NULL */
    const struct link_rank *unfinished; /* earliest rank that exited with 0 without PMIx_Finalize, or NULL */
};

struct attempt {
    struct attempt_record r; /* first: changes hand out pointers to it */
    struct job *job;
    struct seat *seats; /* like r.nodes */
    int64_t *by_seat;   /* ranks, grouped by seat */
    bool dirty, examine;
    bool advanced;                  /* passed a checkpoint newer than all before */
    int64_t asked_mono_ms;          /* when the newest request for a checkpoint was made */
    int64_t staged_step, staged_ms; /* the newest copy, and how long training waited for it; -1 = not said */
    int64_t memory_step;            /* newest in memory when the attempt was made; -1 = none */
    int64_t due_mono_ms; /* must be ready (preparing) or running (launching) by then; INT64_MAX = no limit */
    int64_t go_ms, last_step_ms; /* UTC; 0 = not yet or not known */
    int64_t speaker;             /* rank whose STEP counts, -1 = none yet */
    int64_t last_durable;        /* step, -1 = none */
    bool holds;                  /* its slots and spares are taken on their nodes */
    struct link_map_node
        *map; /* who runs where, shared by the orders of all nodes; built when first asked for */
};

struct avoided {
    struct node *node;
    int64_t until_mono_ms;
};

struct job {
    struct job_record r; /* first */
    struct attempt **attempts;
    size_t n_attempts;
    struct attempt *current; /* the one attempt not ended, or NULL */
    struct attempt *kept;    /* an ended attempt whose slots wait for the next one (keep.c), or NULL */
    int64_t keep_until_mono_ms;
    int64_t pause_until_mono_ms; /* as r.not_before_ms, but no clock that is set moves it; 0 = none */
    struct avoided *avoided;     /* nodes that could not prepare it */
    size_t n_avoided;
    char *directory;   /* absolute checkpoint directory, or NULL */
    int64_t high_step; /* newest step of any attempt since started_ms, -1 = none */
    int64_t high_checkpoint;
    int64_t longest_save_ms;             /* until a checkpoint of it was durable; 0 = not known */
    struct checkpoint_record *resumable; /* with a path, oldest first */
    size_t n_resumable;
    size_t failed_prepares; /* in a row */
    struct timer timer;
    bool dirty, progress_only;
    bool waiting, queued; /* wants slots; has an entry in the queue (which may be out of date) */
    bool kept_out;        /* did not fit when fit_version was what it is here */
    uint64_t fit_version;
    enum placement_result misfit; /* why it was kept out */
    int64_t behind;               /* or the job that it would delay; 0 = none */
    uint64_t hold_version;        /* when that was found */
    uint64_t spares_version;      /* fit_version + hold_version when its spares were last looked after */
    struct {
        uint64_t version; /* the same sum, when it was last looked whether it can grow; ELASTIC_LOOK = look */
        int64_t since_mono_ms; /* since when a larger size fits; INT64_MAX = none does */
        int64_t again_mono_ms; /* not before: a try came to nothing */
        int64_t request;       /* for a checkpoint, after which it is to grow; 0 = none */
    } grow;
};

struct hosted {
    struct attempt *attempt;
    size_t seat;
};

struct stale {
    int64_t job, attempt;
};

struct node {
    struct node_record r;  /* first */
    char *drain_reason;    /* the admin's words, or NULL */
    char *differs;         /* from the cluster file, in words, or NULL */
    struct hosted *hosted; /* attempts not ended that have slots here */
    size_t n_hosted, hosted_room;
    struct stale *stale; /* attempts that may still have processes here and are no longer wanted */
    size_t n_stale;
    struct attempt **owners; /* by slot */
    size_t n_owners, n_owned;
    int64_t held_memory;
    int64_t seen_mono_ms;
    bool heard;   /* said hello since this core began */
    bool leaving; /* its agent ends everything there, then exits; until the next hello */
    bool dirty, orders_dirty, examine;
    struct timer timer;
    struct attempt *mark; /* scratch of attempt_seats */
    size_t mark_seat;
};

/* A growing array of pointers. */
struct list {
    void **items;
    size_t count, room;
};
void list_add(struct list *list, void *item);

struct core {
    struct core_config config;
    struct core_time t; /* of the call in progress */
    uint64_t random;
    struct list jobs;  /* by id */
    struct list nodes; /* by name, numbers as numbers */
    struct idmap *node_by_name, *job_by_key, *job_by_directory;
    struct timers *timers;
    struct timer settle_timer;
    bool settled, loaded;
    struct list queue;  /* jobs that wait for slots, most urgent first; entries may be out of date */
    size_t spares_from; /* index of the job whose spares are looked after first in the next round */
    bool more_to_try;   /* the last round stopped before its end: another turn is due at once */
    bool schedule_dirty, any_spares; /* any_spares: some job ever asked for some */
    bool any_elastic;                /* some job ever was */
    uint64_t fit_version;            /* grows when slots may have become free */
    int64_t head_job;      /* the most urgent job that waits for slots, in the last round; 0 = none */
    uint64_t hold_version; /* grows when who is held back for it may have changed without more free slots */
    struct list examine_nodes, examine_attempts;
    int64_t next_job, next_event;
    struct list changed_jobs, changed_attempts, changed_nodes, order_nodes;
    struct event_record *events;
    size_t n_events, events_room;
    struct checkpoint_record *checkpoints;
    size_t n_checkpoints, checkpoints_room;
    struct core_changes changes;
    const char **order_names;
    bool *progress_only;
};

/* ---- changes.c: what the shell must store and send ---- */
void mark_job(struct core *core, struct job *job);
void mark_job_progress(struct core *core, struct job *job);
void mark_attempt(struct core *core, struct attempt *attempt);
void mark_node(struct core *core, struct node *node);
void mark_orders(struct core *core, struct node *node);
void mark_all_orders(struct core *core, struct attempt *attempt);
void changes_free(struct core *core);
/* Appends an event. attempt, rank 0/-1 and node NULL = none. */
struct event_of {
    const char *kind;
    int64_t job, attempt, rank;
    const char *node;
};
void event_note(struct core *core, struct event_of of, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void checkpoint_add(struct core *core, const struct checkpoint_record *checkpoint); /* copies it */

/* ---- jobs.c ---- */
struct job *job_find(const struct core *core, int64_t id);
struct job *job_add(struct core *core, struct job_record *record); /* takes the record's insides; no event */
void job_free(struct job *job);
/* Runs the job's table; `reason` becomes the job's sentence when the state changes or the row says so. */
void job_event(struct core *core, struct job *job, enum job_event event, const char *reason);
void job_set_reason(struct core *core, struct job *job, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void job_attempt_ended(struct core *core, struct job *job, struct attempt *attempt);
void job_rearm(struct core *core, struct job *job);
struct attempt *job_newest(const struct job *job);
bool job_pauses(const struct core *core, const struct job *job); /* it waits for its next attempt's time */
void job_pause(struct core *core, struct job *job, int64_t ms);  /* 0 = no longer */
/* A wish of the user is under way that ends the current attempt. */
bool job_stop_wanted(const struct job *job);

/* ---- attempts.c ---- */
/* Takes placement (job's ranks) and spares (may be NULL) over; gives up what the job kept. */
struct attempt *attempt_new(struct core *core, struct job *job, struct placed_rank *placement,
                            struct placed_rank *spares, size_t n_spares);
void attempt_load(struct core *core, struct job *job, struct attempt_record *record);
void attempt_free(struct attempt *attempt);
struct attempt *attempt_find(const struct job *job, int64_t number);
void attempt_examine_later(struct core *core, struct attempt *attempt);
void attempt_examine(struct core *core, struct attempt *attempt);
/* Begins to stop it (the sentence says why); nothing happens when it is stopping already. */
void attempt_stop(struct core *core, struct attempt *attempt, enum attempt_outcome outcome, const char *why);
/* Stops it because somebody wants its job placed again; one that is stopping already then ended for that. */
void attempt_preempt(struct core *core, struct attempt *attempt, const char *why);
bool attempt_kills(const struct attempt *attempt); /* SIGKILL at once instead of SIGTERM and grace */
void attempt_check_deadline(struct core *core, struct attempt *attempt);

/* ---- keep.c: slots between two attempts of a job ---- */
void attempt_hold(struct core *core,
                  struct attempt *attempt); /* its slots and spares are its own from now on */
void attempt_release(struct core *core, struct attempt *attempt);           /* and free again */
void keep_slots(struct core *core, struct job *job, struct attempt *ended); /* for the job's next attempt */
void keep_end(struct core *core, struct job *job);
void keep_after_load(struct core *core);
/* A node of what it keeps that has yet to report to a controller that has just started, or NULL. */
const struct node *keep_unheard(const struct core *core, const struct job *job);
/* Slots that the job keeps, as placed (fresh array of *n). */
struct placed_rank *keep_list(const struct core *core, const struct job *job, size_t *n);

/* ---- seats.c ---- */
void attempt_seats(struct core *core,
                   struct attempt *attempt); /* builds seats (and r.nodes where missing) from the placement */
void seat_take_report(struct core *core, struct attempt *attempt, size_t seat,
                      const struct link_report *report);
void seat_set_phase(struct core *core, struct attempt *attempt, size_t seat, enum report_phase phase,
                    const char *reason);
void seat_summarise(struct attempt *attempt, size_t seat);
bool seat_over(const struct attempt *attempt, size_t seat); /* nothing of it is left there */

/* ---- facts.c: what the seats come to ---- */
enum fault_kind {
    FAULT_NONE,
    FAULT_RANK,
    FAULT_UNFINISHED,
    FAULT_REFUSED,
    FAULT_LOST,
    FAULT_VANISHED,
    FAULT_DOWN
};
struct attempt_facts {
    size_t n, ready, running, finished, over;
    enum fault_kind fault;
    size_t fault_seat;
    const struct link_rank *fault_rank;
};
struct attempt_facts attempt_gather(const struct attempt *attempt);
bool fault_is_nodes(const struct attempt_facts *facts); /* not charged */
void fault_describe(const struct attempt *attempt, const struct attempt_facts *facts, struct err *out);

/* ---- nodes.c ---- */
struct node *node_find(const struct core *core, const char *name);
struct node *node_get(struct core *core, const char *name); /* makes an unknown one */
void node_load(struct core *core, struct node_record *record);
void node_free(struct node *node);
/* owner NULL = free. memory: bytes that go with the slot. Nothing happens when the slot is another's. */
void node_own(struct node *node, int64_t slot, struct attempt *from, struct attempt *to, int64_t memory);
void node_event(struct core *core, struct node *node, enum node_event event, const char *reason);
void node_host(struct core *core, struct node *node, struct attempt *attempt, size_t seat);
void node_unhost(struct core *core, struct node *node, struct attempt *attempt, size_t seat);
void node_set_reason(struct core *core, struct node *node, const char *text);
void node_examine_later(struct core *core, struct node *node);
void node_examine(struct core *core, struct node *node);
void node_due(void *ctx, void *owner);
void node_excuse(const struct core *core, struct node *node,
                 int64_t ms); /* counts that much silence as none */
void nodes_settle_check(struct core *core);
void nodes_settle(void *ctx, void *owner);
bool node_usable(const struct node *node);

/* ---- saving.c: checkpoints that are asked for, and the stops that wait for one ---- */
struct planned_stop {
    enum attempt_outcome outcome;
    const char *cause; /* "node2 drains": why a checkpoint is asked for */
    const char *why;   /* the attempt's reason when it stops */
    const char *node;  /* whose events tell of it too, or NULL */
};
/* Stops the attempt with a checkpoint: asks for one and stops it once that is durable, has failed, or did not come in time. At once, with
 * a word, when it saves none when asked. Takes the place of a stop that was planned before. */
void saving_stop(struct core *core, struct attempt *attempt, const struct planned_stop *stop);
/* A stop with that outcome is not wanted any more. */
void saving_take_back(struct core *core, struct attempt *attempt, enum attempt_outcome outcome);
/* Asks for a checkpoint after which it goes on. Joins a request that waits already. */
void saving_ask(struct core *core, struct attempt *attempt, const char *cause);
/* Says that it ends without a checkpoint, since it saves none when asked. */
void saving_skip(struct core *core, const struct attempt *attempt, const char *cause);
/* What a rank said: a checkpoint of that step is durable, or could not be saved (why). */
void saving_durable(struct core *core, struct attempt *attempt, int64_t step);
void saving_failed(struct core *core, struct attempt *attempt, int64_t step, const char *why);
void saving_examine(struct core *core, struct attempt *attempt); /* stops it when its time has come */
void saving_over(struct core *core, struct attempt *attempt); /* it stops: nothing is waited for any more */
int64_t saving_due(const struct core *core, const struct attempt *attempt); /* mono_ms, INT64_MAX = none */
/* How long a checkpoint may take: `least`, or what the longest of the job took, twice. */
int64_t saving_patience(const struct job *job, int64_t least_ms);

/* ---- announced.c: what ranks say of checkpoints ---- */
void announced_take(struct core *core, struct attempt *attempt, const struct link_progress *progress);
/* Paths of checkpoints that attempts before `attempt` announced, newest first (borrowed); at most ANNOUNCED_PATHS_MAX. */
enum { ANNOUNCED_PATHS_MAX = 8 };
size_t announced_paths(const struct attempt *attempt, const char *paths[ANNOUNCED_PATHS_MAX]);
void announced_free(struct job *job);

/* ---- drain.c ---- */
void drain_examine(struct core *core,
                   struct attempt *attempt); /* plans that it moves when a node of it drains */
/* Something is wrong with it: is it that a node of it leaves? Then it moves instead of failing. */
bool drain_leaves(struct core *core, struct attempt *attempt);
int64_t drain_deadline(
    const struct core *core,
    const struct attempt *attempt); /* mono_ms: for a checkpoint of it, INT64_MAX = no node drains */
void drain_explain(struct core *core, struct node *node);

/* ---- progress.c ---- */
/* The text under a key, or NULL; a whole number from 0; text that fits, without half a letter at its end. */
const char *said(const struct link_progress *progress, const char *key);
bool said_whole(const struct link_progress *progress, const char *key, int64_t *out);
/* A number, when it is one; else *out stays. */
void said_real(const struct link_progress *progress, const char *key, double *out);
void said_words(const struct link_progress *progress, const char *key, char *to, size_t size);
void lost_carry(struct core *core,
                struct attempt *attempt); /* at creation: detect and stop of the attempt before */
void lost_at_go(struct core *core, struct attempt *attempt);
void lost_at_stop(struct core *core, struct attempt *attempt); /* it never trained */

/* ---- spares.c ---- */
/* How many spare nodes a job on so many nodes asks for. */
int64_t core_spares(const struct core_config *config, const struct job_spec *spec, size_t n_nodes);
/* An event that says how many of the wanted spare nodes it has. */
void spares_tell(struct core *core, const struct attempt *attempt, int64_t wanted);
/* Spare nodes of the attempt on which none of these n ranks is. */
int64_t spares_left(const struct core *core, struct attempt *attempt, const struct placed_rank *ranks,
                    size_t n);
/* The attempt holds these n free slots from now on, too (rank -1). */
void spares_add(struct core *core, struct attempt *attempt, const struct placed_rank *more, size_t n);
/* At the end of a round: running jobs give up spares that are none any more, and take what is free. */
struct backfill;
void spares_look_after(struct core *core, struct placement_view *view, struct backfill *backfill);

/* ---- elastic.c: jobs whose dp is a range; another job has one size, with which all of this works, too ---- */
#define ELASTIC_LOOK UINT64_MAX
/* Places a job with the largest allowed dp from least to most that fits, and sets its size in spec. old: an attempt of it whose slots are
 * free in the view, or NULL: its ranks stay where they can. The ranks (fresh array of spec->ranks); or NULL with a sentence on the smallest
 * of these sizes, and spec has its largest. */
struct placed_rank *elastic_seat(const struct placement_view *view, struct job_spec *spec,
                                 const struct attempt_record *old, int64_t least, int64_t most,
                                 enum placement_result *result, struct err *why);
/* The dp that a waiting job may have at most: what it keeps, when others wait for slots; else no limit. */
int64_t elastic_most(const struct core *core, const struct job *job);
/* A new attempt: an event when its size is not that of the one before it (NULL = none), or is smaller than it could be. */
void elastic_begin(struct core *core, struct job *job, const struct attempt *before,
                   const struct attempt *attempt);
/* ", with dp 2 of up to 4: …" when its size is not the largest, else "". For a sentence on a running job. */
void elastic_describe(const struct job *job, struct err *out);
/* At the end of a round: running jobs that may have become larger are asked for a checkpoint, and then stopped to start again. */
void elastic_look_after(struct core *core, struct placement_view *view, const struct job *head);
void elastic_examine(struct core *core, struct attempt *attempt);    /* has the checkpoint come? */
int64_t elastic_due(const struct core *core, const struct job *job); /* mono_ms, INT64_MAX = none */
void elastic_expire(struct core *core, struct job *job);             /* looks again when that is over */

/* ---- schedule.c ---- */
/* Where a job goes: its ranks (NULL: they are there already) and its spares. */
struct seating {
    struct placed_rank *ranks, *spares;
    size_t n_spares;
};
void queue_add(struct core *core, struct job *job);
void queue_remove(struct core *core, struct job *job);
bool job_waits_for_slots(const struct core *core, const struct job *job);
void capacity_grew(struct core *core);
void capacity_shrank(struct core *core); /* jobs that are held back for a head must be looked at again */
void schedule(struct core *core);
/* What is free now; borrows the nodes' names. */
struct placement_view *core_view(const struct core *core);

/* ---- core.c ---- */
uint64_t core_random(struct core *core);
int64_t core_mono_of(const struct core *core, int64_t utc_ms);

#endif
