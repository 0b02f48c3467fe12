/* Golden placements: jobs on the clusters of tests/topologies, one text file each in tests/fixtures/placement.
 *
 * A file names the topology, then has the job file, then after a line "---" what must come out: for each axis the smallest part of the
 * cluster that holds its groups, then which ranks are where. `placement_golden_test --write` writes these parts anew: read the
 * difference before you commit it. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "daemon/core/placement.h"

#define FOLDER "tests/fixtures/placement"
enum { FILE_MOST = 65536, NODES_SHOWN = 40, SLOTS_MOST = 64, FILES_AT_LEAST = 10 };

struct golden {
    char path[512], text[FILE_MOST]; /* of the file */
    struct cluster_spec *cluster;
    struct job_spec *job;
    struct placement_node *nodes;
    int64_t *slots;
    struct placement_view *view;
    struct placed_rank *ranks;
    char *out; /* what comes out */
};

static void say(struct golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct golden *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *more = str_vprintf(fmt, args);
    va_end(args);
    char *all = str_printf("%s%s", g->out, more);
    free(more);
    free(g->out);
    g->out = all;
}

static void read_file(struct golden *g)
{
    FILE *f = fopen(g->path, "r");
    size_t n = f ? fread(g->text, 1, sizeof(g->text) - 1, f) : 0;
    if (!f || n == 0)
        fail_msg("cannot read %s", g->path);
    g->text[n] = '\0';
    (void)fclose(f); /* read only */
}

static const char *wanted(const struct golden *g)
{
    const char *line = strstr(g->text, "\n---\n");
    return line ? line + 5 : "";
}

static void parse(struct golden *g)
{
    static struct job_diagnostics d;
    char name[64], path[128];
    if (sscanf(g->text, "# topology: %63s", name) != 1)
        fail_msg("%s: the first line must be \"# topology: NAME\"", g->path);
    (void)snprintf(path, sizeof(path), "tests/topologies/%s.yaml", name);
    const char *end = strstr(g->text, "\n---\n");
    size_t len = end ? (size_t)(end - g->text) + 1 : strlen(g->text);
    if (cluster_spec_load(path, &g->cluster, &d) != 0 ||
        job_spec_parse_plan(g->text, len, g->path, NULL, 0, &g->job, &d) != 0)
        fail_msg("%s", d.text[0]);
}

static void build_view(struct golden *g)
{
    size_t n = g->cluster->n_nodes;
    g->nodes = mem_zero(n, sizeof(*g->nodes));
    g->slots = mem_zero(n * SLOTS_MOST, sizeof(int64_t));
    for (size_t i = 0; i < n; i++) {
        const struct cluster_node *c = &g->cluster->nodes[i];
        struct placement_node *node = &g->nodes[n - 1 - i]; /* backwards: the order must not matter */
        *node = (struct placement_node){.name = c->name, .rack = c->rack, .pod = c->pod, .nvlink = c->nvlink};
        node->gpu = c->gpu;
        node->slots = c->slots;
        node->memory = node->free_memory = c->memory;
        node->usable = !c->drained;
        node->free_slots = g->slots + i * SLOTS_MOST;
        for (int64_t s = c->taken; s < c->slots; s++)
            g->slots[i * SLOTS_MOST + node->n_free++] = s;
    }
    g->view = placement_view_new(g->nodes, n, g->cluster->links);
}

/* ---- showing ---- */

/* The ranks of a node as rank.slot, by slot. */
static void show_ranks(struct golden *g, const char *node)
{
    for (size_t i = 0; i < SLOTS_MOST; i++)
        for (int64_t r = 0; r < g->job->ranks; r++)
            if (g->ranks[r].slot == (int64_t)i && strcmp(g->ranks[r].node, node) == 0)
                say(g, " %lld.%lld", (long long)r, (long long)i);
    say(g, "\n");
}

static int64_t ranks_on(const struct golden *g, const char *node)
{
    int64_t n = 0;
    for (int64_t r = 0; r < g->job->ranks; r++)
        n += strcmp(g->ranks[r].node, node) == 0;
    return n;
}

/* Every node with its rank.slot pairs. */
static void show_nodes(struct golden *g)
{
    for (size_t i = 0; i < g->cluster->n_nodes; i++) {
        const struct cluster_node *c = &g->cluster->nodes[i];
        if (ranks_on(g, c->name) == 0)
            continue;
        say(g, "%s %s %s:", c->pod, c->rack, c->name);
        show_ranks(g, c->name);
    }
}

static const struct cluster_node *node_of(const struct golden *g, int64_t rank)
{
    return cluster_find(g->cluster, g->ranks[rank].node);
}

