/* notify: what is taken from a datagram, and what leaves how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <event2/event.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/shim/notify.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text, *values;
        int64_t rank;
        size_t bad;
    } rows[] = {
        {"STEP=1", "{\"STEP\": \"1\"}", -1, 0},
        {"STEP=1\nLOSS=2.5\n", "{\"LOSS\": \"2.5\", \"STEP\": \"1\"}", -1, 0},
        {"RANK=3\nSTEP=1", "{\"STEP\": \"1\"}", 3, 0},
        {"RANK=x\nSTEP=1", "{\"STEP\": \"1\"}", -2, 0},
        {"RANK=-1", "{}", -2, 0},
        {"RANK=", "{}", -2, 0},
        {"RANK=99999999999999999999", "{}", -2, 0},
        {"STATUS=a=b c", "{\"STATUS\": \"a=b c\"}", -1, 0},
        {"STATUS=", "{\"STATUS\": \"\"}", -1, 0},
        {"\n\nSTEP=1\n\n", "{\"STEP\": \"1\"}", -1, 0},
        {"step=1", "{}", -1, 1},
        {"=1\nSTEP\n1A=2\nA B=1", "{}", -1, 4},
        {"A1_B=2", "{\"A1_B\": \"2\"}", -1, 0},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG=33 letters", "{}", -1, 1},
        {"STEP=1\nSTEP=2", "{\"STEP\": \"2\"}", -1, 0},
        {"STATUS=\xff\xfe\nSTEP=1", "{\"STEP\": \"1\"}", -1, 1},
        {"", "{}", -1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t rank;
        size_t bad;
        json_t *values = notify_parse(rows[i].text, strlen(rows[i].text), &rank, &bad);
        char *text = json_dumps(values, JSON_SORT_KEYS);
        assert_string_equal(text, rows[i].values);
        assert_int_equal(rank, rows[i].rank);
        assert_int_equal(bad, rows[i].bad);
        free(text);
        json_decref(values);
    }
}

static void test_parse_nul_and_many_keys(void **state)
{
    (void)state;
    int64_t rank;
    size_t bad;
    json_t *values = notify_parse("A=1\0B\nC=2", 9, &rank, &bad);
    assert_int_equal(json_object_size(values), 1);
    assert_int_equal(bad, 1);
    json_decref(values);
    char text[4096];
    size_t at = 0;
    for (int i = 0; i < 100; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "K%d=1\n", i);
    values = notify_parse(text, at, &rank, &bad);
    assert_int_equal(json_object_size(values), 64);
    assert_int_equal(bad, 36);
    json_decref(values);
}

/* ---- the socket ---- */

static struct {
    struct event_base *base;
    char *dir, *path;
    struct notify *notify;
    int fd, messages, checkpoints, copies;
    int64_t rank;
    char step[32], copy[32];
} t;

static int64_t rank_of(void *ctx, pid_t pid)
{
    (void)ctx;
    return pid == getpid() ? 5 : -1;
}

static bool is_local(void *ctx, int64_t rank)
{
    (void)ctx;
    return rank == 5 || rank == 6;
}

static void progress(void *ctx, int64_t rank, json_t *values)
{
    (void)ctx;
    t.messages++;
    t.rank = rank;
    t.checkpoints += json_object_get(values, "CHECKPOINT_DURABLE") != NULL;
    if (json_object_get(values, "MEMORY_CHECKPOINT")) {
        t.copies++;
        snprintf(t.copy, sizeof t.copy, "%s", jsonx_str_or(values, "MEMORY_CHECKPOINT", ""));
    }
    snprintf(t.step, sizeof t.step, "%s", jsonx_str_or(values, "STEP", ""));
}

static const struct notify_events EVENTS = {.rank_of = rank_of, .is_local = is_local, .progress = progress};

static void send_text(const char *text, size_t len)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", t.path);
    assert_int_equal(sendto(t.fd, text, len, 0, (struct sockaddr *)&to, sizeof to), len);
    event_base_loop(t.base, EVLOOP_NONBLOCK);
}

static void say(const char *text)
{
    send_text(text, strlen(text));
}

static int open_socket(void **state)
{
    (void)state;
    struct err err = {""};
    memset(&t, 0, sizeof t);
    char dir[] = "/tmp/belay-notify-XXXXXX";
    t.dir = str_dup(mkdtemp(dir));
    t.path = str_printf("%s/notify", t.dir);
    t.base = event_base_new();
    t.notify = notify_listen(t.base, t.path, &EVENTS, NULL, &err);
    t.fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    return t.notify && t.fd >= 0 ? 0 : -1;
}

