/* proctree: whoever belongs to an attempt is found and killed, by descent, by token and by cgroup; nobody else is. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/proctree.h"

static char token[64];

/* A process that ignores what can be ignored. `say` gets its pid. */
static void stay(int say)
{
    pid_t me = getpid();
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    (void)!write(say, &me, sizeof me);
    for (;;)
        pause();
}

/* exec makes the environment the one that /proc shows. */
static void exec_stay(int say, const char *node)
{
    char fd[16], node_var[64], token_var[96];
    snprintf(fd, sizeof fd, "%d", say);
    snprintf(node_var, sizeof node_var, "BELAY_NODE=%s", node);
    snprintf(token_var, sizeof token_var, "BELAY_TOKEN=%s", token);
    char *argv[] = {(char *)"proctree_test", (char *)"stay", fd, NULL};
    char *envp[] = {(char *)"A=BELAY_TOKEN=no", token_var, node_var, NULL};
    execve("/proc/self/exe", argv, envp);
    _exit(127);
}

enum how { CHILD, GRANDCHILD_SETSID };

/* Starts a stubborn process: this process's child; or a twice-forked session leader; the latter with the token in its
 * environment (exec'd) when node is given. Returns its pid once it runs. */
static pid_t start(enum how how, const char *node, const char *cgroup)
{
    int fds[2];
    pid_t pid = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    if (child == 0) {
        if (cgroup) {
            int procs = proctree_cgroup_open(cgroup);
            if (procs < 0 || proctree_cgroup_enter(procs) != 0)
                _exit(1);
            close(procs);
        }
        if (how != CHILD && fork() != 0)
            _exit(0);
        if (how != CHILD)
            setsid();
        if (how != CHILD && fork() != 0)
            _exit(0);
        if (node)
            exec_stay(fds[1], node);
        stay(fds[1]);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &pid, sizeof pid), sizeof pid);
    close(fds[0]);
    if (how != CHILD)
        waitpid(child, NULL, 0);
    return pid;
}

static bool alive(pid_t pid)
{
    char path[40], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    const char *state = n ? strrchr(text, ')') : NULL;
    return state && state[2] != 'Z';
}

/* Reaps it if it is ours; true when it is dead within two seconds. */
static bool dies(pid_t pid)
{
    for (int i = 0; i < 400 && alive(pid); i++)
        poll(NULL, 0, 5);
    (void)waitpid(pid, NULL, WNOHANG);
    return !alive(pid);
}

static bool listed(const struct proctree *t, pid_t pid)
{
    pid_t *pids;
    size_t n = proctree_list(t, &pids);
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found = found || pids[i] == pid;
    free(pids);
    return found;
}

static void kill_all(const struct proctree *t)
{
    assert_true(proctree_signal(t, SIGKILL) > 0);
}

static void test_descendants(void **state)
{
    (void)state;
    struct proctree t = {.root = getpid()};
    pid_t child = start(CHILD, NULL, NULL), grandchild = start(GRANDCHILD_SETSID, NULL, NULL);
    assert_true(listed(&t, child));
    assert_true(listed(&t, grandchild)); /* this process is a subreaper */
    assert_int_equal(proctree_signal(&t, SIGTERM), 2);
    assert_true(alive(child) && alive(grandchild));
    kill_all(&t);
    assert_true(dies(child) && dies(grandchild));
    pid_t *pids;
    assert_int_equal(proctree_list(&t, &pids), 0);
    free(pids);
}

static void test_token(void **state)
{
    (void)state;
    struct proctree t = {.token = token, .node = "node0"}, other = {.token = "other"},
                    prefix = {.token = "unit"};
    pid_t mine = start(GRANDCHILD_SETSID, "node0", NULL), elsewhere = start(GRANDCHILD_SETSID, "node1", NULL);
    assert_true(listed(&t, mine));
    assert_false(listed(&t, elsewhere));
    assert_false(listed(&other, mine));
    assert_false(listed(&prefix, mine));
    kill_all(&t);
    assert_true(dies(mine));
    assert_true(alive(elsewhere));
    t.node = NULL;
    kill_all(&t);
    assert_true(dies(elsewhere));
}

static void test_root_and_self_are_spared(void **state)
{
    (void)state;
    pid_t root = start(CHILD, "node0", NULL);
    struct proctree t = {.token = token, .root = root};
    assert_false(listed(&t, root));
    assert_int_equal(proctree_signal(&t, SIGKILL), 0);
    assert_true(alive(root));
    t.root = 0;
    kill_all(&t);
    assert_true(dies(root));
}

