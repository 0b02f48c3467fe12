/* tier_lab: three shims of one attempt in one loop, and ranks as clients in the test's thread. */
#ifndef BELAY_TESTS_UNIT_SHIM_TIER_LAB_H
#define BELAY_TESTS_UNIT_SHIM_TIER_LAB_H

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
#include <event2/event.h>
#include <event2/thread.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shim/overlay.h"
#include "agent/shim/tier.h"
#include "agent/shim/transfer.h"
#include "checkpoint/digest.h"
#include "common/clock.h"
#include "common/memory.h"
#include "common/packet.h"
#include "common/proof.h"
#include "common/unixsock.h"
#include "tests/unit/fresh_dir.h"

#define NODES   3
#define TOKEN   "0123456789abcdef0123456789abcdef"
#define WAIT_MS 20000

struct node {
    struct overlay *overlay;
    struct tier *tier;
    char *folder, *socket;
};

static struct event_base *base;
static struct node node[NODES];
static struct link_map_node map[NODES];
static struct link_rank_slot rank_slots[2] = {{0, 0}, {1, 1}};
static pthread_t loop;
static uid_t job_uid;  /* of ranks */
static int closing[2]; /* a byte on this pipe ends the loop */

static inline int on_frame(void *ctx, int64_t hop, const struct frame *f, struct err *err)
{
    (void)ctx;
    (void)hop;
    (void)f;
    return err_set(err, "no frames here");
}

static inline void on_lost(void *ctx, int64_t hop, const char *why)
{
    (void)ctx;
    (void)hop;
    (void)why;
}

static inline void on_memory(void *ctx, int fd, const json_t *line)
{
    const struct node *n = ctx;
    tier_visitor(n->tier, fd, line);
}

static const struct overlay_events EVENTS = {.frame = on_frame, .lost = on_lost, .memory = on_memory};

static inline struct link_order order_of(int64_t i, int64_t attempt)
{
    return (struct link_order){.job = 7,
                               .attempt = attempt,
                               .node_rank = i,
                               .nodes = NODES,
                               .token = (char *)TOKEN,
                               .memory_tier = true,
                               .buddy = true,
                               .ranks = rank_slots,
                               .n_ranks = 2,
                               .map = map,
                               .n_map = NODES};
}

static inline void open_node(int64_t i, int64_t attempt)
{
    struct err err = {""};
    struct node *n = &node[i];
    struct link_order order = order_of(i, attempt);
    n->folder = str_printf("%s/n%lld/attempts/7.%lld", dir, (long long)i, (long long)attempt);
    n->socket = str_printf("%s/ranks", n->folder);
    assert_int_equal(fs_mkdirs(n->folder, 0700, &err), 0);
    struct overlay_id id = {.job = 7, .attempt = attempt, .node_rank = i, .nodes = NODES, .token = TOKEN};
    n->overlay = overlay_listen(base, true, &id, &EVENTS, n, &err);
    n->tier = tier_open(base, &order, job_uid, n->socket, n->folder, &err);
    assert_non_null(n->overlay);
    assert_non_null(n->tier);
}

static inline void close_node(int64_t i)
{
    overlay_free(node[i].overlay);
    tier_free(node[i].tier);
    free(node[i].folder);
    free(node[i].socket);
    node[i] = (struct node){0};
}

static inline void on_close(evutil_socket_t fd, short what, void *arg)
{
    char byte;
    (void)what;
    (void)arg;
    assert_int_equal(read(fd, &byte, 1), 1);
    event_base_loopbreak(base);
}

static inline void *run(void *arg)
{
    (void)arg;
    struct event *end = event_new(base, closing[0], EV_READ, on_close, NULL);
    event_add(end, NULL);
    event_base_dispatch(base);
    event_free(end);
    return NULL;
}

static inline void stop_loop(void)
{
    assert_int_equal(write(closing[1], "x", 1), 1);
    pthread_join(loop, NULL);
}

static inline void start_loop(void)
{
    assert_int_equal(pthread_create(&loop, NULL, run, NULL), 0);
}

