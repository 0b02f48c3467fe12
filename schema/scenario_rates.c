/* scenario_rates: failures: of a scenario. A rate is a number of failures in a time over a part of the cluster, e.g. "6.5e-3/node-day" or
 * "419 per 54d on 16384 gpus"; it is brought to failures a day in this whole cluster. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/scalar.h"
#include "schema/scenario_read.h"
#include "schema/suggest.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define DAY_MS   INT64_C(86400000)

static const char *const kinds[SCENARIO_KIND_COUNT] = {
    [FAULT_GPU_BROKEN] = "gpu",    [FAULT_NODE_CRASH] = "node",     [FAULT_LINK_CUT] = "link",
    [FAULT_SWITCH_OUT] = "switch", [FAULT_STORAGE_OUT] = "storage", [FAULT_SLOW_NODE] = "slow",
    [FAULT_SOFTWARE] = "software",
};

const char *scenario_kind_name(enum scenario_kind kind)
{
    return kinds[kind];
}

struct unit {
    const char *word;
    double days; /* of them in one day of the cluster */
};

/* "1e-3/node-day" */
static bool read_short(const struct unit *units, size_t n, double number, const char *rest, double *per_day)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(units[i].word);
        if (rest[0] == '/' && strncmp(rest + 1, units[i].word, len) == 0 &&
            strcmp(rest + 1 + len, "-day") == 0) {
            *per_day = number * units[i].days;
            return true;
        }
    }
    *per_day = number;
    return strcmp(rest, "/day") == 0;
}

/* "419 per 54d on 16384 gpus", "3 per 30d" */
static bool read_long(const struct unit *units, size_t n, double number, const char *rest, double *per_day)
{
    char time[32] = "", unit[32] = "";
    double count = 0;
    int64_t ms = 0;
    int words = sscanf(rest, " per %31s on %lf %31s", time, &count, unit); /* NOLINT(cert-err34-c) */
    if (words != 1 && words != 3)
        return false;
    if (scalar_duration(time, 1, SCENARIO_DAYS_MAX * DAY_MS, &ms, NULL) < 0)
        return false;
    *per_day = number / ((double)ms / (double)DAY_MS);
    for (size_t i = 0; words == 3 && i < n; i++) {
        size_t len = strlen(units[i].word);
        bool plural = unit[len] == 's' && unit[len + 1] == '\0';
        if (strncmp(unit, units[i].word, len) == 0 && (plural || unit[len] == '\0') && count > 0) {
            *per_day *= units[i].days / count;
            return true;
        }
    }
    return words == 1;
}

static int read_rate(const struct scenario_reader *r, const struct tree_node *node, double *per_day,
                     struct err *err)
{
    const struct unit units[] = {
        {"node", r->node_days}, {"gpu", r->device_days}, {"device", r->device_days}, {"rack", r->rack_days}};
    char *end = NULL, quoted[DIAG_QUOTE_SIZE];
    if (node->kind != TREE_SCALAR)
        return err_set(err, "must be a rate such as 6.5e-3/node-day");
    double number = strtod(node->text, &end);
    bool ok = end != node->text && isfinite(number) && number >= 0 &&
              (read_short(units, COUNT(units), number, end, per_day) ||
               read_long(units, COUNT(units), number, end, per_day));
    return ok && isfinite(*per_day) && *per_day <= 1e6
               ? 0
               : err_set(
                     err,
                     "must be a rate such as 6.5e-3/node-day, 0.1/day or 419 per 54d on 16384 gpus, not %s",
                     diag_quote(quoted, node->text));
}

static int find_kind(const char *word, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    for (int i = 0; i < SCENARIO_KIND_COUNT; i++)
        if (strcmp(kinds[i], word) == 0)
            return i;
    const char *near = suggest_nearest(word, kinds, SCENARIO_KIND_COUNT);
    return err_set(err, "unknown kind of failure %s; %s%s%s", diag_quote(quoted, word),
                   near ? "did you mean \"" : "there are gpu, node, link, switch, storage, slow and software",
                   near ? near : "", near ? "\"?" : "");
}

/* Calls fn for each kind in a mapping. */
static void each_kind(struct scenario_reader *r, const struct tree_node *node, const char *section,
                      int (*fn)(struct scenario_reader *r, int kind, const struct tree_node *value,
                                struct err *err))
{
    struct err err;
    if (node->kind != TREE_MAPPING) {
        diag_add(r->diag, node->at, "failures.%s must be a mapping of kinds of failures", section);
        return;
    }
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        int kind = find_kind(node->items[i]->text, &err);
        if (kind < 0)
            diag_add(r->diag, node->items[i]->at, "failures.%s: %s", section, err.text);
        else if (fn(r, kind, node->items[i + 1], &err) < 0)
            diag_add(r->diag, node->items[i + 1]->at, "failures.%s.%s: %s", section, kinds[kind], err.text);
    }
}

