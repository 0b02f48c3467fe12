/* overlay: parent and children in one process over loopback; strangers are turned away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/shim/overlay.h"
#include "common/clock.h"
#include "common/proof.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

struct side {
    struct overlay *overlay;
    int frames, lost;
    char last[64];
    size_t last_len;
    int64_t hop;
    bool refuse;
};

static struct event_base *base;
static struct side side[3];

static int on_frame(void *ctx, int64_t hop, const struct frame *f, struct err *err)
{
    struct side *s = ctx;
    s->frames++;
    s->hop = hop;
    s->last_len = f->len;
    snprintf(s->last, sizeof s->last, "%.*s:%.*s", (int)f->key_len, f->key, (int)(f->len < 20 ? f->len : 20),
             (const char *)f->data);
    return s->refuse ? err_set(err, "refused") : 0;
}

static void on_lost(void *ctx, int64_t hop, const char *why)
{
    struct side *s = ctx;
    (void)hop;
    assert_non_null(why);
    s->lost++;
}

static const struct overlay_events EVENTS = {.frame = on_frame, .lost = on_lost};

static struct overlay *open_node(int64_t n, const char *token)
{
    struct err err = {""};
    struct overlay_id id = {.job = 7, .attempt = 1, .node_rank = n, .nodes = 3, .token = token};
    side[n] = (struct side){0};
    side[n].overlay = overlay_listen(base, true, &id, &EVENTS, &side[n], &err);
    assert_non_null(side[n].overlay);
    return side[n].overlay;
}

static int begin(void **state)
{
    (void)state;
    base = event_base_new();
    for (int64_t n = 0; n < 3; n++)
        open_node(n, TOKEN);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 3; n++)
        overlay_free(side[n].overlay);
    event_base_free(base);
    return 0;
}

/* Runs the loop until *count is at least n; fails after five seconds. */
static void wait_for(const int *count, int n)
{
    int64_t until_ms = clock_boot_ms() + 5000;
    struct timeval tick = {.tv_usec = 10000};
    while (*count < n && clock_boot_ms() < until_ms) {
        event_base_loopexit(base, &tick);
        event_base_dispatch(base);
    }
    assert_true(*count >= n);
}

static void turn_some(void)
{
    struct timeval tick = {.tv_usec = 30000};
    event_base_loopexit(base, &tick);
    event_base_dispatch(base);
}

static void send_text(int64_t from, int64_t to, const char *key, const char *text)
{
    struct frame f = {.type = FRAME_FENCE_UP,
                      .source = (uint32_t)from,
                      .target = (uint32_t)to,
                      .key = key,
                      .key_len = strlen(key),
                      .data = text,
                      .len = strlen(text)};
    overlay_send(side[from].overlay, to, &f);
}

static void join(int64_t n)
{
    overlay_start(side[n].overlay);
    overlay_connect(side[n].overlay, "127.0.0.1", overlay_port(side[0].overlay));
}

static void test_frames_both_ways(void **state)
{
    (void)state;
    overlay_start(side[0].overlay);
    send_text(0, 1, "down", "early"); /* waits for the child */
    send_text(1, 0, "up", "early");   /* waits for the link */
    join(1);
    join(2);
    wait_for(&side[0].frames, 1);
    wait_for(&side[1].frames, 1);
    assert_string_equal(side[0].last, "up:early");
    assert_int_equal(side[0].hop, 1);
    assert_string_equal(side[1].last, "down:early");
    send_text(2, 0, "k", "from two");
    wait_for(&side[0].frames, 2);
    assert_int_equal(side[0].hop, 2);
    assert_int_equal(side[0].lost + side[1].lost + side[2].lost, 0);
}

static void test_nothing_is_delivered_before_start(void **state)
{
    (void)state;
    send_text(1, 0, "up", "x");
    join(1);
    turn_some();
    assert_int_equal(side[0].frames, 0);
    overlay_start(side[0].overlay);
    wait_for(&side[0].frames, 1);
}

static void test_large_frame(void **state)
{
    (void)state;
    size_t len = 20u << 20;
    char *big = malloc(len);
    memset(big, 'z', len);
    struct frame f = {
        .type = FRAME_FENCE_UP, .source = 1, .target = 0, .key = "*", .key_len = 1, .data = big, .len = len};
    overlay_start(side[0].overlay);
    join(1);
    overlay_send(side[1].overlay, 0, &f);
    wait_for(&side[0].frames, 1);
    assert_int_equal(side[0].last_len, len);
    free(big);
}

static void test_lost_links_are_told(void **state)
{
    (void)state;
    overlay_start(side[0].overlay);
    join(1);
    send_text(1, 0, "up", "x");
    wait_for(&side[0].frames, 1);
    overlay_free(side[1].overlay);
    side[1].overlay = NULL;
    wait_for(&side[0].lost, 1);
    send_text(0, 1, "down", "into the void");
    turn_some();
    assert_int_equal(side[0].lost, 1);
}

static void test_a_frame_that_makes_no_sense_closes_the_link(void **state)
{
    (void)state;
    overlay_start(side[0].overlay);
    side[0].refuse = true;
    join(1);
    send_text(1, 0, "up", "x");
    wait_for(&side[0].lost, 1);
    wait_for(&side[1].lost, 1);
}

static void test_another_token_does_not_get_in(void **state)
{
    (void)state;
    overlay_free(side[1].overlay);
    open_node(1, "ffffffffffffffffffffffffffffffff");
    overlay_start(side[0].overlay);
    join(1);
    send_text(1, 0, "up", "x");
    wait_for(&side[1].lost, 1);
    assert_int_equal(side[0].frames, 0);
}

/* Writes text to the tree port; true when the other side closes without a frame having got through. */
static bool turned_away(const char *text, size_t len)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)overlay_port(side[0].overlay)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
    ssize_t n = -1;
    char c;
    for (int i = 0; i < 200 && n != 0; i++) {
        turn_some();
        n = recv(fd, &c, 1, MSG_DONTWAIT);
        if (n < 0 && errno == ECONNRESET)
            n = 0;
    }
    close(fd);
    return n == 0 && side[0].frames == 0;
}

static void test_strangers_are_turned_away(void **state)
{
    (void)state;
    char proof[PROOF_SIZE], own[256], grandchild[256], huge[2000];
    overlay_start(side[0].overlay);
    proof_make(TOKEN, "shim|7|1|0", proof);
    snprintf(own, sizeof own, "{\"t\":\"join\",\"node_rank\":0,\"proof\":\"%s\"}\n", proof);
    proof_make(TOKEN, "shim|7|1|33", proof);
    snprintf(grandchild, sizeof grandchild, "{\"t\":\"join\",\"node_rank\":33,\"proof\":\"%s\"}\n", proof);
    memset(huge, ' ', sizeof huge);
    assert_true(turned_away("GET / HTTP/1.0\n", 15));
    assert_true(turned_away("[]\n", 3));
    assert_true(turned_away("{\"t\":\"join\",\"node_rank\":1,\"proof\":\"00\"}\n", 40));
    assert_true(turned_away(own, strlen(own)));
    assert_true(turned_away(grandchild, strlen(grandchild)));
    assert_true(turned_away(huge, sizeof huge));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frames_both_ways, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_delivered_before_start, begin, end),
        cmocka_unit_test_setup_teardown(test_large_frame, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_links_are_told, begin, end),
        cmocka_unit_test_setup_teardown(test_a_frame_that_makes_no_sense_closes_the_link, begin, end),
        cmocka_unit_test_setup_teardown(test_another_token_does_not_get_in, begin, end),
        cmocka_unit_test_setup_teardown(test_strangers_are_turned_away, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
