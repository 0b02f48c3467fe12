/* shelf: see shelf.h. The names on disk are the truth; `latest` is for people and scripts. */
#include "checkpoint/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"

#define UNDER_WAY ".step-"

char *shelf_path(const char *directory, int64_t step)
{
    return str_printf("%s/step-%08" PRId64, directory, step);
}

/* The step of "step-00000100", or -1. */
static int64_t parse_name(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    errno = 0;
    long long step = strtoll(name + 5, &end, 10);
    char again[40];
    (void)snprintf(again, sizeof again, "step-%08lld", step); /* always fits */
    return errno == 0 && !*end && strcmp(again, name) == 0 ? step : -1;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

int64_t shelf_list(const char *directory, int64_t **steps, struct err *err)
{
    DIR *dir = opendir(directory);
    *steps = NULL;
    if (!dir)
        return err_sys(err, "cannot read checkpoint.directory %s", directory);
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(dir));) {
        int64_t step = parse_name(e->d_name);
        if (step < 0)
            continue;
        *steps = mem_grow(*steps, n + 1, sizeof **steps);
        (*steps)[n++] = step;
    }
    closedir(dir);
    if (n > 0)
        qsort(*steps, n, sizeof **steps, newest_first);
    return (int64_t)n;
}

char *shelf_begin(const char *directory, int64_t step, int64_t attempt, struct err *err)
{
    char *folder = str_printf("%s/" UNDER_WAY "%08" PRId64 ".%" PRId64 ".%d.tmp", directory, step, attempt,
                              (int)getpid());
    if (fs_remove_tree(folder, err) == 0) {
        if (mkdir(folder, 0755) == 0)
            return folder;
        err_sys(err, "cannot make %s", folder);
    }
    free(folder);
    return NULL;
}

/* For file systems that cannot exchange two names at once. */
static int replace_in_two(const char *folder, const char *path)
{
    char *old = str_printf("%s.old", folder);
    int rc = rename(path, old) == 0 && rename(folder, path) == 0 ? 0 : -1;
    if (rc == 0)
        rc = rename(old, folder);
    free(old);
    return rc;
}

/* Gives `folder` the name `path`; what had that name is then under the name `folder`. */
static int put_in_place(const char *folder, const char *path)
{
    if (renameat2(AT_FDCWD, folder, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno == ENOENT)
        return rename(folder, path);
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return access(path, F_OK) == 0 ? replace_in_two(folder, path) : rename(folder, path);
}

/* Only a hint, so what goes wrong here is told and harms nothing. Step 0: there is no checkpoint. */
static void write_latest(const char *directory, int64_t step)
{
    struct err err;
    char *latest = str_printf("%s/latest", directory), *line = str_printf("step-%08" PRId64 "\n", step);
    if (step == 0 && unlink(latest) != 0 && errno != ENOENT)
        log_warn("%s is out of date: cannot remove it: %s", latest, strerror(errno));
    if (step > 0 && fs_write_durable(latest, line, strlen(line), 0644, &err) != 0)
        log_warn("%s is out of date: %s", latest, err.text);
    free(line);
    free(latest);
}

static bool latest_says(const char *directory, int64_t step)
{
    struct err ignored;
    char *path = str_printf("%s/latest", directory), *line = str_printf("step-%08" PRId64 "\n", step);
    char *text = fs_read(path, 64, NULL, &ignored);
    bool says = text && strcmp(text, line) == 0;
    free(text);
    free(line);
    free(path);
    return says;
}

int shelf_commit(const char *directory, const char *folder, int64_t step, struct err *err)
{
    struct err left;
    char *path = shelf_path(directory, step);
    int rc = 0;
    if (put_in_place(folder, path) != 0)
        rc = err_sys(err, "cannot rename %s to %s", folder, path);
    else
        rc = fs_sync_dir(directory, err);
    if (rc == 0)
        write_latest(directory, step);
    if (rc == 0 && fs_remove_tree(folder, &left) != 0)
        log_warn("the older checkpoint of step %" PRId64 " stays until the next start: %s", step, left.text);
    free(path);
    return rc;
}

void shelf_note_newest(const char *directory)
{
    int64_t *steps;
    if (shelf_list(directory, &steps, NULL) > 0)
        write_latest(directory, steps[0]);
    free(steps);
}

int shelf_add(const char *directory, const char *folder, int64_t step, struct err *err)
{
    char *path = shelf_path(directory, step);
    int rc = 0;
    if (rename(folder, path) != 0) /* fails when a checkpoint is there: that folder is not empty */
        rc = err_sys(err, "cannot rename %s to %s", folder, path);
    else
        rc = fs_sync_dir(directory, err);
    if (rc == 0)
        shelf_note_newest(directory);
    free(path);
    return rc;
}

int64_t shelf_latest(const char *directory)
{
    char *path = str_printf("%s/latest", directory), *text = fs_read(path, PATH_MAX, NULL, NULL);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    int64_t step = text ? parse_name(text) : -1;
    free(text);
    free(path);
    return step;
}

int64_t shelf_step_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return parse_name(slash ? slash + 1 : path);
}

