/* tier: three shims of one attempt in one loop, ranks as clients in this thread; well-meant and hostile packets, buddies, fetches, and the shim of
 * the next attempt. */
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

static int on_frame(void *ctx, int64_t hop, const struct frame *f, struct err *err)
{
    (void)ctx;
    (void)hop;
    (void)f;
    return err_set(err, "no frames here");
}

static void on_lost(void *ctx, int64_t hop, const char *why)
{
    (void)ctx;
    (void)hop;
    (void)why;
}

static void on_memory(void *ctx, int fd, const json_t *line)
{
    const struct node *n = ctx;
    tier_visitor(n->tier, fd, line);
}

static const struct overlay_events EVENTS = {.frame = on_frame, .lost = on_lost, .memory = on_memory};

static struct link_order order_of(int64_t i, int64_t attempt)
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

static void open_node(int64_t i, int64_t attempt)
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

static void close_node(int64_t i)
{
    overlay_free(node[i].overlay);
    tier_free(node[i].tier);
    free(node[i].folder);
    free(node[i].socket);
    node[i] = (struct node){0};
}

static void on_close(evutil_socket_t fd, short what, void *arg)
{
    char byte;
    (void)what;
    (void)arg;
    assert_int_equal(read(fd, &byte, 1), 1);
    event_base_loopbreak(base);
}

static void *run(void *arg)
{
    (void)arg;
    struct event *end = event_new(base, closing[0], EV_READ, on_close, NULL);
    event_add(end, NULL);
    event_base_dispatch(base);
    event_free(end);
    return NULL;
}

static void stop_loop(void)
{
    assert_int_equal(write(closing[1], "x", 1), 1);
    pthread_join(loop, NULL);
}

static void start_loop(void)
{
    assert_int_equal(pthread_create(&loop, NULL, run, NULL), 0);
}

/* Three nodes, the first two in one rack: the buddies are 0 -> 2, 1 -> 0, 2 -> 1. */
static int begin(void **state)
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

static int end(void **state)
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

static struct memory_tier *rank_on(int64_t i)
{
    struct err err = {""};
    struct memory_tier *m = memory_open(node[i].socket, &err);
    assert_non_null(m);
    return m;
}

/* An image of `bytes` bytes that say its step. */
static int make(const char *name, int64_t step, int64_t bytes, struct memimage *image)
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

static struct memory_held next_word(struct memory_tier *m)
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

static struct memimage hold(struct memory_tier *m, const char *name, int64_t step, int64_t bytes, bool buddy)
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
static size_t held_on(int64_t i, struct memimage *out, size_t max)
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

static bool holds(int64_t i, const struct memimage *image)
{
    struct memimage list[64];
    size_t n = held_on(i, list, 64);
    for (size_t k = 0; k < n; k++)
        if (memimage_same(&list[k], image))
            return true;
    return false;
}

static void check_bytes(int fd, const struct memimage *image)
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

/* ---- tests ---- */

static void test_held_here_and_at_the_buddy(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(0);
    struct memimage big = hold(m, "rank-00003.safetensors", 120, 9 << 20, true);
    struct memimage small = hold(m, "manifest.json", 120, 1, true);
    assert_true(holds(0, &big) && holds(0, &small));
    assert_true(holds(2, &big) && holds(2, &small));
    assert_int_equal(held_on(1, NULL, 0), 0);
    memory_close(m); /* the rank's end changes nothing */
    m = rank_on(0);
    struct err err = {""};
    check_bytes(memory_image(m, &big, MEMORY_HERE, WAIT_MS, &err), &big);
    check_bytes(memory_image(m, &big, 0, WAIT_MS, &err), &big);
    memory_close(m);
}

static void test_what_another_node_holds_is_fetched(void **state)
{
    (void)state;
    struct err err = {""};
    struct memory_tier *m = rank_on(0), *other = rank_on(1);
    struct memimage image = hold(m, "rank-00000.safetensors", 50, 3 << 20, true), no = image;
    check_bytes(memory_image(other, &image, 2, WAIT_MS, &err), &image);
    assert_true(holds(1, &image));
    no.step = 51;
    assert_int_equal(memory_image(other, &no, MEMORY_HERE, WAIT_MS, &err), -1);
    assert_non_null(strstr(err.text, "rank-00000.safetensors of step 51 is not held on this node"));
    assert_int_equal(memory_image(other, &no, 9, WAIT_MS, &err), -1);
    assert_non_null(strstr(err.text, "a node of this attempt"));
    memory_close(m);
    memory_close(other);
}

