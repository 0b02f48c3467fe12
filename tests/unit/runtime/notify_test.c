#include "tests/unit/scratch.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "runtime/notify.h"

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* The next datagram, "" when there is none. */
static const char *receive(int fd)
{
    static char text[8192];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

static void test_sends_lines(void **state)
{
    (void)state;
    char *path = scratch_path("a.sock");
    int fd = listen_at(path);
    struct notify *n = notify_open(path, 3);
    notify_send(n, "STEP=%d\nLOSS=%g", 12, 2.5);
    assert_string_equal(receive(fd), "RANK=3\nSTEP=12\nLOSS=2.5");
    notify_close(n);
    close(fd);
    free(path);
}

/* A receiver that does not read makes lines get lost, but not those to keep, and never blocks. */
static void test_full_queue(void **state)
{
    (void)state;
    char *path = scratch_path("b.sock");
    int fd = listen_at(path);
    struct notify *n = notify_open(path, 0);
    for (int i = 0; i < 5000; i++)
        notify_send(n, "STEP=%d", i);
    notify_keep(n, "CHECKPOINT_DURABLE=100");
    notify_keep(n, "CHECKPOINT_DURABLE=200");
    int seen = 0;
    while (*receive(fd))
        seen++;
    assert_true(seen > 0 && seen < 5000);
    notify_send(n, "STEP=7777");
    assert_string_equal(receive(fd), "RANK=0\nCHECKPOINT_DURABLE=100\nCHECKPOINT_DURABLE=200\nSTEP=7777");
    notify_send(n, "STEP=7778");
    assert_string_equal(receive(fd), "RANK=0\nSTEP=7778");
    notify_close(n);
    close(fd);
    free(path);
}

/* What must arrive arrives at the close, when there is room again. */
static void test_close_flushes(void **state)
{
    (void)state;
    char *path = scratch_path("d.sock");
    int fd = listen_at(path);
    struct notify *n = notify_open(path, 0);
    for (int i = 0; i < 5000; i++)
        notify_send(n, "STEP=%d", i);
    notify_keep(n, "CHECKPOINT_DURABLE=100");
    while (*receive(fd))
        ;
    notify_close(n);
    assert_string_equal(receive(fd), "RANK=0\nCHECKPOINT_DURABLE=100\n");
    close(fd);
    free(path);
}

static void test_nobody_there(void **state)
{
    (void)state;
    char *gone = scratch_path("c.sock");
    const char *paths[] = {NULL, "", "/nonexistent/socket", gone};
    close(listen_at(gone));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct notify *n = notify_open(paths[i], 0);
        notify_send(n, "STEP=1");
        notify_keep(n, "CHECKPOINT_DURABLE=1");
        notify_close(n);
    }
    notify_close(NULL);
    free(gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sends_lines),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_close_flushes),
        cmocka_unit_test(test_nobody_there),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
