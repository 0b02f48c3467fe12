/* scratch: a fresh folder for one test program, removed at its end, and small files in it. */
#ifndef BELAY_TESTS_RUNTIME_SCRATCH_H
#define BELAY_TESTS_RUNTIME_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "common/mem.h"

static char scratch[] = "/tmp/belay-runtime-test-XXXXXX";

static inline int scratch_make(void **state)
{
    (void)state;
    return mkdtemp(scratch) ? 0 : -1;
}

static inline int scratch_remove(void **state)
{
    (void)state;
    return fs_remove_tree(scratch, NULL);
}

/* scratch/name; the caller frees. */
static inline char *scratch_path(const char *name)
{
    return str_printf("%s/%s", scratch, name);
}

static inline void scratch_write(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* The content as a string; the caller frees. */
static inline char *scratch_read(const char *path)
{
    char *text = fs_read(path, 1u << 24, NULL, NULL);
    assert_non_null(text);
    return text;
}

/* Flips one bit of a file. */
static inline void scratch_flip(const char *path, size_t at)
{
    size_t len;
    char *text = fs_read(path, 1u << 24, &len, NULL);
    assert_non_null(text);
    assert_true(at < len);
    text[at] ^= 1;
    scratch_write(path, text, len);
    free(text);
}

#define assert_contains(text, part)                                                                          \
    do {                                                                                                     \
        if (!strstr(text, part))                                                                             \
            fail_msg("\"%s\" does not contain \"%s\"", text, part);                                          \
    } while (0)

#endif