/* The rank writes into its memory file although nothing newer is held: the copy of the buddy is the true one. */
static void test_a_spoilt_image_is_fetched_from_the_buddy(void **state)
{
    (void)state;
    struct err err = {""};
    struct memimage image;
    struct memory_tier *m = rank_on(0);
    int fd = make("rank-00000.safetensors", 50, 4096, &image);
    assert_int_equal(memory_hold(m, &image, fd, &err), 0);
    assert_true(next_word(m).buddy);
    assert_int_equal(pwrite(fd, "spoilt", 6, 0), 6);
    int here = memory_image(m, &image, MEMORY_HERE, WAIT_MS, &err);
    char text[7] = "";
    assert_int_equal(pread(here, text, 6, 0), 6);
    assert_string_equal(text, "spoilt");
    close(here);
    close(fd);
    check_bytes(memory_image(m, &image, 2, WAIT_MS, &err), &image);
    memory_close(m);
}

static void test_a_wrong_hash_does_not_reach_the_buddy(void **state)
{
    (void)state;
    struct err err = {""};
    struct memimage image;
    struct memory_tier *m = rank_on(0);
    int fd = make("a", 1, 4096, &image);
    image.hash[0] = image.hash[0] == 'a' ? 'b' : 'a';
    assert_int_equal(memory_hold(m, &image, fd, &err), 0);
    assert_false(next_word(m).buddy);
    assert_true(holds(0, &image));
    assert_false(holds(2, &image));
    close(fd);
    hold(m, "a", 2, 4096, true); /* a newer one takes its place, and goes through */
    memory_close(m);
}

static void test_a_buddy_that_is_away(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(0);
    stop_loop();
    close_node(2);
    start_loop();
    struct memimage first = hold(m, "a", 1, 4096, false), second = hold(m, "a", 2, 4096, false);
    assert_true(holds(0, &first) && holds(0, &second));
    memory_close(m);
}

static void test_alone_there_is_no_buddy(void **state)
{
    (void)state;
    stop_loop();
    close_node(1);
    open_node(1, 1); /* no map: it has not gone yet, so it knows nobody */
    start_loop();
    struct memory_tier *m = rank_on(1);
    hold(m, "a", 1, 16, false);
    memory_close(m);
}

static void test_the_next_attempt_takes_over(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(0);
    struct memimage old = hold(m, "a", 10, 4096, true), new = hold(m, "a", 20, 8192, true);
    memory_close(m);
    struct node before = node[0];
    stop_loop();
    tier_end_ranks(before.tier);
    open_node(0, 2);
    start_loop();
    tier_take_over(
        node[0].tier,
        node[0].folder); /* from another thread than the loop: the old shim is another process, too */
    assert_int_equal(access(before.socket, F_OK), -1);
    m = rank_on(0);
    struct err err = {""};
    check_bytes(memory_image(m, &old, MEMORY_HERE, WAIT_MS, &err), &old);
    check_bytes(memory_image(m, &new, MEMORY_HERE, WAIT_MS, &err), &new);
    struct memimage list[4];
    assert_int_equal(held_on(0, list, 4), 2);
    assert_int_equal(list[0].attempt, 1);
    memory_close(m);
    stop_loop();
    overlay_free(before.overlay);
    tier_free(before.tier);
    free(before.folder);
    free(before.socket);
    start_loop();
    assert_int_equal(held_on(0, NULL, 0), 2); /* what was taken over does not need the old shim */
}

static void test_a_rank_that_vanishes_in_the_middle(void **state)
{
    (void)state;
    struct err err = {""};
    struct memimage image;
    struct memory_tier *m = rank_on(0);
    int fd = make("a", 1, 32 << 20, &image);
    assert_int_equal(memory_hold(m, &image, fd, &err), 0);
    close(fd);
    memory_close(m);
    for (int64_t until = clock_boot_ms() + WAIT_MS; !holds(2, &image) && clock_boot_ms() < until;)
        (void)poll(NULL, 0, 1);
    assert_true(holds(0, &image) && holds(2, &image));
}

