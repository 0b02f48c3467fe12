/* acts: what users, admins and bad luck do to a cell. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cell.h"

static struct agent *pick_agent(struct cell *c)
{
    return &c->agents[cell_pick(c, (int64_t)c->n_agents)];
}

/* A job that was promised (and runs), or 0. */
static int64_t pick_of(struct cell *c, bool running)
{
    int64_t found[JOBS_MAX + 1] = {0}, n = 0;
    for (int64_t id = 1; id <= JOBS_MAX; id++)
        if (c->promises[id].yaml && (!running || c->jobs[id].state == JOB_RUNNING))
            found[n++] = id;
    return n > 0 ? found[cell_pick(c, n)] : 0;
}

static int64_t pick_job(struct cell *c)
{
    return pick_of(c, false);
}

/* Room in the list of requests is always there: a turn answers them. */
static struct request *ask(struct cell *c, int kind)
{
    if (c->n_requests == REQUESTS_MAX)
        cell_turn(c);
    struct request *q = &c->requests[c->n_requests++];
    *q = (struct request){.job = 0};
    q->kind = kind;
    return q;
}

/* ---- jobs ---- */

/* A mesh of at most n ranks. */
static void draw_mesh(struct cell *c, int64_t n, int64_t mesh[4])
{
    for (int i = 0; i < 4; i++)
        mesh[i] = 1;
    for (int tries = 0; tries < 6; tries++) {
        int64_t *axis = &mesh[cell_pick(c, 4)];
        int64_t others = mesh[0] * mesh[1] * mesh[2] * mesh[3] / *axis;
        if (others * (*axis + 1) <= n)
            *axis += 1;
    }
}

static char *program_yaml(const int64_t mesh[4])
{
    return str_printf("name: prog\nrun: {command: [prog], ranks: %lld}\nparallel: {tp: %lld, pp: %lld, cp: "
                      "%lld, dp: %lld}\n",
                      (long long)(mesh[0] * mesh[1] * mesh[2] * mesh[3]), (long long)mesh[0],
                      (long long)mesh[1], (long long)mesh[2], (long long)mesh[3]);
}

static char *training_yaml(int64_t dp)
{
    return str_printf(
        "name: train\ntrain:\n  model: {arch: gpt2, layers: 1, hidden: 16, heads: 2, context: 16}\n"
        "  data: {path: a}\n  steps: 1000\n  batch: {global: %lld}\nparallel: {dp: %lld}\n",
        (long long)dp, (long long)dp);
}

/* Of any number of replicas from LOW to HIGH that the batch allows, HIGH up to what all slots could take; it grows soon. */
static char *elastic_yaml(struct cell *c, const int64_t mesh[4])
{
    int64_t most = c->n_slots / (mesh[0] * mesh[1] * mesh[2]);
    long long low = 1 + (long long)cell_pick(c, mesh[3]),
              dp = low + (long long)cell_pick(c, most > low ? most - low + 1 : 1);
    return str_printf(
        "name: train\ntrain:\n  model: {arch: gpt2, layers: 1, hidden: 16, heads: 2, context: 16}\n"
        "  data: {path: a}\n  steps: 1000\n  batch: {global: %lld, micro: 1}\n"
        "parallel: {tp: %lld, pp: %lld, cp: %lld, dp: %lld..%lld, regrow: %llds}\n",
        60 * dp, (long long)mesh[0], (long long)mesh[1], (long long)mesh[2], low, dp,
        (long long)cell_pick(c, 20));
}

static char *draw_yaml(struct cell *c)
{
    static const char *const budgets[] = {"", "restart: {max: 0}\n",
                                          "restart: {max: 1, window: 1m, backoff: 500ms}\n",
                                          "restart: {max: 4, window: 1h, backoff: 1s}\n"};
    static const char *const limits[] = {"", "", "limits: {time: 40s, grace: 2s}\n",
                                         "limits: {grace: 500ms}\n"};
    static const char *const places[] = {
        "",
        "",
        "placement: {spares: 1}\n",
        "placement: {spares: auto}\n",
        "placement: {spares: 2, pp: {within: rack, required: true}}\n",
        "placement: {spares: 3, dp: {within: pod, required: true}}\n",
        "placement: {cp: {within: node, required: true}, dp: {within: rack}}\n",
        "placement: {tp: {within: node, required: false}}\n"};
    static const char *const ranks[] = {"", "priority: 3\n", "priority: -1\n", "resources: {memory: 9GiB}\n"};
    int64_t mesh[4], key = c->keys;
    draw_mesh(c, 1 + cell_pick(c, cell_pick(c, 3) ? 1 + c->n_slots / 2 : c->n_slots), mesh);
    bool train = cell_pick(c, 3) == 0;
    bool elastic = train && cell_pick(c, 3);
    char *head = elastic ? elastic_yaml(c, mesh) : train ? training_yaml(mesh[3]) : program_yaml(mesh);
    bool saves = train || cell_pick(c, 2);
    char *folder = saves ? str_printf("checkpoint: {directory: ck%lld}\n", (long long)key) : str_dup("");
    char *yaml = str_printf("%s%s%s%s%s%s", head, folder, budgets[cell_pick(c, 4)], limits[cell_pick(c, 4)],
                            places[cell_pick(c, 8)], ranks[cell_pick(c, 4)]);
    free(head);
    free(folder);
    return yaml;
}