/* Out of sight first, so that a checkpoint is never seen half removed. */
static void remove_step(const char *directory, int64_t step)
{
    struct err err = {""};
    char *path = shelf_path(directory, step),
         *hidden = str_printf("%s/" UNDER_WAY "%08" PRId64 ".purged.tmp", directory, step);
    if (fs_remove_tree(hidden, &err) != 0 ||
        (rename(path, hidden) != 0 && err_sys(&err, "cannot rename %s", path)) ||
        fs_remove_tree(hidden, &err) != 0)
        log_warn("an old checkpoint stays: %s", err.text);
    free(hidden);
    free(path);
}

/* Reads the checkpoint of `step` back; parts 0 only looks at sizes. */
static int check_step(const char *directory, int64_t step, int parts, struct manifest_state *state,
                      struct err *err)
{
    char *path = shelf_path(directory, step);
    int rc = checkpoint_verify(path, 0, parts, state, err);
    free(path);
    return rc;
}

static double held_loss(const char *directory, int64_t step)
{
    char *path = shelf_path(directory, step);
    double loss = manifest_held_loss(path);
    free(path);
    return loss;
}

int64_t shelf_survey(const char *directory, const struct retention_policy *policy,
                     struct retention_item **items, struct err *err)
{
    struct err ignored;
    struct manifest_state state;
    int64_t *steps, complete = 0, count = shelf_list(directory, &steps, err);
    *items = count > 0 ? mem_zero((size_t)count, sizeof **items) : NULL;
    for (int64_t i = 0; i < count; i++) {
        struct retention_item *item = &(*items)[i];
        *item = (struct retention_item){.step = steps[i], .held_loss = NAN, .complete = true};
        if (complete < policy->keep)
            item->complete = check_step(directory, steps[i], 0, &state, &ignored) == 0;
        if (policy->keep_best > 0)
            item->held_loss = held_loss(directory, steps[i]);
        complete += item->complete;
    }
    if (count > 0)
        retention_decide(policy, *items, (size_t)count);
    free(steps);
    return count;
}

/* May `step` go? Before the last verified checkpoint goes, or while none is known to be good, the newest is read back to take over. */
static bool may_go(const char *directory, int64_t step, int64_t newest, int64_t *verified)
{
    struct err err;
    struct manifest_state state;
    if (*verified != 0 && *verified != step)
        return true;
    if (check_step(directory, newest, 1, &state, &err) != 0) {
        log_warn("step-%08" PRId64 " stays, since the newest checkpoint could not be read back: %s", step,
                 err.text);
        return false;
    }
    *verified = newest;
    return true;
}

void shelf_purge(const char *directory, const struct retention_policy *policy, int64_t spare,
                 int64_t *verified)
{
    struct err err;
    struct retention_item *items;
    int64_t newest = 0, count = shelf_survey(directory, policy, &items, &err);
    if (count < 0)
        log_warn("old checkpoints stay: %s", err.text);
    for (int64_t i = 0; i < count; i++) {
        if (newest == 0 && items[i].complete)
            newest = items[i].step;
        if (items[i].stays == 0 && items[i].step != spare &&
            may_go(directory, items[i].step, newest, verified))
            remove_step(directory, items[i].step);
    }
    free(items);
}

