/* jobview: see jobview.h. Reads each key with a fallback: a job of a newer belayd is shown as far as it is understood. */
#include "launcher/jobview.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/command.h"
#include "launcher/format.h"
#include "launcher/text.h"
#include "schema/states.h"

static const struct table_column columns[] = {
    {"JOB", true, false},      {"NAME", false, false},     {"USER", false, false},   {"STATE", false, false},
    {"RANKS", true, false},    {"NODES", true, false},     {"STEP", true, false},    {"LOSS", true, false},
    {"RESTARTS", true, false}, {"UP", true, false},        {"TOKENS/S", true, true}, {"MFU", true, true},
    {"ETTR", true, true},      {"CHECKPOINT", true, true}, {"ATTEMPT", true, true},  {"QUEUE", false, true},
    {"PRIORITY", true, true},  {"SUBMITTED", false, true}, {"INFO", false, false},
};
#define COLUMNS (sizeof columns / sizeof *columns)

/* Widths for rows that are printed one at a time. */
static const size_t row_widths[COLUMNS] = {5, 16, 8, 10, 5, 5, 11, 8, 8, 7};

static const char *state_of(const json_t *job)
{
    return jsonx_str_or(job, "state", "?");
}

bool jobview_final(const json_t *job)
{
    int state = job_state_parse(state_of(job));
    return state >= 0 && job_state_final((enum job_state)state);
}

int jobview_exit_code(const json_t *job)
{
    return strcmp(state_of(job), job_state_name(JOB_COMPLETED)) == 0 ? CLI_DONE : CLI_JOB_FAILED;
}

/* Step of the newest checkpoint; "" when there is none. */
static char *checkpoint_step(const json_t *job, char out[FORMAT_SIZE])
{
    return format_step(jsonx_int_or(json_object_get(job, "checkpoint"), "step", -1), 0, out);
}

static char *running_info(const json_t *job)
{
    char rate[FORMAT_SIZE], step[FORMAT_SIZE];
    const char *status = jsonx_str_or(job, "status", ""), *phase = jsonx_str_or(job, "phase", "");
    double tokens = jsonx_real_or(job, "tokens_per_second", NAN);
    if (*status)
        return str_dup(status);
    format_count(tokens, rate);
    checkpoint_step(job, step);
    return str_printf("%s%s%s%s%s%s", phase, *phase && *rate ? ", " : "", rate, *rate ? " tokens/s" : "",
                      *step ? (*phase || *rate ? ", checkpoint " : "checkpoint ") : "", step);
}

char *jobview_info(const json_t *job)
{
    bool running = strcmp(state_of(job), job_state_name(JOB_RUNNING)) == 0;
    char *info = running ? running_info(job) : str_dup(jsonx_str_or(job, "reason", ""));
    if (running && !*info) {
        free(info);
        info = str_dup(jsonx_str_or(job, "reason", ""));
    }
    return info;
}

static void number(struct table *t, const json_t *job, const char *key)
{
    const json_t *v = json_object_get(job, key);
    if (json_is_integer(v))
        table_cell(t, COLOUR_NONE, "%lld", (long long)json_integer_value(v));
    else
        table_cell(t, COLOUR_NONE, "%s", "");
}

static void cells_always(struct table *t, const json_t *job)
{
    char text[FORMAT_SIZE];
    number(t, job, "id");
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(job, "name", ""));
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(job, "user", ""));
    table_cell(t, colour_of_state(state_of(job)), "%s", state_of(job));
    number(t, job, "ranks");
    number(t, job, "nodes");
    table_cell(t, COLOUR_NONE, "%s",
               format_step(jsonx_int_or(job, "step", -1), jsonx_int_or(job, "steps", -1), text));
    table_cell(t, COLOUR_NONE, "%s", format_loss(jsonx_real_or(job, "loss", NAN), text));
    number(t, job, "restarts");
    table_cell(t, COLOUR_NONE, "%s", format_seconds(jsonx_real_or(job, "up_s", NAN), text));
}

