/* docs/job-file.md has the row of every field as the table of fields has it, so that the reference cannot fall behind; the examples in it
 * parse; and the table is in the order that printing and documentation rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "schema/job.h"
#include "schema/job_fields.h"

static char *read_docs(void)
{
    char *text = fs_read("docs/job-file.md", 1 << 20, NULL, NULL);
    assert_non_null(text);
    return text;
}

static void every_field_is_documented(void **state)
{
    (void)state;
    char *docs = read_docs(), row[1024];
    for (size_t i = 0; i < job_fields_count; i++) {
        job_field_document(i, row, sizeof row);
        if (!strstr(docs, row))
            fail_msg("docs/job-file.md lacks the row\n%s", row);
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
        struct job_spec *spec = NULL;
        if (job_spec_parse(at, (size_t)(strstr(at, "```") - at), "docs", NULL, 0, &spec, &d) < 0)
            fail_msg("%s", d.text[0]);
        job_spec_free(spec);
    }
    assert_int_equal(found, 5);
    free(docs);
}

static void sections_come_before_their_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < job_fields_count; i++) {
        size_t parent = job_field_parent(i);
        assert_true(parent == JOB_FIELD_NONE ? !strchr(job_fields[i].path, '.') : parent < i);
        assert_int_equal(job_field_index(job_fields[i].path), i);
        assert_true(parent == JOB_FIELD_NONE || job_fields[parent].type == FIELD_SECTION);
        assert_int_equal(
            job_field_find(parent == JOB_FIELD_NONE ? "" : job_fields[parent].path, job_field_key(i)), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_documented),
        cmocka_unit_test(examples_parse),
        cmocka_unit_test(sections_come_before_their_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
