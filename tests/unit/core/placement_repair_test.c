/* Where the ranks of a lost node go, by hand. Nodes are written "NAME POD RACK SLOTS FREE"; the job's own slots count as free. */
#include "tests/unit/core/placement_lab.h"

enum { RANKS = 16 };

struct row {
    const char *name, *nodes;
    int64_t tp, pp, dp, ep;
    const char *borders; /* required ones: axis and kind, e.g. "TP node, EP rack"; "" = none */
    const char *old;     /* NODE of each rank; slots go up from the first free one */
    const char *lost;    /* nodes */
    const char *spares;  /* "NODE.SLOT …" */
    const char *wanted;  /* "NODE.SLOT" of each rank that moved, or "" when it cannot be */
};

static const struct row rows[] = {
    {"onto the spare", "a 1 1 2 2;b 1 1 2 2;c 1 2 2 2;d 1 1 2 2", 2, 1, 2, 1, "TP node", "a a b b", "b",
     "c.0 c.1", "c.0 c.1"},
    {"onto the nearest of several spares", "a 1 1 2 2;b 1 1 2 2;c 2 1 2 2;d 1 2 2 2", 2, 1, 2, 1, "TP node",
     "a a b b", "b", "c.0 c.1 d.0 d.1", "d.0 d.1"},
    {"not onto a spare beyond a required border", "a 1 1 2 2;b 1 1 2 2;c 1 2 2 2;d 1 1 2 2", 2, 1, 2, 1,
     "TP node, DP rack", "a a b b", "b", "c.0 c.1", "d.0 d.1"},
    {"nowhere within the border", "a 1 1 2 2;b 1 1 2 2;c 1 2 2 2", 2, 1, 2, 1, "TP node, DP rack", "a a b b",
     "b", "c.0 c.1", ""},
    {"a spare that is taken is none", "a 1 1 2 2;b 1 1 2 2;c 1 2 2 1;d 2 1 2 2", 2, 1, 2, 1, "TP node",
     "a a b b", "b", "c.0 c.1", "d.0 d.1"},
    {"the cheapest place: in the rack of its groups", "a 1 1 1 1;b 1 1 1 1;c 1 2 1 1;d 1 1 1 1", 1, 1, 2, 1,
     "", "a b", "b", "", "d.0"},
    {"a node with members of its groups before a tighter one", "e 1 1 4 4;b 1 1 1 1;d 1 1 2 1", 1, 1, 3, 1,
     "", "e e b", "b", "", "e.2"},
    {"the nearer of two that cost the same", "x 0 1 1 1;a 1 1 1 1;b 2 1 1 1;c 3 1 1 1;d 4 1 1 1;y 2 2 1 1", 1,
     2, 2, 1, "", "a b c d", "d", "", "y.0"},
    {"a TP group together", "a 1 1 4 4;b 1 1 4 4;c 1 1 3 3;d 1 1 2 2;e 1 1 2 2", 2, 1, 4, 1, "TP node",
     "a a a a b b b b", "b", "", "d.0 d.1 e.0 e.1"},
    {"rank by rank without a border", "a 1 1 2 2;b 1 1 2 2;c 1 1 1 1;d 1 1 1 1", 1, 1, 4, 1, "", "a a b b",
     "b", "", "c.0 d.0"},
    {"experts near their own group", "a 1 1 1 1;b 1 1 1 1;c 1 2 1 1;d 1 2 1 1;e 1 1 1 1;f 1 2 1 1", 1, 1, 4,
     2, "EP rack", "a b c d", "d", "", "f.0"},
    {"all lost: placed anew", "a 1 1 1 1;b 1 1 1 1;c 2 1 1 1;d 3 1 1 1;e 3 1 1 1", 1, 2, 1, 1, "", "a b",
     "a b", "", "d.0 e.0"},
    {"two nodes at once", "a 1 1 1 1;b 1 1 1 1;c 1 1 1 1;d 1 1 1 1;e 1 1 1 1", 1, 3, 1, 1, "PP rack", "a b c",
     "b c", "e.0", "e.0 d.0"},
    {"a slot that somebody else has by now", "a 1 1 1 1;b 1 1 1 0;c 1 1 1 1", 1, 2, 1, 1, "", "a b", "", "",
     "c.0"},
    {"a node that nobody knows any more", "a 1 1 1 1;c 1 1 1 1", 1, 2, 1, 1, "", "a gone", "", "", "c.0"},
};

static size_t parse(struct lab *l, const char *text)
{
    size_t n = 0;
    for (const char *p = text; *p; n++) {
        int used = 0;
        long slots, avail;
        char(*names)[16] = l->names[n];
        if (sscanf(p, "%15s %15s %15s %ld %ld%n", names[0], names[1], names[2], &slots, &avail, &used) != 5)
            fail_msg("bad nodes %s", p);
        l->nodes[n] =
            (struct placement_node){.name = names[0], .pod = names[1], .rack = names[2], .usable = true};
        l->nodes[n].slots = slots;
        l->nodes[n].free_slots = l->slots[n];
        for (long s = slots - avail; s < slots; s++)
            l->slots[n][l->nodes[n].n_free++] = s;
        p += used + (p[used] == ';');
    }
    return n;
}

