/* simview: first the one line that answers the question, then where the time went, then jobs, waits and failures. */
#include "launcher/simview.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/format.h"
#include "launcher/table.h"
#include "launcher/text.h"

/* ---- parts of the time ---- */

struct part {
    const char *key, *words;
    size_t at;
};
#define PART(key, member, words)                                                                             \
    {                                                                                                        \
        key, words, offsetof(struct sim_time, member)                                                        \
    }
static const struct part parts[] = {
    PART("useful", useful, "new training steps"),
    PART("detect", lost.detect, "noticing failures"),
    PART("stop", lost.stop, "stopping what is left"),
    PART("place", lost.place, "waiting for slots and getting ready"),
    PART("load", lost.load, "loading the checkpoint again"),
    PART("replay", lost.replay, "repeating steps since the checkpoint"),
    PART("stalled", stalled, "waiting for checkpoints"),
    PART("slowed", slowed, "slow nodes"),
    PART("other", other, "first start, and not yet accounted"),
};
enum { N_PARTS = sizeof(parts) / sizeof(parts[0]) };

static int64_t part_of(const struct sim_time *t, size_t i)
{
    int64_t value;
    memcpy(&value, (const char *)t + parts[i].at, sizeof(value));
    return value;
}

/* ---- words ---- */

static void print_title(const struct scenario *s, const struct sim_result *r, uint64_t seed)
{
    char *name = text_clean(s->name ? s->name : "");
    printf("%s%s%.6g days of %lld nodes with %lld devices, seed %llu.\n", name, name[0] ? ": " : "",
           (double)r->span_ms / 86400e3, (long long)r->nodes, (long long)r->devices,
           (unsigned long long)seed);
    free(name);
}

char *simview_never(const struct sim_result *r, size_t entry)
{
    static const char prefix[] = "never fits: "; /* how the core begins such a reason */
    const struct sim_job *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < r->n_jobs && r->never_fit > 0; i++)
        if (r->jobs[i].entry == entry && r->jobs[i].never_fits) {
            first = first ? first : &r->jobs[i];
            n++;
        }
    if (!first)
        return NULL;
    bool begins = strncmp(first->reason, prefix, sizeof(prefix) - 1) == 0;
    const char *why = first->reason + (begins ? sizeof(prefix) - 1 : 0);
    return n == 1 ? str_printf("job %s can never start in this cluster: %s", first->name, why)
                  : str_printf("%zu jobs %s can never start in this cluster: %s", n, first->name, why);
}

static void print_never(const struct scenario *s, const struct sim_result *r)
{
    for (size_t entry = 0; entry < s->n_jobs; entry++) {
        char *sentence = simview_never(r, entry);
        if (sentence)
            printf("%c%s.\n", toupper((unsigned char)sentence[0]), sentence + 1);
        free(sentence);
    }
}

static void print_headline(const struct sim_result *r)
{
    char useful[FORMAT_SIZE], held[FORMAT_SIZE], down[FORMAT_SIZE], goodput[FORMAT_SIZE];
    if (isfinite(r->ettr))
        printf("Of the time that jobs ran, %s was new training (ETTR). ", format_percent(r->ettr, useful));
    else
        printf("No job started. ");
    printf(
        "Devices were held by jobs for %s of the time (utilisation), did new training for %s (goodput), and "
        "were out for repair for %s.\n\n",
        format_percent(r->utilisation, held), format_percent(r->goodput, goodput),
        format_percent(r->down, down));
}

static void show_parts(const struct sim_result *r)
{
    static const struct table_column columns[] = {{.title = "WHERE THE TIME OF JOBS WENT"},
                                                  {.title = "SHARE", .right = true},
                                                  {.title = "DEVICE HOURS", .right = true}};
    struct table *t = table_new(columns, 3, false);
    for (size_t i = 0; i < N_PARTS; i++) {
        double ms = (double)part_of(&r->device_ms, i), all = (double)r->wall_device_ms;
        table_cell(t, COLOUR_NONE, "%s", parts[i].words);
        table_cell(t, COLOUR_NONE, "%.3f%%", all > 0 ? 100 * ms / all : 0);
        table_cell(t, COLOUR_NONE, "%.1f", ms / 3600e3);
    }
    table_show(t);
}

static void show_faults(const struct sim_result *r)
{
    static const struct table_column columns[] = {{.title = "FAILURES"},
                                                  {.title = "HAPPENED", .right = true},
                                                  {.title = "STRUCK A JOB", .right = true}};
    struct table *t = table_new(columns, 3, false);
    for (int k = 0; k < SCENARIO_KIND_COUNT; k++) {
        if (r->faults[k].happened == 0)
            continue;
        table_cell(t, COLOUR_NONE, "%s", scenario_kind_name((enum scenario_kind)k));
        table_cell(t, COLOUR_NONE, "%lld", (long long)r->faults[k].happened);
        table_cell(t, COLOUR_NONE, "%lld", (long long)r->faults[k].struck);
    }
    printf("\n");
    table_show(t);
}