/* The step of ".step-00000100.2.4711.tmp.old", the checkpoint that replace_in_two has put out of its successor's way; else -1. */
static int64_t replaced_step(const char *name)
{
    size_t len = strlen(name), head = strlen(UNDER_WAY);
    bool it =
        strncmp(name, UNDER_WAY, head) == 0 && len > head + 8 && strcmp(name + len - 8, ".tmp.old") == 0;
    return it && name[head] >= '0' && name[head] <= '9' ? strtoll(name + head, NULL, 10) : -1;
}

/* Its successor has not come to its place: it gets its name back. */
static bool put_back(const char *directory, const char *name)
{
    int64_t step = replaced_step(name);
    char *from = str_printf("%s/%s", directory, name), *to = shelf_path(directory, step);
    bool back = step >= 0 && access(to, F_OK) != 0 && rename(from, to) == 0;
    if (back)
        log_warn("the checkpoint of step %" PRId64 " is the one before the save that was interrupted", step);
    free(to);
    free(from);
    return back;
}

/* Is it the name of something that only a program at work has? A number, that of its process, follows ".tmp." (fs_write_durable). */
static bool left_over(const char *name)
{
    static const char *const files[] = {"latest.tmp.", "claim.tmp.", "metrics.csv.tmp."};
    size_t len = strlen(name);
    if (strncmp(name, UNDER_WAY, strlen(UNDER_WAY)) == 0)
        return strcmp(name + len - 4, ".tmp") == 0 ||
               replaced_step(name) >= 0; /* UNDER_WAY is longer than that */
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t at = strlen(files[i]);
        if (strncmp(name, files[i], at) == 0)
            return name[at] && name[at + strspn(name + at, "0123456789")] == 0;
    }
    return false;
}

void shelf_sweep(const char *directory)
{
    struct err err;
    DIR *dir = opendir(directory);
    if (!dir)
        return; /* whoever needs the directory next says what is wrong with it */
    for (const struct dirent *e; (e = readdir(dir));) {
        if (!left_over(e->d_name) || put_back(directory, e->d_name))
            continue;
        char *path = str_printf("%s/%s", directory, e->d_name);
        if (fs_remove_tree(path, &err) != 0)
            log_warn("a left-over of an unfinished checkpoint stays: %s", err.text);
        free(path);
    }
    closedir(dir);
}

static int move_aside(const char *directory, const char *aside, int64_t step, struct err *err)
{
    char *from = shelf_path(directory, step), *to = shelf_path(aside, step);
    int rc = rename(from, to) == 0 ? 0 : err_sys(err, "cannot move %s to %s", from, to);
    free(to);
    free(from);
    return rc;
}

/* The rows that the run is about to cut off stay readable beside the checkpoints they belong to: the file is replaced, not rewritten. */
static void keep_metrics(const char *directory, const char *aside)
{
    char *from = str_printf("%s/metrics.csv", directory), *to = str_printf("%s/metrics.csv", aside);
    if (link(from, to) != 0 && errno != ENOENT)
        log_warn("the rows of metrics.csv after the resumed step are not kept: %s", strerror(errno));
    free(to);
    free(from);
}

int64_t shelf_set_aside(const char *directory, int64_t step, struct err *err)
{
    char stamp[CLOCK_UTC_SIZE];
    int64_t *steps, moved = 0, i = 0, count = shelf_list(directory, &steps, err);
    char *aside = str_printf("%s/set-aside/%s", directory, clock_format_utc(clock_utc_ms(), stamp));
    int rc = count < 0 ? -1 : 0;
    for (; rc == 0 && steps && i < count && steps[i] > step; i++, moved++) {
        if (moved == 0 && (rc = fs_mkdirs(aside, 0755, err)) == 0)
            keep_metrics(directory, aside);
        if (rc == 0)
            rc = move_aside(directory, aside, steps[i], err);
    }
    int64_t newest = steps && i < count ? steps[i] : 0;
    if (rc == 0 && !latest_says(directory, newest)) /* also after a death between a commit and that file */
        write_latest(directory, newest);
    if (rc == 0 && moved > 0)
        log_warn("%" PRId64 " checkpoint(s) later than step %" PRId64 " were moved to %s", moved, step,
                 aside);
    free(aside);
    free(steps);
    return rc == 0 ? moved : -1;
}