static void cells_wide(struct table *t, const json_t *job)
{
    char text[FORMAT_SIZE];
    table_cell(t, COLOUR_NONE, "%s", format_count(jsonx_real_or(job, "tokens_per_second", NAN), text));
    table_cell(t, COLOUR_NONE, "%s", format_percent(jsonx_real_or(job, "mfu", NAN), text));
    table_cell(t, COLOUR_NONE, "%s", format_percent(jsonx_real_or(job, "ettr", NAN), text));
    table_cell(t, COLOUR_NONE, "%s", checkpoint_step(job, text));
    number(t, job, "attempt");
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(job, "queue", ""));
    number(t, job, "priority");
    table_cell(t, COLOUR_NONE, "%s", format_time(jsonx_str_or(job, "submitted", NULL), text));
}

static void add_row(struct table *t, const json_t *job)
{
    cells_always(t, job);
    cells_wide(t, job);
    char *info = jobview_info(job);
    table_cell(t, COLOUR_NONE, "%s", info);
    free(info);
}

struct table *jobview_table(const json_t *jobs, bool wide)
{
    struct table *t = table_new(columns, COLUMNS, wide);
    size_t i;
    json_t *job;
    json_array_foreach(jobs, i, job)
    {
        add_row(t, job);
    }
    return t;
}

void jobview_row(FILE *out, const json_t *job)
{
    struct table *t = table_new(columns, COLUMNS, false);
    add_row(t, job);
    table_print_rows(t, out, row_widths, terminal_width(out), terminal_colours(out));
    table_free(t);
}

void jobview_row_titles(FILE *out)
{
    struct table *t = table_new(columns, COLUMNS, false);
    for (size_t c = 0; c < COLUMNS; c++)
        table_cell(t, COLOUR_BOLD, "%s", columns[c].title);
    table_print_rows(t, out, row_widths, terminal_width(out), terminal_colours(out));
    table_free(t);
}

void jobview_line(FILE *out, const char *key, enum colour colour, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_clean_vprintf(fmt, ap);
    va_end(ap);
    bool paint = colour != COLOUR_NONE && terminal_colours(out);
    if (*text)
        fprintf(out, "%-14s%s%s%s\n", key, paint ? colour_start(colour) : "", text, paint ? COLOUR_END : "");
    free(text);
}

char *jobview_lost(const json_t *lost)
{
    static const char *const causes[] = {"detect", "stop", "place", "load", "replay"};
    char *all = str_dup("");
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        char key[32], text[FORMAT_SIZE];
        snprintf(key, sizeof key, "%s_ms", causes[i]);
        int64_t ms = jsonx_int_or(lost, key, 0);
        if (ms <= 0)
            continue;
        char *more = str_printf("%s%s%s %s", all, *all ? ", " : "", causes[i],
                                clock_format_duration(ms, text, sizeof text));
        free(all);
        all = more;
    }
    return all;
}

static void line_real(FILE *out, const char *key, const json_t *obj, const char *name,
                      char *(*format)(double, char *), const char *after)
{
    char text[FORMAT_SIZE];
    format(jsonx_real_or(obj, name, NAN), text);
    if (*text)
        jobview_line(out, key, COLOUR_NONE, "%s%s", text, after);
}

static void line_time(FILE *out, const char *key, const json_t *obj, const char *name)
{
    char text[FORMAT_SIZE];
    jobview_line(out, key, COLOUR_NONE, "%s", format_time(jsonx_str_or(obj, name, NULL), text));
}

static void line_text(FILE *out, const char *key, const json_t *obj, const char *name)
{
    jobview_line(out, key, COLOUR_NONE, "%s", jsonx_str_or(obj, name, ""));
}

static void line_int(FILE *out, const char *key, const json_t *obj, const char *name)
{
    const json_t *v = json_object_get(obj, name);
    if (json_is_integer(v))
        jobview_line(out, key, COLOUR_NONE, "%lld", (long long)json_integer_value(v));
}

/* The newest copy elsewhere. */
static void line_tier(FILE *out, const char *key, const json_t *tier)
{
    char step[FORMAT_SIZE], age[FORMAT_SIZE];
    format_step(jsonx_int_or(tier, "step", -1), 0, step);
    format_seconds(jsonx_real_or(tier, "age_s", NAN), age);
    if (*step)
        jobview_line(out, key, COLOUR_NONE, "step %s%s%s%s", step, *age ? ", " : "", age, *age ? " ago" : "");
}