static int close_socket(void **state)
{
    (void)state;
    struct err err;
    notify_free(t.notify);
    event_base_free(t.base);
    close(t.fd);
    fs_remove_tree(t.dir, &err);
    free(t.dir);
    free(t.path);
    return 0;
}

static void test_rank_by_sender_or_by_name(void **state)
{
    (void)state;
    say("STEP=1");
    assert_int_equal(t.rank, 5);
    say("STEP=1\nRANK=6");
    assert_int_equal(t.rank, 6);
    int before = t.messages;
    say("STEP=1\nRANK=7"); /* not on this node */
    say("STEP=1\nRANK=zero");
    say("no equals sign");
    assert_int_equal(t.messages, before);
}

static void test_too_long(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    memcpy(text, "STATUS=", 7);
    send_text(text, sizeof text);
    assert_int_equal(t.messages, 0);
    send_text(text, 4096);
    assert_int_equal(t.messages, 1);
}

static void test_coalesced(void **state)
{
    (void)state;
    int64_t start_ms = clock_boot_ms();
    for (int i = 0; i < 500; i++) {
        char text[64];
        snprintf(text, sizeof text, "STEP=%d", i);
        say(text);
    }
    int64_t most = 2 + (clock_boot_ms() - start_ms) / NOTIFY_INTERVAL_MS;
    assert_in_range(t.messages, 1, most);
    int64_t until_ms = clock_boot_ms() + 5000;
    while (strcmp(t.step, "499") != 0 && clock_boot_ms() < until_ms)
        event_base_loop(t.base, EVLOOP_ONCE);
    assert_string_equal(t.step, "499"); /* the newest is never lost */
}

static void test_checkpoints_are_never_coalesced(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        char text[64];
        snprintf(text, sizeof text, "STEP=%d\nCHECKPOINT_DURABLE=%d", i, i);
        say(text);
    }
    notify_flush(t.notify);
    assert_int_equal(t.checkpoints, 50);
}

/* The same step in another tier, or the copy of the next: each arrives as it was sent. */
static void test_checkpoints_are_not_mixed(void **state)
{
    (void)state;
    say("STEP=1");
    say("CHECKPOINT_DURABLE=5\nCHECKPOINT_TIER=upload");
    say("CHECKPOINT_DURABLE=5");
    say("CHECKPOINT_STAGED=6\nCHECKPOINT_STAGED_MS=3");
    notify_flush(t.notify);
    assert_int_equal(t.messages, 4);
    assert_int_equal(t.checkpoints, 2);
}

/* One after every step, at a thousand steps a second: the newest is enough. */
static void test_copies_in_memory_are_coalesced(void **state)
{
    (void)state;
    int64_t start_ms = clock_boot_ms();
    for (int i = 0; i < 500; i++) {
        char text[80];
        snprintf(text, sizeof text, "STEP=%d\nCHECKPOINT_DURABLE=%d\nCHECKPOINT_TIER=memory", i, i);
        say(text);
    }
    notify_flush(t.notify);
    assert_in_range(t.copies, 1, 2 + (clock_boot_ms() - start_ms) / NOTIFY_INTERVAL_MS);
    assert_string_equal(t.copy, "499");
    assert_int_equal(t.checkpoints, 0);
}

/* Sent before anybody looked, and within the same tenth of a second as another message. */
static void test_drain_leaves_nothing(void **state)
{
    (void)state;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", t.path);
    say("STEP=1");
    assert_int_equal(sendto(t.fd, "STEP=2", 6, 0, (struct sockaddr *)&to, sizeof to), 6);
    notify_drain(t.notify);
    assert_string_equal(t.step, "2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_nul_and_many_keys),
        cmocka_unit_test_setup_teardown(test_rank_by_sender_or_by_name, open_socket, close_socket),
        cmocka_unit_test_setup_teardown(test_too_long, open_socket, close_socket),
        cmocka_unit_test_setup_teardown(test_coalesced, open_socket, close_socket),
        cmocka_unit_test_setup_teardown(test_drain_leaves_nothing, open_socket, close_socket),
        cmocka_unit_test_setup_teardown(test_checkpoints_are_not_mixed, open_socket, close_socket),
        cmocka_unit_test_setup_teardown(test_copies_in_memory_are_coalesced, open_socket, close_socket),
        cmocka_unit_test_setup_teardown(test_checkpoints_are_never_coalesced, open_socket, close_socket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
