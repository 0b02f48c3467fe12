/* agent_link: what an agent gets that comes late, comes again, or talks nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "agent/shim/agent_link.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "common/unixsock.h"

static struct {
    struct event_base *base;
    char *dir, *path;
    struct agent_link *link;
    int connected, orders, releases;
} t;

static void on_connected(void *ctx)
{
    (void)ctx;
    t.connected++;
    json_t *msg = json_pack("{s:s}", "t", "report");
    agent_link_send(t.link, msg);
    json_decref(msg);
}

static int on_order(void *ctx, const json_t *msg, struct err *err)
{
    (void)ctx;
    t.orders++;
    return json_object_get(msg, "bad") ? err_set(err, "a bad order") : 0;
}

static void on_release(void *ctx)
{
    (void)ctx;
    t.releases++;
}

static const struct agent_link_events EVENTS = {
    .connected = on_connected, .order = on_order, .release = on_release};

static int begin(void **state)
{
    (void)state;
    struct err err = {""};
    char dir[] = "/tmp/belay-link-XXXXXX";
    memset(&t, 0, sizeof t);
    t.dir = str_dup(mkdtemp(dir));
    t.path = str_printf("%s/shim.sock", t.dir);
    t.base = event_base_new();
    t.link = agent_link_listen(t.base, t.path, &EVENTS, NULL, &err);
    return t.link ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    struct err err;
    agent_link_free(t.link);
    event_base_free(t.base);
    fs_remove_tree(t.dir, &err);
    free(t.dir);
    free(t.path);
    return 0;
}

static void turn(void)
{
    struct timeval tick = {.tv_usec = 10000};
    event_base_loopexit(t.base, &tick);
    event_base_dispatch(t.base);
}

/* Connects and waits until the shim has seen it. */
static int connect_agent(void)
{
    struct err err = {""};
    int before = t.connected, fd = unixsock_connect(t.path, 1, &err);
    assert_true(fd >= 0);
    for (int i = 0; i < 500 && t.connected == before; i++)
        turn();
    assert_int_equal(t.connected, before + 1);
    return fd;
}

/* Everything that has been sent to fd, as one string; *closed when the shim closed it. */
static char *hear(int fd, bool *closed)
{
    static char text[262144];
    size_t len = 0;
    ssize_t n = -1;
    for (int i = 0; i < 10; i++) {
        turn();
        while ((n = recv(fd, text + len, sizeof text - 1 - len, MSG_DONTWAIT)) > 0)
            len += (size_t)n;
        if (n == 0)
            break;
    }
    text[len] = '\0';
    *closed = n == 0;
    return text;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void progress(int64_t rank, const char *key, int value)
{
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    json_t *msg =
        json_pack("{s:s, s:I, s:{s:s}}", "t", "progress", "rank", (json_int_t)rank, "values", key, text);
    agent_link_progress(t.link, rank, msg);
    json_decref(msg);
}

static void test_the_report_comes_first(void **state)
{
    (void)state;
    bool closed;
    int fd = connect_agent();
    assert_string_equal(hear(fd, &closed), "{\"t\":\"report\"}\n");
    say(fd, "{\"t\":\"order\"}\n{\"t\":\"from a newer agent\"}\n{\"t\":\"rel");
    (void)hear(fd, &closed);
    assert_int_equal(t.orders, 1);
    say(fd, "ease\"}\n");
    (void)hear(fd, &closed);
    assert_int_equal(t.releases, 1);
    assert_false(closed);
    close(fd);
}

static void test_the_newest_connection_wins(void **state)
{
    (void)state;
    bool closed;
    int old = connect_agent(), new = connect_agent();
    (void)hear(old, &closed);
    assert_true(closed);
    assert_string_equal(hear(new, &closed), "{\"t\":\"report\"}\n");
    assert_false(closed);
    close(old);
    close(new);
}

static void test_nonsense_closes_the_connection(void **state)
{
    (void)state;
    static const char *const rows[] = {"not json\n", "[]\n", "{\"t\":\"order\",\"bad\":1}\n"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool closed;
        int fd = connect_agent();
        say(fd, rows[i]);
        (void)hear(fd, &closed);
        assert_true(closed);
        close(fd);
    }
}

static void test_what_an_absent_agent_gets_later(void **state)
{
    (void)state;
    bool closed;
    for (int i = 1; i <= 300; i++) {
        progress(0, "STEP", i);
        progress(1, "LOSS", i);
        progress(0, "CHECKPOINT_DURABLE", i);
    }
    int fd = connect_agent();
    const char *text = hear(fd, &closed);
    assert_non_null(strstr(text, "\"STEP\":\"300\""));
    assert_null(strstr(text, "\"STEP\":\"299\""));
    assert_non_null(strstr(text, "\"LOSS\":\"300\""));
    size_t checkpoints = 0;
    for (const char *p = text; (p = strstr(p, "CHECKPOINT_DURABLE")); p++)
        checkpoints++;
    assert_int_equal(checkpoints, 256); /* the last of them */
    assert_non_null(strstr(text, "\"CHECKPOINT_DURABLE\":\"300\""));
    assert_null(strstr(text, "\"CHECKPOINT_DURABLE\":\"44\""));
    close(fd);
    turn();
    turn();
    fd = connect_agent();
    assert_string_equal(hear(fd, &closed), "{\"t\":\"report\"}\n"); /* not a second time */
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_report_comes_first, begin, end),
        cmocka_unit_test_setup_teardown(test_the_newest_connection_wins, begin, end),
        cmocka_unit_test_setup_teardown(test_nonsense_closes_the_connection, begin, end),
        cmocka_unit_test_setup_teardown(test_what_an_absent_agent_gets_later, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
