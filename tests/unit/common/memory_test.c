/* memory: a rank's side against a shim that answers well, late, wrongly, or not at all. No descriptor is left open by any of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/memory.h"
#include "common/packet.h"
#include "common/unixsock.h"
#include "tests/unit/fresh_dir.h"

#define HASH    "0123456789abcdef0123456789abcdef"
#define WAIT_MS 20000

static const struct memimage WANT = {
    .step = 120, .rank = 3, .bytes = 8, .attempt = 1, .name = "a", .hash = HASH};

/* What the shim does with a question (borrowed), over fd. */
typedef void answer_fn(int fd, int64_t id);

static int listener;
static pthread_t thread;
static struct memory_tier *tier;

/* The question is read whole, then answered, then the connection ends. */
static void *serve(void *arg)
{
    answer_fn *fn = *(answer_fn **)arg;
    json_t *msg;
    int passed, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (packet_receive(fd, 0, &msg, &passed, NULL) == 1) {
        if (passed >= 0)
            close(passed);
        fn(fd, jsonx_int_or(msg, "id", -1));
        json_decref(msg);
    }
    if (packet_receive(fd, 0, &msg, &passed, NULL) == 1) /* until the rank has left: it says nothing more */
        json_decref(msg);
    close(fd);
    return NULL;
}

static size_t open_files(void)
{
    size_t n = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (readdir(fds))
        n++;
    closedir(fds);
    return n;
}

static void begin(answer_fn **fn)
{
    struct err err = {""};
    char *path = str_printf("%s/socket", dir);
    listener = unixsock_listen_packets(path, 0600, &err);
    assert_true(listener >= 0);
    assert_int_equal(fcntl(listener, F_SETFL, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, fn), 0);
    tier = memory_open(path, &err);
    assert_non_null(tier);
    free(path);
}

static void end(void)
{
    memory_close(tier);
    pthread_join(thread, NULL);
    close(listener);
}

/* ---- answers ---- */

static void say(int fd, json_t *msg, int passed)
{
    struct err err = {""};
    if (packet_send(fd, msg, passed, 0, &err) != 0)
        fail_msg("%s", err.text);
    json_decref(msg);
    if (passed >= 0)
        close(passed);
}

static json_t *image_answer(int64_t id, int64_t step)
{
    struct memimage image = WANT;
    json_t *msg = json_pack("{s:s,s:I}", "t", "image", "id", (json_int_t)id);
    image.step = step;
    memimage_put(msg, &image);
    return msg;
}

static void well(int fd, int64_t id)
{
    say(fd, image_answer(id, 120), memimage_new("a", 8, NULL));
}

static void with_an_error(int fd, int64_t id)
{
    say(fd, json_pack("{s:s,s:I,s:s}", "t", "image", "id", (json_int_t)id, "error", "it is not held"), -1);
}

static void with_an_error_and_a_descriptor(int fd, int64_t id)
{
    say(fd, json_pack("{s:s,s:I,s:s}", "t", "image", "id", (json_int_t)id, "error", "it is not held"),
        memimage_new("a", 8, NULL));
}

static void with_another_step(int fd, int64_t id)
{
    say(fd, image_answer(id, 110), memimage_new("a", 8, NULL));
}

static void without_a_descriptor(int fd, int64_t id)
{
    say(fd, image_answer(id, 120), -1);
}

static void with_a_shorter_one(int fd, int64_t id)
{
    say(fd, image_answer(id, 120), memimage_new("a", 7, NULL));
}

static void with_one_that_may_shrink(int fd, int64_t id)
{
    int passed = memfd_create("a", MFD_CLOEXEC);
    assert_int_equal(ftruncate(passed, 8), 0);
    say(fd, image_answer(id, 120), passed);
}

static void without_fields(int fd, int64_t id)
{
    say(fd, json_pack("{s:s,s:I}", "t", "image", "id", (json_int_t)id), memimage_new("a", 8, NULL));
}

static void with_no_packet(int fd, int64_t id)
{
    (void)id;
    assert_int_equal(send(fd, "{broken", 7, MSG_NOSIGNAL), 7);
}

static void by_leaving(int fd, int64_t id)
{
    (void)id;
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
}

static void not_at_all(int fd, int64_t id)
{
    (void)fd;
    (void)id;
}

/* The answer to a question that was given up, and a word on a hold, come first. */
static void after_others(int fd, int64_t id)
{
    say(fd, image_answer(id - 1, 120), memimage_new("a", 8, NULL));
    say(fd, json_pack("{s:s,s:I,s:[]}", "t", "images", "id", (json_int_t)id, "images"), -1);
    say(fd, json_pack("{s:s,s:I,s:s,s:b}", "t", "held", "step", (json_int_t)130, "name", "b", "buddy", 1),
        -1);
    well(fd, id);
}

