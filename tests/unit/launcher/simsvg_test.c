/* The plot is well-formed whatever the result and the title, and shows each curve once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/simsvg.h"

static char *draw(const struct sim_result *r, const char *title)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    simsvg_write(out, r, title);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Tags open and close in order; what is between them has no bare < or &. */
static void check_balance(const char *svg)
{
    char open[32][32];
    int depth = 0;
    for (const char *p = strchr(svg, '<'); p; p = strchr(p + 1, '<')) {
        const char *end = strchr(p, '>');
        assert_non_null(end);
        size_t len = strcspn(p + 1, " >/");
        assert_true(len < 32);
        if (p[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_int_equal(strncmp(open[depth], p + 2, strlen(open[depth])), 0);
        } else if (end[-1] != '/') {
            assert_true(depth < 32);
            memcpy(open[depth], p + 1, len);
            open[depth++][len] = '\0';
        }
        p = end;
    }
    assert_int_equal(depth, 0);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
        n++;
    return n;
}

static void test_plot(void **state)
{
    (void)state;
    struct sim_point points[] = {{0.5, 0.4, 0.1, 0, 0}, {1.0, 0.9, 0, 1.5, 0}, {0, 0, 0, -1, 0}};
    static const double days[] = {0.01, 1, 7, 54, 365, 3650};
    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
        struct sim_result r = {.span_ms = (int64_t)(days[i] * 86400e3),
                               .devices = 8,
                               .nodes = 1,
                               .points = points,
                               .n_points = 3};
        char *svg = draw(&r, "<b>a & b</b>\x01");
        check_balance(svg);
        assert_int_equal(count(svg, "<path class=\"held\""), 1);
        assert_int_equal(count(svg, "<path class=\"useful\""), 1);
        assert_int_equal(count(svg, "&lt;b&gt;a &amp; b"), 1);
        assert_null(strchr(svg, 1));
        assert_null(strstr(svg, "nan"));
        assert_in_range(count(svg, "class=\"mid\""), 2, 14);
        free(svg);
    }
}

static void test_without_points(void **state)
{
    (void)state;
    struct sim_result r = {.span_ms = 86400000};
    char *svg = draw(&r, "");
    check_balance(svg);
    free(svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plot),
        cmocka_unit_test(test_without_points),
    };
    return cmocka_run_group_tests_name("sim svg", tests, NULL, NULL);
}