static const struct sim_job *largest_job(const struct sim_result *r)
{
    const struct sim_job *largest = &r->jobs[0];
    for (size_t i = 1; i < r->n_jobs; i++)
        if (r->jobs[i].ranks > largest->ranks)
            largest = &r->jobs[i];
    return largest;
}

static void print_spares(const struct sim_result *r)
{
    char yield[FORMAT_SIZE];
    if (r->spare <= 0)
        return;
    const struct sim_job *j = largest_job(r);
    printf("%.2f%% of all device time was held as spares (job %s: %lld devices); spares included, %s of the "
           "device "
           "time that jobs took was new training (yield).\n",
           100 * r->spare, j->name, (long long)j->spares, format_percent(r->yield, yield));
}

static void print_waits(const struct sim_result *r)
{
    char mean[32], p50[32], p95[32], max[32];
    if (r->wait.n == 0) {
        printf("\nNone of %zu job%s started.\n", r->n_jobs, r->n_jobs == 1 ? "" : "s");
        return;
    }
    printf("\n%zu of %zu jobs started; they waited %s on average (half of them at most %s, 95%% at most %s, "
           "the longest %s).\n",
           r->wait.n, r->n_jobs, clock_format_duration((int64_t)r->wait.mean_ms, mean, sizeof(mean)),
           clock_format_duration((int64_t)r->wait.p50_ms, p50, sizeof(p50)),
           clock_format_duration((int64_t)r->wait.p95_ms, p95, sizeof(p95)),
           clock_format_duration((int64_t)r->wait.max_ms, max, sizeof(max)));
    print_spares(r);
    if (r->n_points > 0)
        printf(
            "Of the free devices, %.1f%% were on partly used nodes and %.1f%% in partly used racks (mean).\n",
            100 * r->torn_nodes, 100 * r->torn_racks);
    if (r->mttf_ms > 0)
        printf("The largest job was interrupted every %s and trained again %s later (means).\n",
               clock_format_duration(r->mttf_ms, mean, sizeof(mean)),
               clock_format_duration(r->recovery_ms, p50, sizeof(p50)));
}

/* ---- jobs ---- */

static const struct table_column job_columns[] = {
    {.title = "JOB", .right = true},   {.title = "NAME"},
    {.title = "RANKS", .right = true}, {.title = "STATE"},
    {.title = "STEPS", .right = true}, {.title = "WAITED", .right = true},
    {.title = "TOOK", .right = true},  {.title = "STARTS", .right = true},
    {.title = "ETTR", .right = true},  {.title = "WHY"},
};

static void show_job(struct table *t, const struct sim_job *j)
{
    char text[32], percent[FORMAT_SIZE];
    bool started = j->started_ms >= 0;
    table_cell(t, COLOUR_NONE, "%lld", (long long)j->id);
    table_cell(t, COLOUR_NONE, "%s", j->name);
    table_cell(t, COLOUR_NONE, "%lld", (long long)j->ranks);
    table_cell(t, COLOUR_NONE, "%s", job_state_name(j->state));
    table_cell(t, COLOUR_NONE, "%lld/%lld", (long long)j->step, (long long)j->steps);
    table_cell(t, COLOUR_NONE, "%s",
               started ? clock_format_duration(j->started_ms - j->submitted_ms, text, sizeof(text)) : "");
    table_cell(t, COLOUR_NONE, "%s", started ? clock_format_duration(j->wall_ms, text, sizeof(text)) : "");
    table_cell(t, COLOUR_NONE, "%lld", (long long)j->attempts);
    table_cell(t, COLOUR_NONE, "%s", format_percent(j->ettr, percent));
    table_cell(t, COLOUR_NONE, "%s", j->reason);
}

enum { JOBS_SHOWN = 12 };

static void show_jobs(const struct sim_result *r, bool wide)
{
    size_t n = wide || r->n_jobs <= JOBS_SHOWN ? r->n_jobs : JOBS_SHOWN;
    struct table *t = table_new(job_columns, sizeof(job_columns) / sizeof(job_columns[0]), false);
    for (size_t i = 0; i < n; i++)
        show_job(t, &r->jobs[i]);
    printf("\n");
    table_show(t);
    if (n < r->n_jobs)
        printf("… and %zu more jobs (-o wide shows all)\n", r->n_jobs - n);
}

void simview_print(const struct scenario *scenario, const struct sim_result *r, uint64_t seed, bool wide)
{
    print_title(scenario, r, seed);
    print_never(scenario, r);
    print_headline(r);
    show_parts(r);
    show_faults(r);
    print_waits(r);
    show_jobs(r, wide);
}