static void test_an_image(void **state)
{
    (void)state;
    static const struct {
        answer_fn *answer;
        int timeout_ms;
        const char *why; /* NULL: it is had */
    } rows[] = {
        {well, WAIT_MS, NULL},
        {after_others, WAIT_MS, NULL},
        {with_an_error, WAIT_MS, "it is not held"},
        {with_an_error_and_a_descriptor, WAIT_MS, "it is not held"},
        {with_another_step, WAIT_MS, "another image than a of step 120"},
        {without_a_descriptor, WAIT_MS, "no memory file"},
        {with_a_shorter_one, WAIT_MS, "has 7 bytes, not 8"},
        {with_one_that_may_shrink, WAIT_MS, "sealed size"},
        {without_fields, WAIT_MS, "\"step\" must be a whole number"},
        {with_no_packet, WAIT_MS, "not JSON"},
        {by_leaving, WAIT_MS, "closed"},
        {not_at_all, 20, "did not answer in time"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        answer_fn *answer = rows[i].answer;
        size_t before = open_files();
        begin(&answer);
        int fd = memory_image(tier, &WANT, MEMORY_HERE, rows[i].timeout_ms, &err);
        if ((fd >= 0) != !rows[i].why || (rows[i].why && !strstr(err.text, rows[i].why)))
            fail_msg("row %zu: %d \"%s\"", i, fd, err.text);
        if (fd >= 0)
            close(fd);
        if (answer == after_others) {
            struct memory_held word;
            assert_int_equal(memory_poll(tier, &word, 1, &err), 1);
            assert_int_equal(word.step, 130);
            assert_string_equal(word.name, "b");
            assert_true(word.buddy);
        }
        end();
        assert_int_equal(open_files(), before);
    }
}

/* ---- lists ---- */

static json_t *page(int64_t id, json_t *images, bool more)
{
    return json_pack("{s:s,s:I,s:o,s:b}", "t", "images", "id", (json_int_t)id, "images", images, "more",
                     (int)more);
}

static json_t *some_images(size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *image = json_object();
        memimage_put(image, &WANT);
        (void)json_array_append_new(list, image);
    }
    return list;
}

static void in_three_pages(int fd, int64_t id)
{
    say(fd, page(id, some_images(2), true), -1);
    say(fd, page(id, some_images(0), true), memimage_new("a", 8, NULL)); /* nobody asked for it */
    say(fd, page(id, some_images(1), false), -1);
}

static void with_half_a_list(int fd, int64_t id)
{
    say(fd, page(id, some_images(2), true), -1);
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
}

static void with_no_list(int fd, int64_t id)
{
    say(fd, page(id, json_string("all"), false), -1);
}

static void with_a_bad_image(int fd, int64_t id)
{
    json_t *list = some_images(2);
    (void)json_array_append_new(list, json_pack("{s:s}", "name", "x"));
    say(fd, page(id, list, false), -1);
}

static void test_a_list(void **state)
{
    (void)state;
    static const struct {
        answer_fn *answer;
        size_t n;
        const char *why;
    } rows[] = {
        {in_three_pages, 3, NULL},
        {with_half_a_list, 0, "closed"},
        {with_no_list, 0, "\"images\" must be an array"},
        {with_a_bad_image, 0, "\"step\" must be a whole number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct memimage *list;
        answer_fn *answer = rows[i].answer;
        size_t n, before = open_files();
        begin(&answer);
        int rc = memory_list(tier, WAIT_MS, &list, &n, &err);
        if ((rc == 0) != !rows[i].why || n != rows[i].n || (rows[i].why && !strstr(err.text, rows[i].why)))
            fail_msg("row %zu: %d, %zu images, \"%s\"", i, rc, n, err.text);
        for (size_t k = 0; k < n; k++)
            assert_true(memimage_same(&list[k], &WANT));
        free(list);
        end();
        assert_int_equal(open_files(), before);
    }
}

/* ---- holds ---- */

static void test_only_memory_is_handed_over(void **state)
{
    (void)state;
    struct err err = {""};
    answer_fn *answer = not_at_all;
    begin(&answer);
    int pipes[2], plain = memfd_create("a", MFD_CLOEXEC),
                  may = memfd_create("a", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(memory_hold(tier, &WANT, pipes[0], &err), -1);
    assert_non_null(strstr(err.text, "cannot seal"));
    assert_int_equal(memory_hold(tier, &WANT, plain, &err), -1);
    assert_int_equal(ftruncate(may, 8), 0);
    assert_int_equal(memory_hold(tier, &WANT, may, &err), 0);
    assert_int_equal(memimage_check(may, 8, &err), 0);
    assert_int_equal(ftruncate(may, 9), -1);
    close(pipes[0]);
    close(pipes[1]);
    close(plain);
    close(may);
    end();
}

static void test_a_shim_that_is_gone(void **state)
{
    (void)state;
    struct err err = {""};
    struct memory_held word;
    answer_fn *answer = by_leaving;
    char *path = str_printf("%s/nobody", dir);
    assert_null(memory_open(path, &err));
    free(path);
    begin(&answer);
    int fd = memimage_new("a", 8, &err), rc = 0;
    assert_int_equal(memory_hold(tier, &WANT, fd, &err), 0);
    while (rc == 0)
        rc = memory_poll(tier, &word, 1, &err);
    assert_int_equal(rc, -1);
    assert_int_equal(memory_hold(tier, &WANT, fd, &err), -1);
    close(fd);
    end();
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_dir, drop_dir)
int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_an_image), TEST(test_a_list),
                                       TEST(test_only_memory_is_handed_over), TEST(test_a_shim_that_is_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
