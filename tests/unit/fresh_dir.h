/* fresh_dir: a folder of its own for each test of a program: cmocka_unit_test_setup_teardown(test, make_dir, drop_dir). */
#ifndef BELAY_TESTS_FRESH_DIR_H
#define BELAY_TESTS_FRESH_DIR_H

#include <stdlib.h>

#include "common/fsutil.h"
#include "common/mem.h"

static char *dir; /* of the test that runs */

static inline int make_dir(void **state)
{
    (void)state;
    dir = str_dup("/tmp/belay-unit-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int drop_dir(void **state)
{
    (void)state;
    int rc = fs_remove_tree(dir, NULL);
    free(dir);
    return rc;
}

#endif