/* ---- JSON ---- */

static json_t *time_json(const struct sim_time *t)
{
    json_t *o = json_object();
    for (size_t i = 0; i < N_PARTS; i++) {
        char *key = str_printf("%s_s", parts[i].key);
        jsonx_set_real(o, key, (double)part_of(t, i) / 1e3);
        free(key);
    }
    return o;
}

static void set_time(json_t *o, const char *key, int64_t ms)
{
    jsonx_set_real(o, key, ms < 0 ? (double)NAN : (double)ms / 1e3);
}

static json_t *job_json(const struct sim_job *j)
{
    json_t *o = json_object();
    jsonx_set(o, "id", json_integer(j->id));
    jsonx_set_str(o, "name", j->name);
    jsonx_set_str(o, "state", job_state_name(j->state));
    jsonx_set_str(o, "reason", j->reason);
    jsonx_set(o, "ranks", json_integer(j->ranks));
    jsonx_set(o, "attempts", json_integer(j->attempts));
    jsonx_set(o, "interrupted", json_integer(j->interrupted));
    jsonx_set(o, "spares", json_integer(j->spares));
    jsonx_set(o, "never_fits", json_boolean(j->never_fits));
    jsonx_set(o, "step", json_integer(j->step));
    jsonx_set(o, "steps", json_integer(j->steps));
    set_time(o, "submitted_s", j->submitted_ms);
    set_time(o, "started_s", j->started_ms);
    set_time(o, "ended_s", j->ended_ms);
    set_time(o, "wall_s", j->wall_ms);
    jsonx_set_real(o, "ettr", j->ettr);
    jsonx_set(o, "time", time_json(&j->time));
    return o;
}

static json_t *faults_json(const struct sim_result *r)
{
    json_t *o = json_object();
    for (int k = 0; k < SCENARIO_KIND_COUNT; k++)
        jsonx_set(o, scenario_kind_name((enum scenario_kind)k),
                  json_pack("{s:I,s:I}", "happened", (json_int_t)r->faults[k].happened, "struck",
                            (json_int_t)r->faults[k].struck));
    return o;
}

static json_t *waits_json(const struct sim_result *r)
{
    return json_pack("{s:I,s:I,s:f,s:f,s:f,s:f}", "started", (json_int_t)r->wait.n, "never",
                     (json_int_t)r->wait.still, "mean_s", r->wait.mean_ms / 1e3, "p50_s",
                     r->wait.p50_ms / 1e3, "p95_s", r->wait.p95_ms / 1e3, "max_s", r->wait.max_ms / 1e3);
}

static json_t *points_json(const struct sim_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_points; i++) {
        const struct sim_point *p = &r->points[i];
        double day = (double)r->span_ms / 86400e3 * (double)(i + 1) / (double)r->n_points;
        json_array_append_new(list, json_pack("{s:f,s:f,s:f,s:f,s:f,s:f}", "day", day, "held", p->held,
                                              "useful", p->useful, "down", p->down, "torn_nodes",
                                              p->torn_nodes, "torn_racks", p->torn_racks));
    }
    return list;
}

static json_t *jobs_json(const struct sim_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_jobs; i++)
        json_array_append_new(list, job_json(&r->jobs[i]));
    return list;
}

json_t *simview_json(const struct scenario *scenario, const struct sim_result *r, uint64_t seed)
{
    json_t *o = json_object();
    jsonx_set_str(o, "name", scenario->name);
    jsonx_set(o, "seed", json_integer((json_int_t)seed));
    jsonx_set_real(o, "days", (double)r->span_ms / 86400e3);
    jsonx_set(o, "nodes", json_integer(r->nodes));
    jsonx_set(o, "devices", json_integer(r->devices));
    jsonx_set_real(o, "ettr", r->ettr);
    jsonx_set_real(o, "utilisation", r->utilisation);
    jsonx_set_real(o, "goodput", r->goodput);
    jsonx_set_real(o, "down", r->down);
    jsonx_set_real(o, "spare", r->spare);
    jsonx_set_real(o, "yield", r->yield);
    jsonx_set_real(o, "torn_nodes", r->torn_nodes);
    jsonx_set_real(o, "torn_racks", r->torn_racks);
    set_time(o, "mttf_s", r->mttf_ms > 0 ? r->mttf_ms : -1);
    set_time(o, "recovery_s", r->mttf_ms > 0 ? r->recovery_ms : -1);
    jsonx_set(o, "device_time", time_json(&r->device_ms));
    jsonx_set(o, "wait", waits_json(r));
    jsonx_set(o, "failures", faults_json(r));
    jsonx_set(o, "jobs", jobs_json(r));
    jsonx_set(o, "series", points_json(r));
    return o;
}