static void test_many_are_listed_in_pages(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(1);
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof name, "f-%d", i);
        hold(m, name, 1, 8, true);
    }
    assert_int_equal(held_on(1, NULL, 0), 150);
    assert_int_equal(held_on(0, NULL, 0), 150);
    memory_close(m);
}

/* ---- hostile packets ---- */

static int raw(void)
{
    int fd = unixsock_connect_packets(node[0].socket, NULL);
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

#define GOOD                                                                                                 \
    "\"t\":\"hold\",\"name\":\"a\",\"step\":1,\"rank\":0,\"hash\":\"0123456789abcdef0123456789abcdef\""

static void send_raw(int fd, const char *text, size_t len, const int *fds, size_t n)
{
    union {
        char space[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *)text, .iov_len = len};
    struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n > 0) {
        head.msg_control = control.space;
        head.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&head);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &head, MSG_NOSIGNAL), len);
}

static void expect_closed(int fd)
{
    char text[64];
    assert_int_equal(recv(fd, text, sizeof text, 0), 0);
    close(fd);
}

/* The shim refuses the image with words that contain `why`, and goes on. */
static void expect_refused(const char *fields, int passed, const char *why)
{
    int fd = raw(), n_passed = passed >= 0, rest;
    json_t *msg;
    char *text = str_printf("{" GOOD ",%s}", fields);
    send_raw(fd, text, strlen(text), &passed, (size_t)n_passed);
    assert_int_equal(packet_receive(fd, 0, &msg, &rest, NULL), 1);
    const char *error = json_string_value(json_object_get(msg, "error"));
    if (!error || !strstr(error, why))
        fail_msg("%s: \"%s\" does not say \"%s\"", fields, error ? error : "held", why);
    json_decref(msg);
    free(text);
    close(fd);
    assert_int_equal(held_on(0, NULL, 0), 0);
}

static void test_bad_images_are_refused(void **state)
{
    (void)state;
    int memfd = memimage_new("x", 8, NULL), open_size = memfd_create("x", MFD_CLOEXEC), pipes[2];
    char *path = str_printf("%s/file", dir);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), shm = open("/dev/shm", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(ftruncate(file, 8), 0);
    assert_int_equal(ftruncate(open_size, 8), 0);
    expect_refused("\"bytes\":8", -1, "without a descriptor");
    expect_refused("\"bytes\":9", memfd, "has 8 bytes, not 9");
    expect_refused("\"bytes\":7", memfd, "has 8 bytes, not 7");
    expect_refused("\"bytes\":8", open_size, "sealed size");
    expect_refused("\"bytes\":8", file, "no memory file");
    expect_refused("\"bytes\":8", shm, "no memory file");
    expect_refused("\"bytes\":8", pipes[0], "no memory file");
    expect_refused("\"bytes\":\"8\"", memfd, "\"bytes\" must be a whole number");
    expect_refused("\"bytes\":0", memfd, "\"bytes\" is 0");
    expect_refused("\"bytes\":-8", memfd, "\"bytes\" is -8");
    expect_refused("\"bytes\":99999999999999999", memfd, "\"bytes\" is");
    close(memfd), close(open_size), close(file), close(shm), close(pipes[0]), close(pipes[1]);
    free(path);
}

static void test_packets_that_are_none_close_the_connection(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "{", "[]", "7", "null", "{}x", "{\"t\":\"hold\",\"t\":\"list\"}", "\xff\xfe"};
    int two[2] = {memimage_new("x", 8, NULL), memimage_new("x", 8, NULL)};
    for (size_t i = 1; i < sizeof texts / sizeof *texts; i++) {
        int fd = raw();
        send_raw(fd, texts[i], strlen(texts[i]), two, i % 2);
        expect_closed(fd);
    }
    int fd = raw();
    send_raw(fd, "{" GOOD ",\"bytes\":8}", strlen("{" GOOD ",\"bytes\":8}"), two, 2);
    expect_closed(fd);
    char *large = mem_zero(PACKET_MAX + 1, 1);
    memset(large, ' ', PACKET_MAX + 1);
    memcpy(large, "{}", 2);
    fd = raw();
    send_raw(fd, large, PACKET_MAX + 1, two, 1);
    expect_closed(fd);
    free(large);
    close(two[0]);
    close(two[1]);
    assert_int_equal(held_on(0, NULL, 0), 0);
}

