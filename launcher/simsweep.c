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
#include "launcher/simview.h"
#include "launcher/table.h"
#include "launcher/text.h"
#include "planner/saves.h"
#include "sim/theory.h"

#define EQUAL_SHARE                                                                                          \
    1e-3 /* a smaller part of the goodput is what was under way at the end, and no difference */

/* ---- one combination ---- */

static void add(struct simsweep_row *row, const struct sim_result *r, double weight)
{
    double wall = r->wall_device_ms > 0 ? (double)r->wall_device_ms : 1;
    const struct lost_time *l = &r->device_ms.lost;
    double ettr = isfinite(r->ettr) ? r->ettr : 0;
    row->ettr += weight * ettr;
    row->ettr_spread += weight * ettr * ettr;
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

static void sample(struct simsweep_row *row, int64_t seed, const struct sim_result *r, double weight)
{
    struct simsweep_sample *one = &row->samples[seed];
    one->of[SWEEP_GOODPUT] = r->goodput;
    one->of[SWEEP_YIELD] = isfinite(r->yield) ? r->yield : 0;
    for (size_t k = 0; k < SWEEP_COUNT; k++)
        row->mean.of[k] += weight * one->of[k];
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

static void note_never(struct simsweep_row *row, const struct scenario *s, const struct sim_result *r)
{
    for (size_t entry = 0; entry < s->n_jobs && !row->never; entry++)
        row->never = simview_never(r, entry);
}

static int run_seeds(struct simsweep *w, struct simsweep_row *row, const struct scenario *s, int64_t seed)
{
    row->samples = mem_zero((size_t)w->seeds, sizeof(*row->samples));
    for (int64_t i = 0; i < w->seeds; i++) {
        struct err err = {""};
        struct sim_result r;
        struct sim_options options = {.seed = (uint64_t)((seed >= 0 ? seed : s->seed) + i), .days = w->days};
        if (w->days <= 0)
            options.days = s->days;
        if (sim_run(s, &options, &r, &err) < 0)
            return cli_fail(CLI_REFUSED, "%s", err.text);
        add(row, &r, 1.0 / (double)w->seeds);
        sample(row, i, &r, 1.0 / (double)w->seeds);
        note_never(row, s, &r);
        note_largest(w, s, &r);
        sim_result_clear(&r);
    }
    double n = (double)w->seeds, variance = fmax(row->ettr_spread - row->ettr * row->ettr, 0);
    row->ettr_spread = n > 1 ? sqrt(variance * n / (n - 1)) : (double)NAN;
    return CLI_DONE;
}

static int run_row(struct simsweep *w, const struct simfile *file, const struct args_list *sets, int64_t seed,
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
    int rc = simfile_scenario(file, all, sets->count + w->n_keys, &s);
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

/* ---- which is best ---- */

/* Is a row's goodput (or yield) as good as that of another? With one seed only what is equal anyway is. */
static bool is_as_good(const struct simsweep *w, const struct simsweep_row *row,
                       const struct simsweep_row *other, size_t what)
{
    double *d = mem_zero((size_t)w->seeds, sizeof(*d)), mean = 0;
    for (int64_t i = 0; i < w->seeds; i++) {
        d[i] = row->samples[i].of[what] - other->samples[i].of[what];
        mean += d[i] / (double)w->seeds;
    }
    bool good = mean >= 0 || (w->seeds > 1 && theory_is_luck(d, (size_t)w->seeds));
    free(d);
    return good;
}

static size_t most(const struct simsweep *w, size_t what, bool only_near)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < w->n_rows; i++) {
        bool counts = only_near ? w->rows[i].near : !w->rows[i].never;
        if (counts && (best == SIZE_MAX || w->rows[i].mean.of[what] > w->rows[best].mean.of[what] + 1e-6))
            best = i;
    }
    return best == SIZE_MAX ? 0 : best;
}

/* Goodput first: near is who has as much as the one with the most of it. Work that is done anyway, only later, is no difference there; so of
 * those, what jobs took for it decides. */
static void find_best(struct simsweep *w)
{
    const struct simsweep_row *top = &w->rows[most(w, SWEEP_GOODPUT, false)];
    double enough = (1 - EQUAL_SHARE) * top->mean.of[SWEEP_GOODPUT];
    for (size_t i = 0; i < w->n_rows; i++) {
        struct simsweep_row *r = &w->rows[i];
        r->near = !r->never && (r->mean.of[SWEEP_GOODPUT] >= enough || is_as_good(w, r, top, SWEEP_GOODPUT));
    }
    w->best = most(w, SWEEP_YIELD, true);
    for (size_t i = 0; i < w->n_rows; i++)
        w->rows[i].same =
            w->rows[i].near && i != w->best && is_as_good(w, &w->rows[i], &w->rows[w->best], SWEEP_YIELD);
    w->mttf_s /= (double)w->n_rows * (double)w->seeds;
}

static int run_all(struct simsweep *w, const struct simfile *file, const struct args_list *sets, int64_t seed,
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
                        file->name, rows, SIMSWEEP_ROWS_MAX);
    int rc = CLI_DONE;
    do {
        rc = run_row(w, file, sets, seed, s, at);
    } while (rc == CLI_DONE && next(s, at));
    if (rc == CLI_DONE)
        find_best(w);
    return rc;
}

int simsweep_run(const struct simfile *file, const struct args_list *sets, int64_t seed, int64_t seeds,
                 double days, struct simsweep *out)
{
    struct scenario *s = NULL;
    *out = (struct simsweep){.seeds = seeds, .days = days};
    int rc = simfile_scenario(file, sets->items, sets->count, &s);
    if (rc == CLI_DONE)
        rc = run_all(out, file, sets, seed, s);
    scenario_free(s);
    return rc;
}