static struct job_spec *read_spec(struct cell *c, const char *yaml)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    struct job_spec *spec = NULL;
    if (job_spec_parse_plan(yaml, strlen(yaml), "job", NULL, 0, &spec, d) != 0)
        cell_fail(c, "the test's own job is wrong: %s\n%s", d->text[0], yaml);
    free(d);
    return spec;
}

static void send_submit(struct cell *c, const char *yaml, const char *key, int64_t must_be)
{
    enum core_refusal why;
    struct err err = {""};
    int64_t id = 0;
    struct core_submit s = {key, "ann", "/home/ann", 1000, 1000, read_spec(c, yaml)};
    if (core_submit(c->core, cell_time(c), &s, &id, &why, &err) != 0) {
        job_spec_free(s.spec);
        if (must_be || err.text[0] == '\0')
            cell_fail(c, "submit with key %s was refused: %s", key, err.text);
        return;
    }
    if (must_be && id != must_be)
        cell_fail(c, "key %s gave job %lld, and now %lld", key, (long long)must_be, (long long)id);
    struct request *q = ask(c, ASK_SUBMIT);
    q->job = id;
    q->yaml = str_dup(yaml);
    q->key = str_dup(key);
}

static int64_t jobs_asked(const struct cell *c)
{
    int64_t n = c->next_job;
    for (size_t i = 0; i < c->n_requests; i++)
        n += c->requests[i].kind == ASK_SUBMIT;
    return n;
}

static void submit(struct cell *c)
{
    if (jobs_asked(c) >= JOBS_MAX - 2)
        return;
    char *yaml = draw_yaml(c), *key = str_printf("key-%lld", (long long)c->keys++);
    cell_note(c, "submit %s", key);
    send_submit(c, yaml, key, 0);
    free(yaml);
    free(key);
}

/* A client that did not hear the answer asks again. */
static void submit_again(struct cell *c)
{
    int64_t id = pick_job(c);
    if (id)
        send_submit(c, c->promises[id].yaml, c->promises[id].key, id);
}

static void wish(struct cell *c)
{
    static const enum core_job_verb verbs[] = {CORE_CANCEL,  CORE_HOLD,    CORE_RELEASE,
                                               CORE_RELEASE, CORE_REQUEUE, CORE_REQUEUE};
    static const char *const words[] = {"cancel", "hold", "release", "requeue"};
    enum core_refusal why;
    struct err err = {""};
    int64_t id = pick_job(c);
    if (!id)
        return;
    enum core_job_verb verb = verbs[cell_pick(c, 6)];
    const struct job_record *r = core_job(c->core, id);
    bool final = r && job_state_final(r->state);
    cell_note(c, "%s job %lld", words[verb], (long long)id);
    if (core_job_request(c->core, cell_time(c), id, verb, "ann", &why, &err) != 0) {
        if (err.text[0] == '\0' || why != CORE_REFUSED)
            cell_fail(c, "%s of job %lld was refused without a reason", words[verb], (long long)id);
        return;
    }
    struct request *q = ask(c, ASK_VERB);
    q->job = id;
    q->verb = verb;
    q->revives = final && verb == CORE_REQUEUE;
}

/* ---- ranks ---- */

/* A running rank of the job's newest attempt. */
static struct shim *pick_running(struct cell *c, int64_t id, struct agent **g, struct link_rank **rank)
{
    int64_t number = id ? c->jobs[id].attempt : 0;
    size_t from = (size_t)cell_pick(c, (int64_t)c->n_agents);
    for (size_t i = 0; i < c->n_agents && number > 0; i++) {
        *g = &c->agents[(from + i) % c->n_agents];
        struct shim *s = agent_shim(*g, id, number);
        for (size_t k = 0; s && k < s->report.n_ranks; k++)
            if (s->report.ranks[k].state == RANK_RUNNING) {
                *rank = &s->report.ranks[k];
                return s;
            }
    }
    return NULL;
}

