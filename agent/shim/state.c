/* state: many changes of one loop turn become one revision. */
#include "agent/shim/state.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/procid.h"

struct state {
    struct link_report report;
    char *path, *token, *scratch, *cgroup;
    json_t *shim; /* procid of this process */
    bool changed;
};

struct state *state_new(const char *attempt_dir, const struct link_order *order)
{
    struct state *s = mem_zero(1, sizeof *s);
    struct procid self;
    s->path = str_printf("%s/state.json", attempt_dir);
    s->token = str_dup(order->token);
    s->shim = procid_of(0, &self) == 0 ? procid_to_json(&self) : json_null();
    s->report = (struct link_report){.job = order->job,
                                     .attempt = order->attempt,
                                     .phase = REPORT_PREPARING,
                                     .ranks = mem_zero(order->n_ranks + 1, sizeof *s->report.ranks),
                                     .n_ranks = order->n_ranks};
    for (size_t i = 0; i < order->n_ranks; i++)
        s->report.ranks[i] = (struct link_rank){
            .rank = order->ranks[i].rank, .slot = order->ranks[i].slot, .state = RANK_WAITING};
    s->changed = true;
    return s;
}

void state_free(struct state *s)
{
    if (!s)
        return;
    link_report_clear(&s->report);
    json_decref(s->shim);
    free(s->path);
    free(s->token);
    free(s->scratch);
    free(s->cgroup);
    free(s);
}

struct link_report *state_report(struct state *s)
{
    return &s->report;
}

void state_changed(struct state *s)
{
    s->changed = true;
}

void state_set_leftovers(struct state *s, const char *scratch, const char *cgroup)
{
    free(s->scratch);
    free(s->cgroup);
    s->scratch = str_dup(scratch);
    s->cgroup = str_dup(cgroup);
    s->changed = true;
}

bool state_flush(struct state *s)
{
    if (!s->changed)
        return false;
    s->changed = false;
    s->report.rev++;
    json_t *obj = link_report_encode(&s->report, NULL);
    jsonx_set(obj, "shim", json_incref(s->shim));
    jsonx_set_str(obj, "scratch", s->scratch);
    jsonx_set_str(obj, "cgroup", s->cgroup);
    jsonx_set_str(obj, "token", s->token);
    struct err err = {""};
    if (jsonx_write_file(s->path, obj, &err) != 0)
        log_error("revision %lld of this attempt's state is not on disk: %s", (long long)s->report.rev,
                  err.text);
    json_decref(obj);
    return true;
}

json_t *state_message(const struct state *s)
{
    return link_report_encode(&s->report, "report");
}
