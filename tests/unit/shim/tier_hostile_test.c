/* tier: packets and shims that are none, lie, or do not read, and other users; what is held stays as it was. */
#include "tests/unit/shim/tier_lab.h"

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

int main(void)
{
    (void)evthread_use_pthreads();
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {TEST(test_bad_images_are_refused),
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