/* Nothing older than the shim can be of its attempt. Start times count in hundredths of a second. */
static void test_a_token_older_than_the_root_does_not_count(void **state)
{
    (void)state;
    pid_t older = start(GRANDCHILD_SETSID, "node0", NULL);
    poll(NULL, 0, 30);
    pid_t root = start(GRANDCHILD_SETSID, NULL, NULL);
    struct proctree t = {.token = token, .root = root};
    assert_false(listed(&t, older));
    t.root = 0;
    assert_true(listed(&t, older));
    kill_all(&t);
    assert_true(dies(older));
    t = (struct proctree){.root = getpid()};
    kill_all(&t);
    assert_true(dies(root));
}

static void test_cgroup(void **state)
{
    (void)state;
    struct err err = {""};
    char name[64];
    snprintf(name, sizeof name, "belay-test-%d", (int)getpid());
    char *cgroup = proctree_cgroup_make(name, &err);
    if (!cgroup) {
        print_message("no usable cgroup v2: %s\n", err.text);
        skip();
    }
    struct proctree t = {.cgroup = cgroup};
    pid_t pid = start(GRANDCHILD_SETSID, NULL, cgroup); /* no token, not looked for by descent */
    assert_true(listed(&t, pid));
    proctree_cgroup_remove(cgroup); /* fails: someone is in it */
    assert_true(listed(&t, pid));
    kill_all(&t);
    assert_true(dies(pid));
    proctree_cgroup_remove(cgroup);
    assert_int_equal(access(cgroup, F_OK), -1);
    free(cgroup);
}

/* A process that does nothing but fork and exit, so that each look sees another pid; for ten seconds at most, whatever
 * becomes of the test. */
static void hop(void)
{
    int64_t until_ms = clock_boot_ms() + 10000;
    setsid();
    signal(SIGTERM, SIG_IGN);
    while (clock_boot_ms() < until_ms)
        if (fork() != 0)
            _exit(0);
    _exit(0);
}

static size_t reap_all(void)
{
    size_t n = 0;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        n++;
    return n;
}

static void test_hopping_process_is_caught(void **state)
{
    (void)state;
    struct proctree t = {.root = getpid()};
    int64_t start_ms = clock_boot_ms();
    if (fork() == 0)
        hop();
    while (reap_all() < 3) /* it hops */
        ;
    size_t left = 1;
    while (left > 0 && clock_boot_ms() - start_ms < 5000) {
        pid_t *pids;
        left = proctree_signal(&t, SIGKILL);
        left += reap_all();
        left += proctree_list(&t, &pids);
        free(pids);
    }
    assert_int_equal(left, 0);
    poll(NULL, 0, 50);
    assert_int_equal(reap_all(), 0); /* and it hops no more */
}

/* The child leaves a process behind in its group and dies; no subreaper takes that one in. The pid of that one. */
static pid_t leave_one_in_group(void)
{
    int ends[2];
    pid_t left = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t leader = fork();
    if (leader == 0) {
        setsid();
        left = fork();
        if (left == 0) {
            poll(NULL, 0, 10000);
            _exit(0);
        }
        _exit(write(ends[1], &left, sizeof left) != (ssize_t)sizeof left);
    }
    assert_int_equal(read(ends[0], &left, sizeof left), (ssize_t)sizeof left);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)leader, &info, WEXITED | WNOWAIT), 0);
    close(ends[0]);
    close(ends[1]);
    return left;
}

static void test_a_dead_child_leads_to_its_group(void **state)
{
    (void)state;
    struct proctree t = {.root = getpid()};
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    pid_t left = leave_one_in_group();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int fd = pidfd_open(left, 0);
    assert_true(fd >= 0);
    (void)proctree_signal(&t, SIGKILL);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 5000), 1);
    close(fd);
    reap_all();
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "stay") == 0)
        stay((int)strtol(argv[2], NULL, 10));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(token, sizeof token, "unit-%d-token", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descendants),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_root_and_self_are_spared),
        cmocka_unit_test(test_a_token_older_than_the_root_does_not_count),
        cmocka_unit_test(test_a_dead_child_leads_to_its_group),
        cmocka_unit_test(test_cgroup),
        cmocka_unit_test(test_hopping_process_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
