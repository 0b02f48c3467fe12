/* nodeview: see nodeview.h. Reads each key with a fallback: a node of a newer belayd is shown as far as it is understood. */
#include "launcher/nodeview.h"

#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/format.h"
#include "launcher/jobview.h"
#include "launcher/table.h"

static const struct table_column columns[] = {
    {"NODE", false, false},   {"STATE", false, false}, {"FREE", true, false},   {"SLOTS", true, false},
    {"RACK", false, false},   {"POD", false, false},   {"NVLINK", false, true}, {"JOBS", false, false},
    {"DEVICE", false, true},  {"CORES", true, true},   {"MEMORY", true, true},  {"ADDRESS", false, true},
    {"VERSION", false, true}, {"SEEN", true, true},    {"SINCE", false, false}, {"INFO", false, false},
};

/* Jobs are ids, or objects with one. */
static json_int_t job_id(const json_t *job)
{
    return json_is_integer(job) ? json_integer_value(job) : jsonx_int_or(job, "id", 0);
}

char *nodeview_jobs(const json_t *node)
{
    char *all = str_dup("");
    size_t i;
    json_t *job;
    json_array_foreach(json_object_get(node, "jobs"), i, job)
    {
        char *more = str_printf("%s%s%lld", all, *all ? " " : "", (long long)job_id(job));
        free(all);
        all = more;
    }
    return all;
}

static void text(struct table *t, const json_t *node, const char *key)
{
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(node, key, ""));
}

static void number(struct table *t, const json_t *node, const char *key)
{
    char out[FORMAT_SIZE];
    table_cell(t, COLOUR_NONE, "%s", format_step(jsonx_int_or(node, key, -1), 0, out));
}

static char *seen(const json_t *node, char out[FORMAT_SIZE])
{
    return format_seconds(jsonx_real_or(node, "heartbeat_age_ms", NAN) / 1000, out);
}

static void add_row(struct table *t, const json_t *node)
{
    char out[FORMAT_SIZE], *jobs = nodeview_jobs(node);
    const char *state = jsonx_str_or(node, "state", "?");
    text(t, node, "name");
    table_cell(t, colour_of_state(state), "%s", state);
    number(t, node, "free");
    number(t, node, "slots");
    text(t, node, "rack");
    text(t, node, "pod");
    text(t, node, "nvlink");
    table_cell(t, COLOUR_NONE, "%s", jobs);
    text(t, node, "device");
    number(t, node, "cores");
    table_cell(t, COLOUR_NONE, "%s", format_bytes(jsonx_int_or(node, "memory", -1), out));
    text(t, node, "address");
    text(t, node, "version");
    table_cell(t, COLOUR_NONE, "%s", seen(node, out));
    table_cell(t, COLOUR_NONE, "%s", format_time(jsonx_str_or(node, "since", NULL), out));
    text(t, node, "reason");
    free(jobs);
}

void nodeview_table(const json_t *nodes, bool wide)
{
    struct table *t = table_new(columns, sizeof columns / sizeof *columns, wide);
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        add_row(t, node);
    }
    table_show(t);
}

static void gpu_lines(const json_t *node)
{
    char bytes[FORMAT_SIZE];
    size_t i;
    json_t *gpu;
    json_array_foreach(json_object_get(node, "gpus"), i, gpu)
    {
        jobview_line(stdout, "gpu", COLOUR_NONE, "%lld: %s, %s, %s", (long long)jsonx_int_or(gpu, "index", 0),
                     jsonx_str_or(gpu, "name", "?"), format_bytes(jsonx_int_or(gpu, "memory", -1), bytes),
                     jsonx_str_or(gpu, "uuid", "?"));
    }
}

void nodeview_block(const json_t *node)
{
    char out[FORMAT_SIZE], *jobs = nodeview_jobs(node);
    const char *state = jsonx_str_or(node, "state", "?");
    jobview_line(stdout, "node", COLOUR_NONE, "%s", jsonx_str_or(node, "name", "?"));
    jobview_line(stdout, "state", colour_of_state(state), "%s", state);
    jobview_line(stdout, "reason", COLOUR_NONE, "%s", jsonx_str_or(node, "reason", ""));
    jobview_line(stdout, "since", COLOUR_NONE, "%s", format_time(jsonx_str_or(node, "since", NULL), out));
    jobview_line(stdout, "slots", COLOUR_NONE, "%lld, %lld free", (long long)jsonx_int_or(node, "slots", 0),
                 (long long)jsonx_int_or(node, "free", 0));
    jobview_line(stdout, "place", COLOUR_NONE, "%s, %s", jsonx_str_or(node, "rack", "-"),
                 jsonx_str_or(node, "pod", "-"));
    if (*jsonx_str_or(node, "nvlink", ""))
        jobview_line(stdout, "nvlink", COLOUR_NONE, "%s", jsonx_str_or(node, "nvlink", ""));
    jobview_line(stdout, "jobs", COLOUR_NONE, "%s", jobs);
    jobview_line(stdout, "device", COLOUR_NONE, "%s", jsonx_str_or(node, "device", ""));
    jobview_line(stdout, "cores", COLOUR_NONE, "%s", format_step(jsonx_int_or(node, "cores", -1), 0, out));
    jobview_line(stdout, "memory", COLOUR_NONE, "%s", format_bytes(jsonx_int_or(node, "memory", -1), out));
    gpu_lines(node);
    jobview_line(stdout, "address", COLOUR_NONE, "%s", jsonx_str_or(node, "address", ""));
    jobview_line(stdout, "version", COLOUR_NONE, "%s", jsonx_str_or(node, "version", ""));
    jobview_line(stdout, "heard", COLOUR_NONE, "%s ago", seen(node, out));
    free(jobs);
}
