/* A process that saves is killed before each of its system calls in turn, and after any byte that it writes: what can be seen is complete, nothing that
 * was called durable is lost, and the next save works and leaves nothing behind. */
#include "common/fsutil.h"
#include "tests/unit/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/claim.h"
#include "checkpoint/shelf.h"
#include "common/mix.h"
#include "runtime/snapshot.h"

enum { SIDE = 48, RANKS = 2, OFFSETS = 200 };

/* ---- the calls ---- */

/* The program's own definitions come before libc's. 0: never. */
static int calls, die_at;
static int64_t bytes_left = -1; /* until the death; -1: none is planned */
static int64_t bytes_written;

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
}

static void come_to_call(void)
{
    if (++calls == die_at)
        die();
}

ssize_t write(int fd, const void *data, size_t len)
{
    come_to_call();
    bytes_written += (int64_t)len;
    if (bytes_left < 0 || (int64_t)len < bytes_left) {
        bytes_left -= bytes_left < 0 ? 0 : (int64_t)len;
        return syscall(SYS_write, fd, data, len);
    }
    (void)syscall(SYS_write, fd, data, (size_t)bytes_left);
    die();
    return -1;
}

/* The death of a process takes nothing along that was written; thousands of waits for a disk would only take time. */
int fsync(int fd)
{
    (void)fd;
    come_to_call();
    return 0;
}

int sync_file_range(int fd, off64_t from, off64_t bytes, unsigned flags)
{
    (void)fd, (void)from, (void)bytes, (void)flags;
    return 0;
}

int rename(const char *from, const char *to)
{
    come_to_call();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    come_to_call();
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    come_to_call();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int unlinkat(int fd, const char *path, int flags)
{
    come_to_call();
    return (int)syscall(SYS_unlinkat, fd, path, flags);
}

int close(int fd)
{
    come_to_call();
    return (int)syscall(SYS_close, fd);
}

/* ---- a run that saves ---- */

static float numbers[SIDE * SIDE];
static struct checkpoint_piece halves[RANKS] = {
    {{0, 0}, {SIDE / 2, SIDE}, numbers, SIDE}, {{SIDE / 2, 0}, {SIDE, SIDE}, numbers + SIDE *SIDE / 2, SIDE}};
static struct checkpoint_piece whole = {{0, 0}, {SIDE, SIDE}, numbers, SIDE};
static char *dir;
static _Atomic int64_t *durable; /* the newest step that a process called so, in memory that outlives it */

static struct checkpoint_array array_of(struct checkpoint_piece *piece)
{
    return (struct checkpoint_array){
        .name = "x", .shape = {SIDE, SIDE}, .dims = 2, .pieces = piece, .n_pieces = 1};
}

static float number(int64_t step, size_t i)
{
    return (float)(step * 100000) + (float)i;
}

static int write_shard(const char *folder, int rank, struct checkpoint_record *record, struct err *err)
{
    struct checkpoint_array array = array_of(&halves[rank]);
    struct snapshot *image = snapshot_new(&array, 1, false, err);
    struct manifest_file file;
    atomic_bool stop = false;
    checkpoint_shard_name(rank, file.name);
    char *path = str_printf("%s/%s", folder, file.name);
    file.bytes = snapshot_bytes(image);
    snapshot_stage(image);
    int rc = snapshot_write(image, path, &stop, file.hash, err);
    *record = checkpoint_describe(&array, 1, &file);
    snapshot_free(image);
    free(path);
    return rc;
}

static int save(struct claim *claim, int64_t step, int64_t *verified, struct err *err)
{
    const struct retention_policy policy = {.keep = 2};
    struct manifest_state at = {.step = step, .tp = 1, .pp = 1, .cp = 1, .dp = RANKS, .ep = 1};
    struct checkpoint_record records[RANKS];
    char *folder = shelf_begin(dir, step, 0, err);
    int rc = folder ? 0 : -1;
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
        numbers[i] = number(step, i);
    for (int r = 0; rc == 0 && r < RANKS; r++)
        rc = write_shard(folder, r, &records[r], err);
    if (rc == 0)
        rc = checkpoint_seal(folder, records, NULL, RANKS, &at, err);
    if (rc == 0 && claim_lock(claim, err) == CLAIM_OK) {
        rc = shelf_commit(dir, folder, step, err);
        atomic_store(durable, step);
        shelf_purge(dir, &policy, 0, verified);
        claim_unlock(claim);
    }
    for (int r = 0; rc == 0 && r < RANKS; r++)
        free(records[r].bytes);
    free(folder);
    return rc;
}

/* Takes the directory, and saves each step from the one behind the newest on to `last`. 0 when all went well. */
static int run(int64_t last, struct err *err)
{
    struct claim *claim;
    int64_t *steps, verified = 0;
    if (claim_take(dir, "", 0, &claim, err) != CLAIM_OK)
        return -1;
    shelf_sweep(dir);
    int64_t n = shelf_list(dir, &steps, err), step = n > 0 ? steps[0] : 0;
    int rc = shelf_set_aside(dir, step, err) < 0 ? -1 : 0;
    while (rc == 0 && step < last)
        rc = save(claim, ++step, &verified, err);
    claim_close(claim, rc == 0);
    free(steps);
    return rc;
}

/* run() in a process of its own, which dies as planned. Its wait status. */
static int run_and_die(int64_t last, int call, int64_t byte)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err;
        calls = 0;
        die_at = call;
        bytes_left = byte;
        int rc = run(last, &err);
        die_at = 0;
        _exit(rc == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- what is left ---- */

static void check_step(int64_t step)
{
    struct err err;
    struct manifest_state at;
    struct checkpoint_array array = array_of(&whole);
    char *path = shelf_path(dir, step);
    if (checkpoint_verify(path, 0, 1, &at, &err) != 0)
        fail_msg("what is visible must be complete: %s", err.text);
    memset(numbers, 0, sizeof numbers);
    assert_int_equal(checkpoint_load(path, &array, 1, &err), CHECKPOINT_OK);
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
        assert_true(numbers[i] == number(step, i));
    free(path);
}

/* All that can be seen is good; returns the newest. */
static int64_t check_shelf(void)
{
    struct err err;
    int64_t *steps, n = shelf_list(dir, &steps, &err), newest = n > 0 ? steps[0] : 0;
    assert_true(n >= 0);
    for (int64_t i = 0; i < n; i++)
        check_step(steps[i]);
    free(steps);
    return newest;
}

/* Nothing but two checkpoints, `latest` and the claim. */
static void check_names(int64_t newest)
{
    int seen = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)); seen++)
        if (e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            fail_msg("%s is left", e->d_name);
    closedir(d);
    assert_int_equal(seen, 2 + 2 + 3); /* . .. step-A step-B latest claim claim.lock */
    char *path = str_printf("%s/latest", dir), *line = str_printf("step-%08d\n", (int)newest),
         *text = scratch_read(path);
    assert_string_equal(text, line);
    free(text);
    free(line);
    free(path);
}