static void test_names_that_are_none(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",        ".",       "..",
        ".x",      "a/b",     "a b",
        "\\u0000", "\\u00e4", "0123456789012345678901234567890123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int fd = raw(), rest;
        json_t *msg;
        char *text = str_printf("{\"t\":\"hold\",\"name\":\"%s\",\"step\":1,\"rank\":0,\"bytes\":8,\"hash\":"
                                "\"0123456789abcdef0123456789abcdef\"}",
                                names[i]);
        send_raw(fd, text, strlen(text), NULL, 0);
        int rc = packet_receive(fd, 0, &msg, &rest, NULL);
        if (rc == 1)
            assert_non_null(json_object_get(msg, "error"));
        json_decref(msg);
        free(text);
        close(fd);
    }
    assert_int_equal(held_on(0, NULL, 0), 0);
}

static void test_questions_of_wrong_types_are_answered(void **state)
{
    (void)state;
    static const char *const asks[] = {"{\"t\":\"open\"}", "{\"t\":\"open\",\"id\":\"x\",\"name\":7}",
                                       "{\"t\":\"open\",\"id\":1,\"node\":-5,"
                                       "\"name\":\"a\",\"step\":1,\"rank\":0,\"bytes\":8,"
                                       "\"hash\":\"0123456789abcdef0123456789abcdef\"}"};
    int fd = raw(), rest;
    send_raw(fd, "{\"t\":\"new\"}", 11, NULL, 0); /* of a newer version: ignored */
    send_raw(fd, "{\"t\":7}", 7, NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        json_t *msg;
        send_raw(fd, asks[i], strlen(asks[i]), NULL, 0);
        assert_int_equal(packet_receive(fd, 0, &msg, &rest, NULL), 1);
        assert_non_null(json_object_get(msg, "error"));
        assert_int_equal(rest, -1);
        json_decref(msg);
    }
    close(fd);
}

/* A rank that asks without end and never reads is dropped, and the others are served. */
static void test_a_rank_that_does_not_read(void **state)
{
    (void)state;
    struct memory_tier *m = rank_on(0);
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "f-%d", i);
        hold(m, name, 1, 8, true);
    }
    int fd = raw();
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    ssize_t n = 1;
    for (int i = 0; i < 100000 && n > 0; i++)
        n = send(fd, "{\"t\":\"list\"}", 12, MSG_NOSIGNAL);
    assert_int_equal(n, -1);
    close(fd);
    assert_int_equal(held_on(0, NULL, 0), 100);
    memory_close(m);
}

static void test_too_many_connections(void **state)
{
    (void)state;
    int fds[40];
    for (size_t i = 0; i < 40; i++)
        fds[i] = raw();
    expect_closed(fds[39]);
    for (size_t i = 0; i < 39; i++)
        close(fds[i]);
    struct memory_tier *m = NULL;
    struct memimage *list;
    size_t n;
    int rc = -1;
    for (int64_t until = clock_boot_ms() + WAIT_MS;
         rc != 0 && clock_boot_ms() < until;) { /* until it has seen them leave */
        m = rank_on(0);
        rc = memory_list(m, WAIT_MS, &list, &n, NULL);
        memory_close(m);
    }
    assert_int_equal(rc, 0);
    free(list);
}

/* What a process of that user gets as an answer: 1 a list, 0 none. */
static int asks_as(uid_t uid, const char *socket)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct memimage *list;
        size_t n;
        if (setuid(uid) != 0)
            _exit(9);
        struct memory_tier *m = memory_open(socket, NULL);
        _exit(m && memory_list(m, WAIT_MS, &list, &n, NULL) == 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The folder keeps others away in earnest; here it is opened, so that only the socket does. */
static void test_other_users_are_turned_away(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can be others */
    stop_loop();
    close_node(1);
    job_uid = 65533;
    open_node(1, 1);
    char *open_up = str_printf("chmod -R a+rX '%s'", dir);
    assert_int_equal(system(open_up), 0);
    free(open_up);
    start_loop();
    assert_int_equal(asks_as(65533, node[1].socket), 1);
    assert_int_equal(asks_as(0, node[1].socket), 1);
    assert_int_equal(asks_as(65532, node[1].socket), 0);
}

/* ---- hostile shims ---- */

static int tcp_to(int64_t i)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)map[i].port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

