/* simsweep: each combination of values is put into the file like --set and simulated with the same seeds, so that all of them meet the
 * same failures and only the settings differ. */
#include "launcher/simsweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/format.h"
#include "launcher/jobfile.h"
#include "launcher/table.h"
#include "sim/theory.h"

/* ---- one combination ---- */

static int load(const char *file, const char *const *sets, size_t n, struct scenario **out)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    int rc = scenario_load(file, sets, n, out, d);
    if (rc < 0)
        jobfile_print_diagnostics(d);
    free(d);
    return rc < 0 ? CLI_USAGE : CLI_DONE;
}

static void add(struct simsweep_row *row, const struct sim_result *r, double weight)
{
    double wall = r->wall_device_ms > 0 ? (double)r->wall_device_ms : 1;
    const struct lost_time *l = &r->device_ms.lost;
    double ettr = isfinite(r->ettr) ? r->ettr : 0;
    row->ettr += weight * ettr;
    row->ettr_spread += weight * ettr * ettr;
    row->goodput += weight * r->goodput;
    row->utilisation += weight * r->utilisation;
    row->spare += weight * r->spare;
    row->wait_ms += weight * r->wait.mean_ms;
    row->replay += weight * (double)l->replay / wall;
    row->stalled += weight * (double)r->device_ms.stalled / wall;
    row->recovery += weight * (double)(l->detect + l->stop + l->place + l->load) / wall;
    for (size_t i = 0; i < r->n_jobs; i++) {
        row->interrupted += weight * (double)r->jobs[i].interrupted;
        row->failed += weight * (r->jobs[i].state == JOB_FAILED);
    }
}

static void note_largest(struct simsweep *w, const struct scenario *s, const struct sim_result *r)
{
    const struct scenario_job *largest = &s->jobs[0];
    for (size_t i = 1; i < s->n_jobs; i++)
        if (s->jobs[i].spec->ranks > largest->spec->ranks)
            largest = &s->jobs[i];
    w->mttf_s += (double)r->mttf_ms / 1e3;
    w->cost_s = (double)largest->checkpoint.stall_ms / 1e3;
    w->overlap = largest->checkpoint.overlap;
    w->written_s = (double)largest->checkpoint.cost_ms / 1e3;
}

static int run_seeds(struct simsweep *w, struct simsweep_row *row, const struct scenario *s, int64_t seed)
{
    for (int64_t i = 0; i < w->seeds; i++) {
        struct err err = {""};
        struct sim_result r;
        struct sim_options options = {.seed = (uint64_t)((seed >= 0 ? seed : s->seed) + i), .days = w->days};
        if (w->days <= 0)
            options.days = s->days;
        if (sim_run(s, &options, &r, &err) < 0)
            return cli_fail(CLI_REFUSED, "%s", err.text);
        add(row, &r, 1.0 / (double)w->seeds);
        note_largest(w, s, &r);
        sim_result_clear(&r);
    }
    row->ettr_spread = sqrt(fmax(row->ettr_spread - row->ettr * row->ettr, 0));
    return CLI_DONE;
}

static int run_row(struct simsweep *w, const char *file, const struct args_list *sets, int64_t seed,
                   const struct scenario *first, const size_t *at)
{
    struct simsweep_row *row = &w->rows[w->n_rows++];
    const char **all = mem_zero(sets->count + w->n_keys + 1, sizeof(char *));
    char *own[SCENARIO_SWEEPS_MAX] = {NULL};
    for (size_t i = 0; i < sets->count; i++)
        all[i] = sets->items[i];
    for (size_t k = 0; k < w->n_keys; k++) {
        row->values[k] = str_dup(first->sweeps[k].values[at[k]]);
        own[k] = str_printf("%s=%s", w->keys[k], row->values[k]);
        all[sets->count + k] = own[k];
    }
    struct scenario *s = NULL;
    int rc = load(file, all, sets->count + w->n_keys, &s);
    if (rc == CLI_DONE)
        rc = run_seeds(w, row, s, seed);
    scenario_free(s);
    for (size_t k = 0; k < w->n_keys; k++)
        free(own[k]);
    free(all);
    return rc;
}

/* ---- all combinations ---- */

static bool next(const struct scenario *s, size_t *at)
{
    for (size_t k = s->n_sweeps; k > 0; k--) {
        if (++at[k - 1] < s->sweeps[k - 1].n_values)
            return true;
        at[k - 1] = 0;
    }
    return false;
}