/* After a death: nothing is lost, and the next one goes on. */
static void check_goes_on(int64_t last)
{
    struct err err = {""};
    int64_t newest = check_shelf();
    if (newest < atomic_load(durable))
        fail_msg("step %d was durable, and %d is the newest", (int)atomic_load(durable), (int)newest);
    if (run(last, &err) != 0)
        fail_msg("the next run: %s", err.text);
    assert_int_equal(check_shelf(), last);
    check_names(last);
}

/* A directory with the steps 1 and 2. */
static void begin(void)
{
    struct err err;
    dir = scratch_path("shelf");
    assert_int_equal(fs_remove_tree(dir, NULL), 0);
    assert_int_equal(mkdir(dir, 0755), 0);
    if (run(2, &err) != 0)
        fail_msg("%s", err.text);
}

static bool died(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* ---- the tests ---- */

/* Step 3 makes a new checkpoint and purges one; another process then does step 4. */
static void test_killed_at_each_call(void **state)
{
    (void)state;
    int n = 0;
    bool more = true;
    while (more) {
        begin();
        int status = run_and_die(3, ++n, -1);
        more = died(status);
        if (!more)
            assert_int_equal(status, 0);
        check_goes_on(4);
        free(dir);
    }
    print_message("# %d calls\n", n - 1);
    assert_true(n > 40);
}

static void test_killed_at_random_bytes(void **state)
{
    (void)state;
    begin();
    struct err err;
    bytes_written = 0;
    assert_int_equal(run(3, &err), 0);
    int64_t all = bytes_written;
    free(dir);
    for (uint64_t i = 0; i < OFFSETS; i++) {
        begin();
        int64_t at = 1 + (int64_t)(mix64(i) % (uint64_t)all);
        if (!died(run_and_die(3, 0, at)))
            fail_msg("it outlived byte %d of %d", (int)at, (int)all);
        check_goes_on(4);
        free(dir);
    }
}

/* A file of the newest checkpoint that ends early: it is skipped with a sentence that names the file, and the one before is good. */
static void test_cut_at_random_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"rank-00000.safetensors", "rank-00001.safetensors", "manifest.json"};
    struct manifest_state at;
    struct err err;
    begin();
    char *newest = shelf_path(dir, 2);
    for (uint64_t i = 0; i < OFFSETS; i++) {
        const char *name = names[i % 3];
        char *path = str_printf("%s/%s", newest, name);
        size_t len;
        char *whole_file = fs_read(path, 1u << 20, &len, NULL);
        assert_int_equal(truncate(path, (off_t)(mix64(i) % len)), 0);
        assert_int_equal(checkpoint_verify(newest, 0, 1, &at, &err), -1);
        assert_contains(err.text, name);
        scratch_write(path, whole_file, len);
        free(whole_file);
        free(path);
    }
    check_step(1);
    check_step(2);
    free(newest);
    free(dir);
}

static int prepare(void **state)
{
    omp_set_num_threads(1); /* a child of fork cannot use its parent's threads */
    durable = mmap(NULL, sizeof *durable, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return durable == MAP_FAILED ? -1 : scratch_make(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_at_each_call),
                                       cmocka_unit_test(test_killed_at_random_bytes),
                                       cmocka_unit_test(test_cut_at_random_bytes)};
    return cmocka_run_group_tests(tests, prepare, scratch_remove);
}
