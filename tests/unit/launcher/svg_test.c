/* svg: well-formed whatever the names, every rank there once, nothing outside the page, from one node to 3,072. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/svg.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* ---- a small reader of XML: tags balance, attributes are quoted, entities are known ---- */

#define DEPTH_MAX 16

struct xml {
    const char *at;
    char open[DEPTH_MAX][16];
    size_t depth, roots;
};

static void must(bool holds, const struct xml *x, const char *what)
{
    if (!holds)
        fail_msg("%s at: %.80s", what, x->at);
}

static void entity(struct xml *x)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < COUNT(known); i++)
        if (strncmp(x->at, known[i], strlen(known[i])) == 0) {
            x->at += strlen(known[i]);
            return;
        }
    must(false, x, "unknown entity");
}

static void word(struct xml *x, char out[16])
{
    size_t n = 0;
    while (isalnum((unsigned char)x->at[n]) || (x->at[n] && strchr("-:_", x->at[n])))
        n++;
    must(n > 0 && n < 16, x, "no name");
    memcpy(out, x->at, n);
    out[n] = '\0';
    x->at += n;
}

static void attributes(struct xml *x)
{
    char name[16];
    while (*x->at == ' ') {
        x->at++;
        word(x, name);
        must(x->at[0] == '=' && x->at[1] == '"', x, "attribute without a quoted value");
        for (x->at += 2; *x->at != '"';) {
            must(*x->at && *x->at != '<', x, "value that does not end");
            if (*x->at == '&')
                entity(x);
            else
                x->at++;
        }
        x->at++;
    }
}

static void tag(struct xml *x)
{
    char name[16];
    bool closing = x->at[1] == '/';
    x->at += closing ? 2 : 1;
    word(x, name);
    if (closing) {
        must(x->depth > 0 && strcmp(x->open[x->depth - 1], name) == 0, x, "closes what is not open");
        x->depth--;
    } else {
        x->roots += x->depth == 0;
        attributes(x);
        if (*x->at == '/') {
            x->at++;
        } else {
            must(x->depth < DEPTH_MAX, x, "too deep");
            memcpy(x->open[x->depth++], name, sizeof name);
        }
    }
    must(*x->at == '>', x, "tag without an end");
    x->at++;
}

static void is_well_formed(const char *text)
{
    static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    struct xml x = {.at = text};
    must(strncmp(text, head, strlen(head)) == 0, &x, "no head");
    for (x.at += strlen(head); *x.at;) {
        if (*x.at == '<')
            tag(&x);
        else if (*x.at == '&')
            entity(&x);
        else {
            must((unsigned char)*x.at >= 0x20 || *x.at == '\n', &x, "control character");
            must(x.depth > 0 || *x.at == '\n', &x, "text outside");
            x.at++;
        }
    }
    must(x.depth == 0 && x.roots == 1, &x, "something stays open");
}

/* ---- pictures ---- */

static char *draw(const struct svg_node *nodes, size_t n_nodes, const struct svg_rank *ranks, size_t n_ranks,
                  enum svg_colour by, const char *title)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    svg_cluster(out, nodes, n_nodes, ranks, n_ranks, by, title);
    assert_int_equal(fclose(out), 0);
    return text;
}

