/* images: which images stay, and when their memory is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "agent/shim/images.h"

static struct images *store;

static int begin(void **state)
{
    (void)state;
    store = images_new();
    return 0;
}

static int end(void **state)
{
    (void)state;
    images_free(store);
    return 0;
}

static struct memimage an_image(const char *name, int64_t step, int64_t attempt)
{
    struct memimage image = {.step = step, .bytes = 8, .attempt = attempt};
    snprintf(image.name, sizeof image.name, "%s", name);
    snprintf(image.hash, sizeof image.hash, "%032llx", (unsigned long long)(step * 1000 + attempt));
    return image;
}

static struct held *hold(const char *name, int64_t step, int64_t attempt)
{
    struct memimage image = an_image(name, step, attempt);
    return images_hold(store, &image, memimage_new(name, 8, NULL));
}

static void adopt(const char *name, int64_t step, int64_t attempt)
{
    struct memimage image = an_image(name, step, attempt);
    images_drop(images_adopt(store, &image, memimage_new(name, 8, NULL)));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Everything that is held, sorted: "a:1/120 b:1/110". */
static void expect(const char *what)
{
    char texts[32][128], all[2048] = "", *sorted[32];
    size_t n = images_count(store);
    for (size_t i = 0; i < n; i++) {
        const struct memimage *is = &images_at(store, i)->is;
        snprintf(texts[i], sizeof texts[i], "%s:%lld/%lld", is->name, (long long)is->attempt,
                 (long long)is->step);
        sorted[i] = texts[i];
    }
    qsort(sorted, n, sizeof *sorted, by_text);
    for (size_t i = 0; i < n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", sorted[i]);
    assert_string_equal(all, what);
}

static void test_newest_two_of_each_name(void **state)
{
    (void)state;
    hold("a", 10, 1);
    hold("b", 10, 1);
    hold("a", 20, 1);
    hold("b", 20, 1);
    expect("a:1/10 a:1/20 b:1/10 b:1/20");
    hold("a", 30, 1);
    expect("a:1/20 a:1/30 b:1/20");
    hold("b", 30, 1);
    expect("a:1/20 a:1/30 b:1/20 b:1/30");
}

static void test_the_same_step_is_replaced(void **state)
{
    (void)state;
    hold("a", 10, 1);
    struct held *second = hold("a", 10, 1);
    expect("a:1/10");
    assert_ptr_equal(images_at(store, 0), second);
}

static void test_going_back_ends_later_steps(void **state)
{
    (void)state;
    hold("a", 10, 1);
    hold("a", 20, 1);
    hold("a", 15, 1);
    expect("a:1/10 a:1/15");
    hold("a", 5, 1);
    expect("a:1/5");
}

static void test_an_earlier_attempt_stays_until_everybody_has_a_newer(void **state)
{
    (void)state;
    adopt("a", 10, 1);
    adopt("a", 20, 1);
    adopt("moved-away", 20, 1);
    hold("a", 25, 2);
    expect("a:1/20 a:2/25 moved-away:1/20");
    hold("a", 30, 2);
    expect("a:2/25 a:2/30");
}

static void test_adopting_keeps_the_newest_made(void **state)
{
    (void)state;
    adopt("a", 30, 1);
    adopt("a", 10, 2);
    adopt("a", 20, 1);
    expect("a:1/30 a:2/10");
    adopt("a", 10, 2);
    expect("a:1/30 a:2/10");
}

static void make_room(const char *name, int64_t step, int64_t attempt)
{
    struct memimage image = an_image(name, step, attempt);
    images_make_room(store, &image);
}

static void test_room_is_made_before_one_comes(void **state)
{
    (void)state;
    hold("a", 10, 1);
    make_room("a", 20, 1);
    expect("a:1/10");
    hold("a", 20, 1);
    make_room("a", 30, 1);
    expect("a:1/20");
}

/* The attempt went on from step 10, for step 20 was not whole: that one goes, not the one it stands on. */
static void test_room_is_made_by_what_will_end(void **state)
{
    (void)state;
    adopt("a", 10, 1);
    adopt("a", 20, 1);
    make_room("a", 20, 2);
    expect("a:1/10");
}

static void test_find_is_by_content(void **state)
{
    (void)state;
    hold("a", 10, 1);
    struct memimage want = an_image("a", 10, 1);
    assert_non_null(images_find(store, &want));
    want.attempt = 7; /* whoever made it */
    assert_non_null(images_find(store, &want));
    want.hash[3] = 'f';
    assert_null(images_find(store, &want));
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
}

static void test_memory_is_given_back_when_nobody_uses_it(void **state)
{
    (void)state;
    struct held *h = images_use(hold("a", 10, 1));
    int fd = h->fd;
    hold("a", 5, 1);
    expect("a:1/5");
    assert_true(is_open(fd));
    images_drop(h);
    assert_false(is_open(fd));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_newest_two_of_each_name),
                                       TEST(test_the_same_step_is_replaced),
                                       TEST(test_going_back_ends_later_steps),
                                       TEST(test_an_earlier_attempt_stays_until_everybody_has_a_newer),
                                       TEST(test_adopting_keeps_the_newest_made),
                                       TEST(test_room_is_made_before_one_comes),
                                       TEST(test_room_is_made_by_what_will_end),
                                       TEST(test_find_is_by_content),
                                       TEST(test_memory_is_given_back_when_nobody_uses_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
