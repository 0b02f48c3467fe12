/* docs/cluster-file.md has the row of every field as the table of fields has it, and the examples in it are cluster files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "schema/cluster.h"
#include "schema/cluster_fields.h"

static char *read_docs(void)
{
    char *text = fs_read("docs/cluster-file.md", 1 << 20, NULL, NULL);
    assert_non_null(text);
    return text;
}

static void every_field_is_documented(void **state)
{
    (void)state;
    char *docs = read_docs(), row[1024];
    for (size_t i = 0; i < cluster_fields_count; i++) {
        cluster_field_document(i, row, sizeof row);
        if (!strstr(docs, row))
            fail_msg("docs/cluster-file.md lacks the row\n%s", row);
    }
    free(docs);
}

static void examples_parse(void **state)
{
    (void)state;
    static struct job_diagnostics d;
    char *docs = read_docs();
    size_t found = 0;
    for (char *at = strstr(docs, "```yaml\n"); at; at = strstr(at, "```yaml\n"), found++) {
        at += strlen("```yaml\n");
        struct cluster_spec *spec = NULL;
        if (cluster_spec_parse(at, (size_t)(strstr(at, "```") - at), "docs", &spec, &d) < 0)
            fail_msg("%s", d.text[0]);
        cluster_spec_free(spec);
    }
    assert_int_equal(found, 2);
    free(docs);
}

static void keys_are_found_in_their_section(void **state)
{
    (void)state;
    for (size_t i = 0; i < cluster_fields_count; i++) {
        char section[64] = "";
        const char *path = cluster_fields[i].path, *dot = strrchr(path, '.');
        if (dot)
            memcpy(section, path, (size_t)(dot - path));
        assert_int_equal(cluster_field_find(section, cluster_field_key(i)), i);
    }
    assert_true(cluster_field_find("pods", "bandwidth") == CLUSTER_FIELD_NONE);
    assert_true(cluster_field_find("pod", "name") == CLUSTER_FIELD_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_documented),
        cmocka_unit_test(examples_parse),
        cmocka_unit_test(keys_are_found_in_their_section),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