static void end_a_rank(struct cell *c)
{
    static const int codes[] = {0, 0, 0, 1, 1, 2, 93, 94, 95};
    struct agent *g = NULL;
    struct link_rank *r = NULL;
    struct shim *s = pick_running(c, pick_of(c, true), &g, &r);
    if (!s)
        return;
    r->state = RANK_EXITED;
    r->code = codes[cell_pick(c, 9)];
    r->signal = cell_pick(c, 6) == 0 ? 9 : 0;
    r->finalized = r->connected && r->code == 0 && r->signal == 0 && cell_pick(c, 4) != 0;
    r->ended_ms = c->now_ms;
    cell_note(c, "%s: rank %lld of %lld.%lld ends with %d, signal %d", g->name, (long long)r->rank,
              (long long)s->job, (long long)s->attempt, r->code, r->signal);
    if (shim_running(s) == 0)
        s->todo = TODO_NOTHING;
    shim_tell(s, shim_running(s) > 0 ? REPORT_RUNNING : REPORT_GONE);
}

/* All of a job's ranks end well. */
static void finish_a_job(struct cell *c)
{
    int64_t id = pick_job(c);
    for (size_t i = 0; id && i < c->n_agents; i++) {
        struct shim *s = agent_shim(&c->agents[i], id, c->jobs[id].attempt);
        if (s && !shim_final(s) && shim_running(s) > 0)
            shim_end_ranks(c, s, 0, 0);
    }
    cell_note(c, "job %lld does its last step", (long long)id);
}

static void lose_a_shim(struct cell *c)
{
    struct agent *g = NULL;
    struct link_rank *r = NULL;
    struct shim *s = pick_running(c, pick_of(c, true), &g, &r);
    if (!s)
        return;
    cell_note(c, "%s: the shim of %lld.%lld dies", g->name, (long long)s->job, (long long)s->attempt);
    shim_end_ranks(c, s, 0, 9);
    shim_tell(s, REPORT_LOST);
}

static void say(struct cell *c, const struct agent *g, const struct shim *s, const char *key,
                const char *value)
{
    struct link_progress p = {s->job, s->attempt, s->report.ranks[0].rank, json_object()};
    json_object_set_new(p.values, key, json_string(value));
    core_node_progress(c->core, cell_time(c), g->name, &p);
    json_decref(p.values);
}

static void make_progress(struct cell *c)
{
    static const char *const keys[] = {
        "STEP", "STEP", "STEP", "CHECKPOINT_DURABLE", "CHECKPOINT_DURABLE", "CHECKPOINT_ON"};
    struct agent *g = NULL;
    struct link_rank *r = NULL;
    const struct shim *s = pick_running(c, pick_of(c, true), &g, &r);
    if (!s || !agent_speaks(g))
        return;
    char value[24];
    (void)snprintf(value, sizeof(value), "%lld", (long long)cell_pick(c, 60));
    say(c, g, s, keys[cell_pick(c, 6)], value);
}

static void save(struct cell *c, int64_t id)
{
    const struct attempt_record *a = core_attempt(c->core, id, 0);
    struct agent *g = a && a->state == ATTEMPT_RUNNING ? cell_agent(c, a->placement[0].node) : NULL;
    const struct shim *s = g ? agent_shim(g, id, a->number) : NULL;
    if (!s || shim_running(s) == 0 || !agent_speaks(g))
        return;
    char value[24];
    (void)snprintf(value, sizeof(value), "%lld", (long long)c->saves);
    say(c, g, s, "CHECKPOINT_ON", "SIGUSR1");
    say(c, g, s, "CHECKPOINT_DURABLE", value);
}

void act_save(struct cell *c)
{
    c->saves++;
    for (int64_t id = 1; id <= JOBS_MAX; id++)
        if (c->promises[id].yaml)
            save(c, id);
}

/* ---- nodes ---- */

static void drain(struct cell *c)
{
    enum core_refusal why;
    struct err err = {""};
    struct agent *g = pick_agent(c);
    cell_note(c, "drain %s", g->name);
    if (core_drain(c->core, cell_time(c), g->name, "why not", cell_pick(c, 2) ? c->now_ms + 4000 : 0,
                   cell_pick(c, 3) == 0, &why, &err) == 0)
        ask(c, ASK_DRAIN)->agent = g->index;
}

static void undrain(struct cell *c)
{
    enum core_refusal why;
    struct err err = {""};
    struct agent *g = pick_agent(c);
    if (core_undrain(c->core, cell_time(c), g->name, &why, &err) == 0) {
        cell_note(c, "undrain %s", g->name);
        ask(c, ASK_UNDRAIN)->agent = g->index;
    }
}

static void break_link(struct cell *c)
{
    struct agent *g = pick_agent(c);
    cell_note(c, "%s: its link breaks", g->name);
    agent_cut(c, g, cell_pick(c, 2));
}

static void go_mute(struct cell *c)
{
    struct agent *g = pick_agent(c);
    g->mute = !g->mute;
    cell_note(c, "%s is %s", g->name, g->mute ? "mute" : "heard again");
}