/* Work that is done anyway, only later, gives the same goodput: then what jobs lost on the way decides. */
static bool is_better(const struct simsweep_row *a, const struct simsweep_row *b)
{
    double equal = 1e-3 * b->goodput;
    if (fabs(a->goodput - b->goodput) > equal)
        return a->goodput > b->goodput;
    return a->ettr > b->ettr + 1e-6;
}

static void find_best(struct simsweep *w)
{
    for (size_t i = 1; i < w->n_rows; i++)
        if (is_better(&w->rows[i], &w->rows[w->best]))
            w->best = i;
    w->mttf_s /= (double)w->n_rows * (double)w->seeds;
}

static int run_all(struct simsweep *w, const char *file, const struct args_list *sets, int64_t seed,
                   const struct scenario *s)
{
    size_t at[SCENARIO_SWEEPS_MAX] = {0}, rows = 1;
    for (size_t k = 0; k < s->n_sweeps; k++) {
        w->keys[w->n_keys++] = str_dup(s->sweeps[k].key);
        rows *= s->sweeps[k].n_values;
    }
    if (rows > SIMSWEEP_ROWS_MAX)
        return cli_fail(CLI_USAGE,
                        "%s: sweep has %zu combinations, at most %d can be simulated: give fewer values",
                        file, rows, SIMSWEEP_ROWS_MAX);
    int rc = CLI_DONE;
    do {
        rc = run_row(w, file, sets, seed, s, at);
    } while (rc == CLI_DONE && next(s, at));
    if (rc == CLI_DONE)
        find_best(w);
    return rc;
}

int simsweep_run(const char *file, const struct args_list *sets, int64_t seed, int64_t seeds, double days,
                 struct simsweep *out)
{
    struct scenario *s = NULL;
    *out = (struct simsweep){.seeds = seeds, .days = days};
    int rc = load(file, sets->items, sets->count, &s);
    if (rc == CLI_DONE)
        rc = run_all(out, file, sets, seed, s);
    scenario_free(s);
    return rc;
}

void simsweep_clear(struct simsweep *w)
{
    for (size_t k = 0; k < w->n_keys; k++)
        free(w->keys[k]);
    for (size_t i = 0; i < w->n_rows; i++)
        for (size_t k = 0; k < w->n_keys; k++)
            free(w->rows[i].values[k]);
}

/* ---- showing ---- */

static void show_row(struct table *t, const struct simsweep *w, size_t i)
{
    const struct simsweep_row *r = &w->rows[i];
    char wait[32];
    enum colour colour = i == w->best && w->n_rows > 1 ? COLOUR_GREEN : COLOUR_NONE;
    table_cell(t, colour, "%s", i == w->best && w->n_rows > 1 ? "best" : " ");
    for (size_t k = 0; k < w->n_keys; k++)
        table_cell(t, colour, "%s", r->values[k]);
    table_cell(t, colour, "%.2f%%", 100 * r->goodput);
    table_cell(t, colour, "%.2f%%", 100 * r->ettr);
    table_cell(t, colour, "%.2f%%", 100 * r->ettr_spread);
    table_cell(t, colour, "%.2f%%", 100 * r->replay);
    table_cell(t, colour, "%.2f%%", 100 * r->stalled);
    table_cell(t, colour, "%.2f%%", 100 * r->recovery);
    table_cell(t, colour, "%.2f%%", 100 * r->spare);
    table_cell(t, colour, "%.1f", r->interrupted);
    table_cell(t, colour, "%.1f", r->failed);
    table_cell(t, colour, "%s", clock_format_duration((int64_t)r->wait_ms, wait, sizeof(wait)));
}

static void show_table(const struct simsweep *w)
{
    static const struct table_column rest[] = {
        {.title = "GOODPUT", .right = true}, {.title = "ETTR", .right = true},
        {.title = "SPREAD", .right = true},  {.title = "REPEATED", .right = true},
        {.title = "SAVING", .right = true},  {.title = "RECOVERING", .right = true},
        {.title = "SPARE", .right = true},   {.title = "INTERRUPTED", .right = true},
        {.title = "FAILED", .right = true},  {.title = "WAIT", .right = true}};
    struct table_column columns[1 + SCENARIO_SWEEPS_MAX + sizeof(rest) / sizeof(rest[0])] = {{.title = ""}};
    size_t n = 1;
    for (size_t k = 0; k < w->n_keys; k++)
        columns[n++] = (struct table_column){.title = w->keys[k], .right = true};
    memcpy(&columns[n], rest, sizeof(rest));
    n += sizeof(rest) / sizeof(rest[0]);
    struct table *t = table_new(columns, n, false);
    for (size_t i = 0; i < w->n_rows; i++)
        show_row(t, w, i);
    table_show(t);
}