/* Says that it is node 1 and what it wants; the answer as far as it came, "" when the connection was closed. */
static int ask_tcp(const char *token, const char *rest, const char *behind, char *out, size_t size)
{
    char text[TRANSFER_PROOF_TEXT], proof[PROOF_SIZE];
    int fd = tcp_to(0);
    transfer_proof_text(7, 1, 1, text);
    proof_make(token, text, proof);
    char *line =
        str_printf("{\"t\":\"memory\",\"node_rank\":1,\"proof\":\"%s\",%s}\n%s", proof, rest, behind);
    assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
    free(line);
    ssize_t n = recv(fd, out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    return fd;
}

#define IMAGE                                                                                                \
    "\"name\":\"a\",\"step\":1,\"rank\":0,\"attempt\":9,\"bytes\":8,\"hash\":"                               \
    "\"0123456789abcdef0123456789abcdef\""

static void test_shims_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *token, *rest, *behind, *answer;
    } rows[] = {
        {"fedcba9876543210fedcba9876543210", "\"ask\":\"hold\"," IMAGE, "", ""},
        {TOKEN, "\"ask\":\"hold\"," IMAGE, "12345678", ""}, /* it does not wait to be let in */
        {TOKEN, "\"ask\":\"sing\"," IMAGE, "", "does not know what is asked for"},
        {TOKEN, "\"ask\":\"hold\"", "", "must be a whole number"},
        {TOKEN, "\"ask\":\"open\"," IMAGE, "", "does not hold this image"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char answer[512];
        int fd = ask_tcp(rows[i].token, rows[i].rest, rows[i].behind, answer, sizeof answer);
        if (rows[i].answer[0] ? !strstr(answer, rows[i].answer) : answer[0] != '\0')
            fail_msg("row %zu: \"%s\"", i, answer);
        close(fd);
    }
    assert_int_equal(held_on(0, NULL, 0), 0);
}

static void test_a_transfer_that_breaks_off_or_lies(void **state)
{
    (void)state;
    char answer[512];
    int fd = ask_tcp(TOKEN, "\"ask\":\"hold\"," IMAGE, "", answer, sizeof answer);
    assert_string_equal(answer, "{\"t\":\"go\"}\n");
    assert_int_equal(send(fd, "1234", 4, MSG_NOSIGNAL), 4);
    close(fd);
    fd = ask_tcp(TOKEN, "\"ask\":\"hold\"," IMAGE, "", answer, sizeof answer);
    assert_int_equal(send(fd, "12345678", 8, MSG_NOSIGNAL), 8);
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    answer[n > 0 ? n : 0] = '\0';
    assert_non_null(strstr(answer, "their hash is another"));
    close(fd);
    assert_int_equal(held_on(0, NULL, 0), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
int main(void)
{
    (void)evthread_use_pthreads();
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {TEST(test_held_here_and_at_the_buddy),
                                       TEST(test_what_another_node_holds_is_fetched),
                                       TEST(test_a_spoilt_image_is_fetched_from_the_buddy),
                                       TEST(test_a_wrong_hash_does_not_reach_the_buddy),
                                       TEST(test_a_buddy_that_is_away),
                                       TEST(test_alone_there_is_no_buddy),
                                       TEST(test_the_next_attempt_takes_over),
                                       TEST(test_a_rank_that_vanishes_in_the_middle),
                                       TEST(test_many_are_listed_in_pages),
                                       TEST(test_bad_images_are_refused),
                                       TEST(test_packets_that_are_none_close_the_connection),
                                       TEST(test_names_that_are_none),
                                       TEST(test_questions_of_wrong_types_are_answered),
                                       TEST(test_a_rank_that_does_not_read),
                                       TEST(test_too_many_connections),
                                       TEST(test_other_users_are_turned_away),
                                       TEST(test_shims_that_are_none),
                                       TEST(test_a_transfer_that_breaks_off_or_lies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
