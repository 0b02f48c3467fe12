/* mem: growing arrays keep what they hold; strings are printed whole; what cannot be had ends the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

static void an_array_grows_seldom_and_keeps_its_content(void **state)
{
    (void)state;
    int *list = NULL;
    size_t room = 0, moves = 0;
    for (size_t n = 0; n < 100000; n++) {
        size_t before = room;
        list = mem_one_more(list, n, &room, sizeof *list);
        assert_true(room > n);
        moves += room != before;
        list[n] = (int)n;
    }
    assert_true(moves < 20);
    for (size_t n = 0; n < 100000; n++)
        assert_int_equal(list[n], n);
    free(list);
}

static void strings_are_printed_whole(void **state)
{
    (void)state;
    char *long_text = str_printf("%5000d", 7), *copy = str_dup(long_text);
    assert_int_equal(strlen(long_text), 5000);
    assert_string_equal(copy, long_text);
    assert_null(str_dup(NULL));
    free(copy);
    free(long_text);
}

static void nothing_is_not_null(void **state)
{
    (void)state;
    char *p = mem_zero(0, 8), *q = mem_grow(NULL, 0, 8);
    assert_true(p && q && *p == 0);
    free(p);
    free(q);
}

static void overflow_ends_the_program(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        close(STDERR_FILENO);
        void *volatile p = mem_grow(NULL, SIZE_MAX / 4, 8);
        free(p);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_array_grows_seldom_and_keeps_its_content),
                                       cmocka_unit_test(strings_are_printed_whole),
                                       cmocka_unit_test(nothing_is_not_null),
                                       cmocka_unit_test(overflow_ends_the_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