static void line_request(FILE *out, const json_t *job)
{
    char age[FORMAT_SIZE];
    const json_t *request = json_object_get(job, "checkpoint_request");
    int64_t ms = clock_utc_ms() - format_parse_time(jsonx_str_or(request, "asked", NULL));
    if (!json_is_true(json_object_get(request, "waiting")))
        return;
    clock_format_duration(ms > 0 ? ms : 0, age, sizeof age);
    jobview_line(out, "waits", COLOUR_NONE, "for the checkpoint of job %lld, asked %s ago: %s",
                 (long long)jsonx_int_or(job, "id", 0), age, jsonx_str_or(request, "why", ""));
}

static void block_tiers(FILE *out, const json_t *job)
{
    size_t i;
    json_t *t;
    line_tier(out, "in memory", json_object_get(job, "checkpoint_memory"));
    line_tier(out, "uploaded", json_object_get(job, "checkpoint_upload"));
    line_text(out, "saves", job, "checkpoint_interval");
    json_array_foreach(json_object_get(job, "checkpoint_failing"), i, t)
    {
        jobview_line(out, "not saved", COLOUR_RED, "%s: %lld failed, the last at step %lld: %s",
                     jsonx_str_or(t, "tier", "?"), (long long)jsonx_int_or(t, "failed", 0),
                     (long long)jsonx_int_or(t, "step", 0), jsonx_str_or(t, "why", "?"));
    }
    if (!jobview_final(job))
        line_request(out, job);
}

static void block_progress(FILE *out, const json_t *job)
{
    char text[FORMAT_SIZE], age[FORMAT_SIZE], bytes[FORMAT_SIZE];
    const json_t *checkpoint = json_object_get(job, "checkpoint");
    jobview_line(out, "step", COLOUR_NONE, "%s",
                 format_step(jsonx_int_or(job, "step", -1), jsonx_int_or(job, "steps", -1), text));
    line_real(out, "loss", job, "loss", format_loss, "");
    line_real(out, "speed", job, "tokens_per_second", format_count, " tokens/s");
    line_real(out, "mfu", job, "mfu", format_percent, "");
    checkpoint_step(job, text);
    format_seconds(jsonx_real_or(checkpoint, "age_s", NAN), age);
    int64_t size = jsonx_int_or(checkpoint, "bytes", 0); /* 0: a program that does not say it */
    format_bytes(size > 0 ? size : -1, bytes);
    if (*text)
        jobview_line(out, "checkpoint", COLOUR_NONE, "step %s%s%s%s%s%s", text, *age ? ", " : "", age,
                     *age ? " ago" : "", *bytes ? ", " : "", bytes);
    block_tiers(out, job);
    if (jobview_final(job))
        return;
    line_text(out, "phase", job, "phase");
    line_text(out, "status", job, "status");
}

static void block_restarts(FILE *out, const json_t *job)
{
    char text[FORMAT_SIZE];
    int64_t max = jsonx_int_or(job, "restart_max", -1), restarts = jsonx_int_or(job, "restarts", 0);
    char *lost = jobview_lost(json_object_get(job, "lost"));
    format_step(max, 0, text);
    jobview_line(out, "restarts", COLOUR_NONE, "%lld%s%s%s", (long long)restarts, *text ? " (" : "", text,
                 *text ? " allowed)" : "");
    line_int(out, "attempt", job, "attempt");
    jobview_line(out, "lost", COLOUR_NONE, "%s", lost);
    line_real(out, "ettr", job, "ettr", format_percent, "");
    free(lost);
}

static void block_all(FILE *out, const json_t *job)
{
    line_text(out, "kind", job, "kind");
    line_text(out, "queue", job, "queue");
    line_int(out, "priority", job, "priority");
    line_text(out, "folder", job, "cwd");
    line_text(out, "checkpoints", job, "checkpoint_directory");
    line_int(out, "exit code", job, "exit_code");
}

void jobview_block(FILE *out, const json_t *job, bool all)
{
    line_int(out, "job", job, "id");
    line_text(out, "name", job, "name");
    line_text(out, "user", job, "user");
    jobview_line(out, "state", colour_of_state(state_of(job)), "%s", state_of(job));
    line_text(out, "reason", job, "reason");
    line_int(out, "ranks", job, "ranks");
    line_int(out, "nodes", job, "nodes");
    block_progress(out, job);
    block_restarts(out, job);
    if (all)
        block_all(out, job);
    line_time(out, "submitted", job, "submitted");
    line_time(out, "started", job, "started");
    line_time(out, "ended", job, "ended");
    line_real(out, "up", job, "up_s", format_seconds, "");
}