static void set_border(struct job_spec *s, const char *axis, const char *kind)
{
    struct job_border *b = strcmp(axis, "TP") == 0   ? &s->placement.tp
                           : strcmp(axis, "PP") == 0 ? &s->placement.pp
                           : strcmp(axis, "EP") == 0 ? &s->placement.ep
                                                     : &s->placement.dp;
    for (int d = 0; d < DOMAIN_COUNT; d++)
        if (strcmp(job_domain_name((enum job_domain)d), kind) == 0)
            *b = (struct job_border){(enum job_domain)d, true};
}

static void parse_borders(struct job_spec *s, const char *text)
{
    char axis[8], kind[16];
    for (int used; sscanf(text, "%7s %15[a-z]%n", axis, kind, &used) == 2; text += used + (text[used] == ','))
        set_border(s, axis, kind);
}

static void setup(struct lab *l, const struct row *r)
{
    struct job_border none = {DOMAIN_CLUSTER, false};
    l->n_nodes = parse(l, r->nodes);
    cluster_links_default(l->links);
    l->links[DOMAIN_POD].bytes_per_s /= 2;
    l->links[DOMAIN_CLUSTER].bytes_per_s /= 4;
    l->spec =
        (struct job_spec){.tp = r->tp, .pp = r->pp, .cp = 1, .dp = r->dp, .ep = r->ep, .virtual_stages = 1};
    l->spec.ranks = r->tp * r->pp * r->dp;
    l->spec.device = DEVICE_CPU;
    l->spec.placement.tp = l->spec.placement.cp = l->spec.placement.ep = none;
    l->spec.placement.pp = l->spec.placement.dp = none;
    parse_borders(&l->spec, r->borders);
}

/* The ranks as they were: on each node its first free slots, slot 0 where it has none. */
static void parse_old(const struct lab *l, const char *text, struct placed_rank *old)
{
    for (int64_t i = 0; i < l->spec.ranks; i++) {
        int used = 0;
        int64_t nth = 0;
        memset(&old[i], 0, sizeof(old[i]));
        placement_coordinates(&l->spec, i, &old[i]);
        assert_int_equal(sscanf(text, "%31s%n", old[i].node, &used), 1);
        text += used;
        for (int64_t k = 0; k < i; k++)
            nth += strcmp(old[k].node, old[i].node) == 0;
        for (size_t n = 0; n < l->n_nodes; n++)
            if (strcmp(l->nodes[n].name, old[i].node) == 0 && l->nodes[n].n_free > (size_t)nth)
                old[i].slot = l->nodes[n].free_slots[nth];
    }
}

static size_t parse_spares(const char *text, struct placed_rank *spares)
{
    size_t n = 0;
    long slot;
    memset(spares, 0, RANKS * sizeof(*spares));
    for (int used; sscanf(text, " %31[a-z].%ld%n", spares[n].node, &slot, &used) == 2; text += used, n++)
        spares[n] = (struct placed_rank){.rank = -1, .slot = slot, .node = {spares[n].node[0]}};
    return n;
}

static void check(const struct row *r)
{
    struct lab l = {.random = 1};
    struct placed_rank old[RANKS], spares[RANKS], ranks[RANKS];
    struct err why = {""};
    char got[256] = "";
    size_t len = 0, n_spares = parse_spares(r->spares, spares);
    setup(&l, r);
    parse_old(&l, r->old, old);
    struct placement_view *view = placement_view_new(l.nodes, l.n_nodes, l.links);
    for (const char *p = r->lost; *p; p++)
        placement_view_usable(view, (char[]){*p, '\0'}, false);
    bool repaired = placement_repair(view, &l.spec, old, spares, n_spares, ranks, &why) == PLACEMENT_OK;
    for (int64_t i = 0; i < l.spec.ranks && repaired; i++)
        if (memcmp(&old[i], &ranks[i], sizeof(old[i])) != 0)
            len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s.%lld", len ? " " : "", ranks[i].node,
                                    (long long)ranks[i].slot);
    if (strcmp(got, r->wanted) != 0)
        fail_msg("%s: \"%s\" instead of \"%s\" (%s)", r->name, got, r->wanted, why.text);
    placement_view_free(view);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
}

/* 4 ranks in pod 1 and 2 in pod 2: two spares are one for each, though pod 1 has room for both. */
static void test_spares_by_pod(void **state)
{
    (void)state;
    struct row r = {"",        "a 1 1 2 0;b 1 1 2 0;c 1 1 2 2;d 1 1 2 2;e 2 1 2 0;f 2 1 2 2",
                    2,         1,
                    3,         1,
                    "TP node", "a a b b e e",
                    "",        "",
                    ""};
    struct lab l = {.random = 1};
    struct placed_rank ranks[RANKS];
    size_t n;
    setup(&l, &r);
    parse_old(&l, r.old, ranks);
    struct placement_view *view = placement_view_new(l.nodes, l.n_nodes, l.links);
    struct placed_rank *spares = placement_spares(view, &l.spec, ranks, 2, &n);
    assert_int_equal(n, 4);
    assert_string_equal(spares[0].node, "c");
    assert_string_equal(spares[2].node, "f");
    free(spares);
    placement_view_free(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_spares_by_pod),
    };
    return cmocka_run_group_tests_name("core placement repair", tests, NULL, NULL);
}