void simsweep_clear(struct simsweep *w)
{
    for (size_t k = 0; k < w->n_keys; k++)
        free(w->keys[k]);
    for (size_t i = 0; i < w->n_rows; i++) {
        for (size_t k = 0; k < w->n_keys; k++)
            free(w->rows[i].values[k]);
        free(w->rows[i].samples);
        free(w->rows[i].never);
    }
}

/* ---- showing ---- */

static const char *mark_of(const struct simsweep *w, size_t i)
{
    if (w->n_rows == 1)
        return " ";
    if (w->rows[i].never)
        return "never";
    return i == w->best ? "best" : w->rows[i].same ? "same" : " ";
}

static void show_row(struct table *t, const struct simsweep *w, size_t i)
{
    const struct simsweep_row *r = &w->rows[i];
    char wait[32];
    enum colour colour = i == w->best && w->n_rows > 1 ? COLOUR_GREEN : COLOUR_NONE;
    table_cell(t, colour, "%s", mark_of(w, i));
    for (size_t k = 0; k < w->n_keys; k++)
        table_cell(t, colour, "%s", r->values[k]);
    table_cell(t, colour, "%.2f%%", 100 * r->mean.of[SWEEP_GOODPUT]);
    table_cell(t, colour, "%.2f%%", 100 * r->mean.of[SWEEP_YIELD]);
    table_cell(t, colour, "%.2f%%", 100 * r->ettr);
    if (isfinite(r->ettr_spread))
        table_cell(t, colour, "%.2f%%", 100 * r->ettr_spread);
    else
        table_cell(t, colour, "-");
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
        {.title = "GOODPUT", .right = true},     {.title = "YIELD", .right = true},
        {.title = "ETTR", .right = true},        {.title = "SPREAD", .right = true},
        {.title = "REPEATED", .right = true},    {.title = "SAVING", .right = true},
        {.title = "RECOVERING", .right = true},  {.title = "SPARE", .right = true},
        {.title = "INTERRUPTED", .right = true}, {.title = "FAILED", .right = true},
        {.title = "WAIT", .right = true}};
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

/* "checkpoint.every = 1h, spares = 2", fit for a terminal; fresh. */
static char *settings(const struct simsweep *w, size_t row)
{
    char *all = str_dup("");
    for (size_t k = 0; k < w->n_keys; k++) {
        char *longer = str_printf("%s%s%s = %s", all, k > 0 ? ", " : "", w->keys[k], w->rows[row].values[k]);
        free(all);
        all = longer;
    }
    char *clean = text_clean(all);
    free(all);
    return clean;
}

/* How sure it is that the best is better than the others. */
static void say_certainty(const struct simsweep *w)
{
    size_t near = 0, same = 0;
    for (size_t i = 0; i < w->n_rows; i++) {
        near += w->rows[i].near && i != w->best;
        same += w->rows[i].same;
    }
    if (w->seeds == 1)
        printf("With one seed luck cannot be told from merit: try --seeds 10.\n");
    else if (near == 0)
        printf("No other has as much goodput, as far as %lld seeds can tell (95 %%).\n", (long long)w->seeds);
    else
        printf("%zu more %s as much goodput, as far as %lld seeds can tell (95 %%); %s.\n", near,
               near == 1 ? "has" : "have", (long long)w->seeds,
               same > 0 ? "those marked same have as much yield, too" : "the best has the highest yield");
}

static void say_best(const struct simsweep *w)
{
    const struct simsweep_row *r = &w->rows[w->best];
    char *all = settings(w, w->best);
    printf("Best of %zu: %s: %.2f%% of all device time is new training (goodput), and %.2f%% of what jobs "
           "and their "
           "spares took (yield; means over %lld seed%s).\n",
           w->n_rows, all, 100 * r->mean.of[SWEEP_GOODPUT], 100 * r->mean.of[SWEEP_YIELD],
           (long long)w->seeds, w->seeds == 1 ? "" : "s");
    free(all);
    say_certainty(w);
    printf("\n");
}

static void say_never(const struct simsweep *w)
{
    for (size_t i = 0; i < w->n_rows; i++) {
        char *all = w->rows[i].never ? settings(w, i) : NULL;
        if (all)
            printf("%s%s%s%s.\n", all[0] ? "With " : "", all, all[0] ? ", " : "", w->rows[i].never);
        free(all);
    }
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
           clock_format_duration((int64_t)(1e3 * saves_young(w->cost_s, w->mttf_s)), young, sizeof(young)),
           clock_format_duration((int64_t)(1e3 * saves_daly(w->cost_s, w->mttf_s)), daly, sizeof(daly)),
           w->overlap ? ", not below the " : "",
           w->overlap ? clock_format_duration((int64_t)(1e3 * w->written_s), written, sizeof(written)) : "",
           w->overlap ? " that one takes to be written" : "");
}

void simsweep_print(const struct simsweep *w)
{
    say_never(w);
    if (w->n_rows > 1 && !w->rows[w->best].never)
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
    jsonx_set_real(o, "goodput", r->mean.of[SWEEP_GOODPUT]);
    jsonx_set_real(o, "yield", r->mean.of[SWEEP_YIELD]);
    jsonx_set(o, "same", json_boolean(r->same));
    jsonx_set_str(o, "never", r->never);
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
    jsonx_set_real(o, "young_s", known ? saves_young(w->cost_s, w->mttf_s) : (double)NAN);
    jsonx_set_real(o, "daly_s", known ? saves_daly(w->cost_s, w->mttf_s) : (double)NAN);
    return o;
}