/* Pods with their nodes and ranks, and where the first and the last pipeline go. */
static void show_pipeline(struct golden *g, int64_t dp)
{
    int64_t stage = g->job->tp * g->job->cp;
    say(g, "pipeline of dp %lld:", (long long)dp);
    for (int64_t pp = 0; pp < g->job->pp; pp++) {
        const struct cluster_node *c = node_of(g, (dp * g->job->pp + pp) * stage);
        say(g, " %s/%s", c->rack, c->name);
    }
    say(g, "\n");
}

static void show_pods(struct golden *g)
{
    const struct cluster_spec *c = g->cluster;
    for (size_t i = 0, begin = 0; i <= c->n_nodes; i++) {
        if (i < c->n_nodes && strcmp(c->nodes[begin].pod, c->nodes[i].pod) == 0)
            continue;
        size_t nodes = 0, racks = 0;
        int64_t ranks = 0;
        const char *rack = "";
        for (size_t k = begin; k < i; k++) {
            int64_t here = ranks_on(g, c->nodes[k].name);
            ranks += here;
            nodes += here > 0;
            racks += here > 0 && strcmp(rack, c->nodes[k].rack) != 0;
            rack = here > 0 ? c->nodes[k].rack : rack;
        }
        if (ranks > 0)
            say(g, "%s: %lld ranks on %zu nodes in %zu racks\n", c->nodes[begin].pod, (long long)ranks, nodes,
                racks);
        begin = i;
    }
    show_pipeline(g, 0);
    show_pipeline(g, g->job->dp - 1);
}

static void show_levels(struct golden *g)
{
    struct placement_cost cost;
    struct traffic t;
    traffic_of(g->job, &t);
    placement_cost(g->view, g->job, g->ranks, &cost);
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        if (t.axis[a].size > 1)
            say(g, "%s of %lld within a %s\n", axis_name(a), (long long)t.axis[a].size,
                job_domain_name(cost.level[a]));
}

static void show_spares(struct golden *g)
{
    size_t n;
    placement_view_take(g->view, g->ranks, (size_t)g->job->ranks, g->job->memory);
    struct placed_rank *spares = placement_spares(g->view, g->job, g->ranks, g->job->placement.spares, &n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(spares[i - 1].node, spares[i].node) != 0)
            say(g, "spare %s\n", spares[i].node);
    free(spares);
}

static void place(struct golden *g)
{
    struct err why;
    g->out = str_dup("");
    g->ranks = mem_zero((size_t)g->job->ranks, sizeof(*g->ranks));
    if (placement_find(g->view, g->job, g->ranks, &why) != PLACEMENT_OK) {
        say(g, "%s\n", why.text);
        return;
    }
    show_levels(g);
    if (placement_nodes(g->ranks, (size_t)g->job->ranks) <= NODES_SHOWN)
        show_nodes(g);
    else
        show_pods(g);
    show_spares(g);
}

/* ---- the test ---- */

static void load(struct golden *g, const char *file)
{
    memset(g, 0, sizeof(*g));
    (void)snprintf(g->path, sizeof(g->path), "%s/%s", FOLDER, file);
    read_file(g);
    parse(g);
    build_view(g);
    place(g);
}

static void unload(struct golden *g)
{
    free(g->out);
    free(g->ranks);
    placement_view_free(g->view);
    free(g->nodes);
    free(g->slots);
    job_spec_free(g->job);
    cluster_spec_free(g->cluster);
}

static bool writing;

static void write_anew(struct golden *g)
{
    const char *end = strstr(g->text, "\n---\n");
    int len = (int)(end ? end - g->text + 1 : (long)strlen(g->text));
    FILE *f = fopen(g->path, "w");
    if (!f || fprintf(f, "%.*s---\n%s", len, g->text, g->out) < 0 || fclose(f) != 0)
        fail_msg("cannot write %s", g->path);
}

static void test_files(void **state)
{
    (void)state;
    static struct golden g;
    int files = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        if (!strstr(e->d_name, ".yaml"))
            continue;
        files++;
        load(&g, e->d_name);
        if (writing)
            write_anew(&g);
        else if (strcmp(g.out, wanted(&g)) != 0)
            fail_msg("%s: wanted\n%s\nbut it is\n%s", g.path, wanted(&g), g.out);
        unload(&g);
    }
    (void)closedir(folder); /* read only */
    assert_true(files >= FILES_AT_LEAST);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
    };
    writing = argc > 1 && strcmp(argv[1], "--write") == 0;
    return cmocka_run_group_tests_name("core placement golden", tests, NULL, NULL);
}