/* Three nodes, the first two in one rack: the buddies are 0 -> 2, 1 -> 0, 2 -> 1. */
static inline int begin(void **state)
{
    static char racks[NODES][3] = {"r0", "r0", "r1"}, names[NODES][6] = {"node0", "node1", "node2"};
    make_dir(state);
    job_uid = geteuid();
    assert_int_equal(pipe2(closing, O_CLOEXEC), 0);
    base = event_base_new();
    for (int64_t i = 0; i < NODES; i++) {
        open_node(i, 1);
        map[i] = (struct link_map_node){.node = names[i],
                                        .addr = (char *)"127.0.0.1",
                                        .domain = racks[i],
                                        .port = overlay_port(node[i].overlay)};
    }
    for (int64_t i = 0; i < NODES; i++) {
        struct link_order order = order_of(i, 1);
        tier_go(node[i].tier, &order);
    }
    start_loop();
    return 0;
}

static inline int end(void **state)
{
    stop_loop();
    for (int64_t i = 0; i < NODES; i++)
        if (node[i].tier)
            close_node(i);
    event_base_free(base);
    close(closing[0]);
    close(closing[1]);
    return drop_dir(state);
}

/* ---- a rank ---- */

static inline struct memory_tier *rank_on(int64_t i)
{
    struct err err = {""};
    struct memory_tier *m = memory_open(node[i].socket, &err);
    assert_non_null(m);
    return m;
}

/* An image of `bytes` bytes that say its step. */
static inline int make(const char *name, int64_t step, int64_t bytes, struct memimage *image)
{
    *image = (struct memimage){.step = step, .rank = 3, .bytes = bytes};
    snprintf(image->name, sizeof image->name, "%s", name);
    int fd = memimage_new(name, bytes, NULL);
    assert_true(fd >= 0);
    char *text = mem_zero((size_t)bytes, 1);
    for (int64_t i = 0; i < bytes; i++)
        text[i] = (char)(i * 7 + step);
    assert_int_equal(pwrite(fd, text, (size_t)bytes, 0), bytes);
    digest_bytes(text, (size_t)bytes, image->hash);
    free(text);
    return fd;
}

static inline struct memory_held next_word(struct memory_tier *m)
{
    struct memory_held word = {0};
    struct err err = {""};
    int n = 0;
    for (int64_t until = clock_boot_ms() + WAIT_MS; n == 0 && clock_boot_ms() < until;) {
        n = memory_poll(m, &word, 1, &err);
        if (n == 0)
            (void)poll(NULL, 0, 1);
    }
    if (n != 1)
        fail_msg("no word came: %s", err.text);
    return word;
}

static inline struct memimage hold(struct memory_tier *m, const char *name, int64_t step, int64_t bytes,
                                   bool buddy)
{
    struct memimage image;
    struct err err = {""};
    int fd = make(name, step, bytes, &image);
    assert_int_equal(memory_hold(m, &image, fd, &err), 0);
    struct memory_held word = next_word(m);
    assert_string_equal(word.error, "");
    assert_int_equal(word.step, step);
    assert_string_equal(word.name, name);
    assert_int_equal(word.buddy, buddy);
    close(fd);
    return image;
}

/* "a/10 b/20": what a node holds, in the order of the list. */
static inline size_t held_on(int64_t i, struct memimage *out, size_t max)
{
    struct memory_tier *m = rank_on(i);
    struct memimage *list;
    struct err err = {""};
    size_t n;
    assert_int_equal(memory_list(m, WAIT_MS, &list, &n, &err), 0);
    for (size_t k = 0; k < n && k < max; k++)
        out[k] = list[k];
    free(list);
    memory_close(m);
    return n;
}

static inline bool holds(int64_t i, const struct memimage *image)
{
    struct memimage list[64];
    size_t n = held_on(i, list, 64);
    for (size_t k = 0; k < n; k++)
        if (memimage_same(&list[k], image))
            return true;
    return false;
}

static inline void check_bytes(int fd, const struct memimage *image)
{
    char hash[DIGEST_SIZE];
    assert_true(fd >= 0);
    void *at = mmap(NULL, (size_t)image->bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    digest_bytes(at, (size_t)image->bytes, hash);
    assert_string_equal(hash, image->hash);
    munmap(at, (size_t)image->bytes);
    close(fd);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

#endif