static void say_best(const struct simsweep *w)
{
    const struct simsweep_row *r = &w->rows[w->best];
    printf("Best of %zu: ", w->n_rows);
    for (size_t k = 0; k < w->n_keys; k++)
        printf("%s%s = %s", k > 0 ? ", " : "", w->keys[k], r->values[k]);
    printf(": %.2f%% of all device time is new training, and %.2f%% of the time of jobs (means over %lld "
           "seed%s).\n\n",
           100 * r->goodput, 100 * r->ettr, (long long)w->seeds, w->seeds == 1 ? "" : "s");
}

/* What theory says beside it. */
static void say_theory(const struct simsweep *w)
{
    char mttf[32], cost[32], young[32], daly[32], written[32];
    if (w->mttf_s <= 0 || w->cost_s <= 0)
        return;
    printf("\nThe largest job was interrupted every %s, and a checkpoint stops it for %s: the best interval "
           "is %s by Young (1974) and "
           "%s by Daly (2006)%s%s%s.\n",
           clock_format_duration((int64_t)(1e3 * w->mttf_s), mttf, sizeof(mttf)),
           clock_format_duration((int64_t)(1e3 * w->cost_s), cost, sizeof(cost)),
           clock_format_duration((int64_t)(1e3 * theory_young(w->cost_s, w->mttf_s)), young, sizeof(young)),
           clock_format_duration((int64_t)(1e3 * theory_daly(w->cost_s, w->mttf_s)), daly, sizeof(daly)),
           w->overlap ? ", not below the " : "",
           w->overlap ? clock_format_duration((int64_t)(1e3 * w->written_s), written, sizeof(written)) : "",
           w->overlap ? " that one takes to be written" : "");
}

void simsweep_print(const struct simsweep *w)
{
    if (w->n_rows > 1)
        say_best(w);
    show_table(w);
    say_theory(w);
}

static json_t *row_json(const struct simsweep *w, const struct simsweep_row *r)
{
    json_t *o = json_object(), *set = json_object();
    for (size_t k = 0; k < w->n_keys; k++)
        jsonx_set_str(set, w->keys[k], r->values[k]);
    jsonx_set(o, "set", set);
    jsonx_set_real(o, "goodput", r->goodput);
    jsonx_set_real(o, "ettr", r->ettr);
    jsonx_set_real(o, "ettr_spread", r->ettr_spread);
    jsonx_set_real(o, "utilisation", r->utilisation);
    jsonx_set_real(o, "spare", r->spare);
    jsonx_set_real(o, "replay", r->replay);
    jsonx_set_real(o, "stalled", r->stalled);
    jsonx_set_real(o, "recovery", r->recovery);
    jsonx_set_real(o, "interrupted", r->interrupted);
    jsonx_set_real(o, "failed", r->failed);
    jsonx_set_real(o, "wait_s", r->wait_ms / 1e3);
    return o;
}

json_t *simsweep_json(const struct simsweep *w)
{
    json_t *o = json_object(), *rows = json_array();
    bool known = w->mttf_s > 0 && w->cost_s > 0;
    for (size_t i = 0; i < w->n_rows; i++)
        json_array_append_new(rows, row_json(w, &w->rows[i]));
    jsonx_set(o, "seeds", json_integer(w->seeds));
    jsonx_set(o, "rows", rows);
    jsonx_set(o, "best", json_integer((json_int_t)w->best));
    jsonx_set_real(o, "mttf_s", w->mttf_s > 0 ? w->mttf_s : (double)NAN);
    jsonx_set_real(o, "young_s", known ? theory_young(w->cost_s, w->mttf_s) : (double)NAN);
    jsonx_set_real(o, "daly_s", known ? theory_daly(w->cost_s, w->mttf_s) : (double)NAN);
    return o;
}