static void link_up(struct cell *c, struct agent *g)
{
    g->up = true;
    agent_hello(c, g);
}

static void mend_link(struct cell *c)
{
    struct agent *g = pick_agent(c);
    if (!g->linked || cell_pick(c, 6) == 0) /* a second hello while the link is alive is fine */
        link_up(c, g);
}

static void restart_agent(struct cell *c)
{
    struct agent *g = pick_agent(c);
    cell_note(c, "%s: its agent is killed", g->name);
    agent_cut(c, g, cell_pick(c, 4) != 0);
    g->up = false;
    g->leaving = false;
    if (cell_pick(c, 2))
        link_up(c, g);
}

static void reset_node(struct cell *c)
{
    struct agent *g = pick_agent(c);
    cell_note(c, "%s boots", g->name);
    agent_cut(c, g, cell_pick(c, 4) != 0);
    agent_reset(c, g);
    if (cell_pick(c, 3) == 0)
        link_up(c, g);
}

/* It is told to end everything there and to exit. */
static void leave(struct cell *c)
{
    struct agent *g = pick_agent(c);
    if (!agent_speaks(g) || g->leaving || cell_pick(c, 3))
        return;
    cell_note(c, "%s leaves", g->name);
    g->leaving = true;
    core_node_leaving(c->core, cell_time(c), g->name, "belay down");
    for (size_t i = 0; i < SHIMS_MAX; i++)
        if (g->shims[i].used && !shim_final(&g->shims[i])) {
            g->shims[i].todo = TODO_STOP;
            g->shims[i].killed = true;
        }
}

static void temper(struct cell *c)
{
    pick_agent(c)->refuses = cell_pick(c, 3) == 0;
}

static void kill_controller(struct cell *c)
{
    if (c->kill > 0)
        cell_kill(c);
}

static void wait_a_while(struct cell *c)
{
    cell_pass(c, 100 + cell_pick(c, 4000));
}

static void wait_long(struct cell *c)
{
    cell_pass(c, 5000 + cell_pick(c, 20000));
}

void act(struct cell *c)
{
    static void (*const acts[])(struct cell *) = {
        submit,        submit,      submit,        submit_again,  end_a_rank,      end_a_rank,   end_a_rank,
        finish_a_job,  lose_a_shim, make_progress, make_progress, make_progress,   wish,         wish,
        drain,         undrain,     break_link,    go_mute,       mend_link,       mend_link,    mend_link,
        restart_agent, reset_node,  leave,         temper,        kill_controller, wait_a_while, wait_a_while,
        wait_a_while,  wait_long};
    acts[cell_pick(c, sizeof(acts) / sizeof(acts[0]))](c);
}

/* ---- no more faults ---- */

/* One that leaves exits, and somebody starts it again. What was said late may have told of something that is over; a hello sets that right. */
static void heal_agent(struct cell *c, struct agent *g)
{
    if (g->lost)
        return;
    if (!g->linked || g->leaving || c->replays)
        link_up(c, g);
    g->refuses = g->leaving = g->mute = false;
}

/* The machine is gone for good, or cannot be reached any more while what runs there goes on. */
static void lose_agent(struct cell *c, struct agent *g)
{
    cell_note(c, "%s never comes back", g->name);
    g->lost = true;
    agent_cut(c, g, cell_pick(c, 2));
    if (cell_pick(c, 2))
        agent_reset(c, g);
}

void act_heal(struct cell *c)
{
    cell_note(c, "all faults end");
    for (size_t i = 0; i < c->n_agents; i++)
        if (c->loses && cell_chance(c, 200))
            lose_agent(c, &c->agents[i]);
    c->healed = true;
    for (size_t i = 0; i < c->n_agents; i++)
        heal_agent(c, &c->agents[i]);
    cell_turn(c);
}

static void release(struct cell *c, int64_t id)
{
    enum core_refusal why;
    struct err err = {""};
    if (!c->promises[id].yaml ||
        core_job_request(c->core, cell_time(c), id, CORE_RELEASE, "ann", &why, &err) != 0)
        return;
    struct request *q = ask(c, ASK_VERB);
    q->job = id;
    q->verb = CORE_RELEASE;
}

void act_let_go(struct cell *c)
{
    enum core_refusal why;
    struct err err = {""};
    cell_note(c, "all drains and holds end");
    for (size_t i = 0; i < c->n_agents; i++)
        if (core_undrain(c->core, cell_time(c), c->agents[i].name, &why, &err) == 0)
            ask(c, ASK_UNDRAIN)->agent = i;
    for (int64_t id = 1; id <= JOBS_MAX; id++)
        release(c, id);
    cell_turn(c);
}