static int set_rate(struct scenario_reader *r, int kind, const struct tree_node *value, struct err *err)
{
    double per_day = 0;
    if (read_rate(r, value, &per_day, err) < 0)
        return -1;
    r->s->faults[kind].per_day += per_day;
    return 0;
}

static int set_share(struct scenario_reader *r, int kind, const struct tree_node *value, struct err *err)
{
    if (value->kind != TREE_SCALAR)
        return err_set(err, "must be a number: its part of all failures");
    return scalar_real(value->text, 0, 1e9, &r->s->faults[kind].per_day, err);
}

static int set_repair(struct scenario_reader *r, int kind, const struct tree_node *value, struct err *err)
{
    const struct scenario_field f = {.min = 0, .max = SCENARIO_DAYS_MAX * DAY_MS};
    return scenario_read_time(&f, value, &r->s->faults[kind].repair, err);
}

/* The parts of the mix share the rate. */
static void share_out(struct scenario_reader *r, double per_day)
{
    double all = 0;
    for (size_t i = 0; i < SCENARIO_KIND_COUNT; i++)
        all += r->s->faults[i].per_day;
    if (all <= 0) {
        r->s->faults[FAULT_NODE_CRASH].per_day = per_day;
        return;
    }
    for (size_t i = 0; i < SCENARIO_KIND_COUNT; i++)
        r->s->faults[i].per_day *= per_day / all;
}

static void set_default_repairs(struct scenario *s)
{
    static const int64_t hours[SCENARIO_KIND_COUNT] = {
        [FAULT_GPU_BROKEN] = 24, [FAULT_NODE_CRASH] = 4, [FAULT_SWITCH_OUT] = 2, [FAULT_SLOW_NODE] = 4};
    for (size_t i = 0; i < SCENARIO_KIND_COUNT; i++)
        s->faults[i].repair.ms = hours[i] * 3600000;
    s->faults[FAULT_LINK_CUT].repair.ms = s->faults[FAULT_STORAGE_OUT].repair.ms = 600000;
}

static void read_total(struct scenario_reader *r, const struct tree_node *node, size_t rate)
{
    struct err err;
    double per_day = 0;
    size_t mix = tree_find(node, "mix");
    if (mix)
        each_kind(r, node->items[mix], "mix", set_share);
    if (!rate)
        diag_add(r->diag, node->items[mix]->at, "failures.mix needs failures.rate, which it shares out");
    else if (read_rate(r, node->items[rate], &per_day, &err) < 0)
        diag_add(r->diag, node->items[rate]->at, "failures.rate: %s", err.text);
    else
        share_out(r, per_day);
}

static const struct scenario_field failure_fields[] = {
    {.key = "rate"},
    {.key = "mix"},
    {.key = "rates"},
    {.key = "repair"},
    {"slow", scenario_read_real, NULL, offsetof(struct scenario, slow_factor), 1, 100},
};

static void check_keys(struct scenario_reader *r, const struct tree_node *node)
{
    const char *words[COUNT(failure_fields)];
    char quoted[DIAG_QUOTE_SIZE];
    for (size_t k = 0; k < COUNT(failure_fields); k++)
        words[k] = failure_fields[k].key;
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        size_t k = 0;
        while (k < COUNT(words) && strcmp(words[k], node->items[i]->text) != 0)
            k++;
        if (k < COUNT(words))
            continue;
        const char *near = suggest_nearest(node->items[i]->text, words, COUNT(words));
        diag_add(r->diag, node->items[i]->at, "unknown field %s in failures; %s%s%s",
                 diag_quote(quoted, node->items[i]->text),
                 near ? "did you mean \"" : "there are rate, mix, rates, repair and slow", near ? near : "",
                 near ? "\"?" : "");
    }
}

void scenario_read_failures(struct scenario_reader *r, const struct tree_node *node)
{
    struct err err;
    set_default_repairs(r->s);
    if (node->kind != TREE_MAPPING) {
        if (!tree_is_empty(node))
            diag_add(r->diag, node->at, "failures must be a mapping of fields (key: value)");
        return;
    }
    check_keys(r, node);
    size_t rate = tree_find(node, "rate"), mix = tree_find(node, "mix"), rates = tree_find(node, "rates"),
           repair = tree_find(node, "repair"), slow = tree_find(node, "slow");
    if (rate || mix)
        read_total(r, node, rate);
    if (rates)
        each_kind(r, node->items[rates], "rates", set_rate);
    if (repair)
        each_kind(r, node->items[repair], "repair", set_repair);
    const struct scenario_field *f = &failure_fields[4];
    if (slow && f->read(f, node->items[slow], &r->s->slow_factor, &err) < 0)
        diag_add(r->diag, node->items[slow]->at, "failures.slow: %s", err.text);
}