static size_t occurrences(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

/* Every rectangle lies on the page. */
static void is_on_the_page(const char *text)
{
    int width = 0, height = 0;
    assert_int_equal(sscanf(strstr(text, "<svg"),
                            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\"", // NOLINT
                            &width, &height),
                     2);
    assert_in_range(width, 1, 1620); /* racks flow in lines */
    for (const char *at = text; (at = strstr(at, "<rect x=")); at++) {
        int x, y, w, h;
        assert_int_equal(sscanf(at, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", &x, &y, &w, &h),
                         4); // NOLINT
        if (x < 0 || y < 0 || w <= 0 || h <= 0 || x + w > width || y + h > height)
            fail_msg("outside of %d x %d: %.80s", width, height, at);
    }
}

static struct svg_node *many(size_t pods, size_t racks, size_t per_rack, int64_t slots, char (*names)[32])
{
    struct svg_node *nodes = mem_zero(pods * racks * per_rack, sizeof *nodes);
    size_t n = 0;
    for (size_t p = 0; p < pods; p++)
        for (size_t r = 0; r < racks; r++)
            for (size_t k = 0; k < per_rack; k++, n++) {
                char *name = names[3 * n], *rack = names[3 * n + 1], *pod = names[3 * n + 2];
                (void)snprintf(name, 32, "gpu%04zu", n + 1);
                (void)snprintf(rack, 32, "rack%zu", r + 1);
                (void)snprintf(pod, 32, "pod%zu", p + 1);
                nodes[n] = (struct svg_node){name, rack, pod, "", slots, 0, true};
            }
    return nodes;
}

/* Ranks in order of nodes and slots; TP of a node's size, 16 stages. */
static struct svg_rank *fill(size_t n_nodes, int64_t slots, int64_t pp)
{
    struct svg_rank *ranks = mem_zero(n_nodes * (size_t)slots, sizeof *ranks);
    for (size_t i = 0; i < n_nodes * (size_t)slots; i++)
        ranks[i] = (struct svg_rank){.rank = (int64_t)i,
                                     .node = i / (size_t)slots,
                                     .slot = (int64_t)i % slots,
                                     .tp = (int64_t)i % slots,
                                     .pp = (int64_t)i / slots % pp,
                                     .dp = (int64_t)i / slots / pp};
    return ranks;
}

static void sizes_from_one_node_to_a_data_centre(void **state)
{
    (void)state;
    static const struct {
        size_t pods, racks, per_rack;
        int64_t slots;
    } rows[] = {{1, 1, 1, 2},  {1, 1, 1, 0},  {1, 2, 8, 8},    {1, 1, 18, 4},
                {1, 1, 1, 99}, {2, 16, 2, 8}, {1, 1, 2, 1024}, {8, 192, 2, 8}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t n = rows[i].pods * rows[i].racks * rows[i].per_rack, devices = n * (size_t)rows[i].slots;
        char(*names)[32] = mem_zero(3 * n, sizeof *names);
        struct svg_node *nodes = many(rows[i].pods, rows[i].racks, rows[i].per_rack, rows[i].slots, names);
        struct svg_rank *ranks = fill(n, rows[i].slots, 16);
        char *text = draw(nodes, n, ranks, devices, SVG_PP, "all of it");
        is_well_formed(text);
        is_on_the_page(text);
        assert_int_equal(occurrences(text, ": rank "), devices);
        assert_int_equal(occurrences(text, "class=\"rack\""), rows[i].pods * rows[i].racks);
        assert_int_equal(occurrences(text, "class=\"pod\""), rows[i].pods);
        free(text);
        free(ranks);
        free(nodes);
        free(names);
    }
}

static void every_rank_is_there_once(void **state)
{
    (void)state;
    char names[3 * 16][32], what[32];
    struct svg_node *nodes = many(1, 2, 8, 8, names);
    struct svg_rank *ranks = fill(16, 8, 4);
    char *text = draw(nodes, 16, ranks, 128, SVG_DP, "t");
    for (int i = 0; i < 128; i++) {
        (void)snprintf(what, sizeof what, ": rank %d (", i);
        assert_int_equal(occurrences(text, what), 1);
    }
    assert_non_null(strstr(text, ">gpu0002 slot 3: rank 11 (tp 3, pp 1, cp 0, dp 0)</title>"));
    free(text);
    free(ranks);
    free(nodes);
}

/* Colours of the named ranks, in the order of the picture. */
static void colour_of(const char *text, int rank, char out[8])
{
    char what[32];
    (void)snprintf(what, sizeof what, ": rank %d (", rank);
    const char *at = strstr(text, what);
    assert_non_null(at);
    while (*at != '#')
        at--;
    (void)snprintf(out, 8, "%.7s", at);
}

/* Whatever the colour tells: a TP group has one, neighbouring stages and replicas have others. */
static void groups_have_their_colours(void **state)
{
    (void)state;
    char names[3 * 16][32], own[8], other[8];
    struct svg_node *nodes = many(1, 2, 8, 8, names);
    struct svg_rank *ranks = fill(16, 8, 4); /* rank = (dp*4 + pp)*8 + tp */
    for (int by = SVG_TP; by <= SVG_DP; by++) {
        char *text = draw(nodes, 16, ranks, 128, (enum svg_colour)by, "t");
        colour_of(text, 0, own);
        colour_of(text, 5, other); /* tp 5 */
        assert_string_equal(own, other);
        colour_of(text, 8, other); /* pp 1 */
        assert_string_not_equal(own, other);
        colour_of(text, 32, other); /* dp 1 */
        assert_string_not_equal(own, other);
        free(text);
    }
    free(ranks);
    free(nodes);
}

static void names_are_escaped(void **state)
{
    (void)state;
    static const char odd[] = "<a> & \"b\" 'c' \x01 \xff \xc3\xa9";
    const struct svg_node nodes[] = {
        {odd, odd, odd, odd, 2, 0, true},
        {"a very long name of a node, cut \xc3\xa9\xc3\xa9\xc3\xa9", odd, odd, NULL, 2, 1, false}};
    char *text = draw(nodes, 2, NULL, 0, SVG_TP, odd);
    is_well_formed(text);
    assert_non_null(strstr(text, "<title>&lt;a&gt; &amp; &quot;b&quot; &#39;c&#39; ? ? \xc3\xa9</title>"));
    free(text);
}

static void what_is_not_free_is_shown(void **state)
{
    (void)state;
    const struct svg_node nodes[] = {{"n1", "r1", "p1", "d1", 8, 3, true},
                                     {"n2", "r1", "p1", "d1", 8, 0, false},
                                     {"n3", "r1", "p1", "d2", 8, 0, true},
                                     {"n4", "r1", "p1", NULL, 8, 0, true}};
    const struct svg_rank ranks[] = {
        {.rank = 0, .node = 0, .slot = 1},  {.rank = -1, .node = 2, .slot = 0},
        {.rank = -1, .node = 2, .slot = 1}, {.rank = 7, .node = 9, .slot = 0},
        {.rank = 8, .node = 0, .slot = 8},  {.rank = 9, .node = 0, .slot = -1},
    };
    char *text = draw(nodes, 4, ranks, COUNT(ranks), SVG_PP, "t");
    is_well_formed(text);
    is_on_the_page(text);
    const size_t legend = 1; /* each class is there once more */
    assert_int_equal(occurrences(text, ": rank "), 1);
    assert_int_equal(occurrences(text, "class=\"taken\""), 3 + legend);
    assert_int_equal(occurrences(text, "class=\"spare\""), 2 + legend);
    assert_int_equal(occurrences(text, "class=\"drained\""), 1 + legend);
    assert_int_equal(occurrences(text, "class=\"nvlink\""), 2 + legend);
    assert_int_equal(occurrences(text, "class=\"free\""), 32 - 1 - 3 - 2 + legend);
    free(text);
}

static void order_does_not_matter(void **state)
{
    (void)state;
    const struct svg_node a[] = {{"node2", "rack1", "pod1", "", 2, 1, true},
                                 {"node10", "rack1", "pod1", "", 2, 0, true}};
    const struct svg_node b[] = {a[1], a[0]};
    const struct svg_rank ra[] = {{.rank = 0, .node = 0, .slot = 1}, {.rank = 1, .node = 1, .slot = 0}};
    const struct svg_rank rb[] = {{.rank = 1, .node = 0, .slot = 0}, {.rank = 0, .node = 1, .slot = 1}};
    char *first = draw(a, 2, ra, 2, SVG_PP, "t"), *second = draw(b, 2, rb, 2, SVG_PP, "t");
    assert_string_equal(first, second);
    free(first);
    free(second);
    char *empty = draw(NULL, 0, NULL, 0, SVG_PP, "nothing");
    is_well_formed(empty);
    free(empty);
}

static void colours_are_named(void **state)
{
    enum svg_colour by;
    (void)state;
    assert_int_equal(svg_colour_parse("dp", &by), 0);
    assert_int_equal(by, SVG_DP);
    assert_int_equal(svg_colour_parse("cp", &by), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_from_one_node_to_a_data_centre),
        cmocka_unit_test(every_rank_is_there_once),
        cmocka_unit_test(groups_have_their_colours),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(what_is_not_free_is_shown),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(colours_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
