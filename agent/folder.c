/* folder: see folder.h. order.json and the last state.json are written by the agent, shim.pid by the shim's process just before
 * it becomes belay-shim, everything else by the shim. All writes are durable before anybody is told. */
#include "agent/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/jsonline.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/scratch.h"

#define STATE_MAX LINK_LINE_MAX

char *folder_path(const char *agent_dir, int64_t job, int64_t attempt)
{
    return str_printf("%s/attempts/%" PRId64 ".%" PRId64, agent_dir, job, attempt);
}

/* A number from 1 on without leading zeros; *end is what follows. */
static int parse_number(const char *text, int64_t *out, const char **end)
{
    char *stop;
    if (!isdigit((unsigned char)text[0]) || text[0] == '0')
        return -1;
    errno = 0;
    *out = strtoll(text, &stop, 10);
    *end = stop;
    return errno ? -1 : 0;
}

int folder_parse(const char *name, struct folder_id *id)
{
    const char *end;
    if (parse_number(name, &id->job, &end) < 0 || *end != '.')
        return -1;
    return parse_number(end + 1, &id->attempt, &end) < 0 || *end ? -1 : 0;
}

int folder_scan(const char *agent_dir, struct folder_id **ids, size_t *n, struct err *err)
{
    *ids = NULL;
    *n = 0;
    char *path = str_printf("%s/attempts", agent_dir);
    DIR *dir = opendir(path);
    if (!dir)
        err_sys(err, "cannot list %s", path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct folder_id id;
        if (folder_parse(e->d_name, &id) == 0) {
            *ids = mem_grow(*ids, *n + 1, sizeof **ids);
            (*ids)[(*n)++] = id;
        } else if (e->d_name[0] != '.') {
            log_warn("%s/%s is no attempt folder and is left alone", path, e->d_name);
        }
    }
    free(path);
    if (!dir)
        return -1;
    closedir(dir);
    return 0;
}

int folder_make(const char *path, struct err *err)
{
    if (mkdir(path, 0700) < 0)
        return err_sys(err, "cannot make the attempt folder %s", path);
    char *parent = str_printf("%s/..", path);
    int rc = fs_sync_dir(parent, err);
    free(parent);
    return rc;
}

/* A removed folder first gets a name that folder_scan does not see. */
#define REMOVED ".removed."

int folder_remove(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *hidden = str_printf("%.*s/" REMOVED "%s", (int)(slash - path), path, slash + 1);
    int rc = fs_remove_tree(hidden, err);
    if (rc == 0 && rename(path, hidden) < 0)
        rc = err_sys(err, "cannot rename %s to %s", path, hidden);
    if (rc == 0)
        rc = fs_remove_tree(hidden, err);
    free(hidden);
    return rc;
}

void folder_clean(const char *agent_dir)
{
    char *path = str_printf("%s/attempts", agent_dir);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct err err;
        char *hidden = str_printf("%s/%s", path, e->d_name);
        if (strncmp(e->d_name, REMOVED, strlen(REMOVED)) == 0 && fs_remove_tree(hidden, &err) < 0)
            log_warn("%s", err.text);
        free(hidden);
    }
    if (dir)
        closedir(dir);
    free(path);
}

static int write_json(const char *path, const char *name, json_t *obj, struct err *err)
{
    char *file = str_printf("%s/%s", path, name);
    int rc = jsonx_write_file(file, obj, err);
    free(file);
    json_decref(obj);
    return rc;
}

int folder_write_order(const char *path, const struct link_order *order, struct err *err)
{
    return write_json(path, "order.json", link_order_encode(order, NULL), err);
}

int folder_write_report(const char *path, const struct link_report *report, struct err *err)
{
    return write_json(path, "state.json", link_report_encode(report, NULL), err);
}

int folder_read_order(const char *path, struct link_order *order, struct err *err)
{
    memset(order, 0, sizeof *order);
    char *file = str_printf("%s/order.json", path);
    json_t *obj = jsonx_read_file(file, STATE_MAX, err);
    int rc = -1;
    if (obj && (rc = link_order_decode(obj, order, err)) < 0)
        err_prefix(err, "%s", file);
    json_decref(obj);
    free(file);
    return rc;
}

static void read_shim_pid(const char *path, struct folder_state *state)
{
    char *file = str_printf("%s/shim.pid", path);
    struct err ignored; /* without shim.pid the shim was never started, or state.json names it */
    state->has_shim = procid_read_file(file, &state->shim, &ignored) == 0;
    free(file);
}

static int use_state(const json_t *obj, struct folder_state *state, struct err *err)
{
    if (link_report_decode(obj, &state->report, err) < 0)
        return -1;
    state->has_report = true;
    struct procid shim;
    if (procid_from_json(json_object_get(obj, "shim"), &shim) == 0) {
        state->shim = shim;
        state->has_shim = true;
    }
    state->scratch = str_dup(jsonx_str_or(obj, "scratch", NULL));
    state->cgroup = str_dup(jsonx_str_or(obj, "cgroup", NULL));
    state->token = str_dup(jsonx_str_or(obj, "token", NULL));
    return 0;
}

int folder_read_state(const char *path, struct folder_state *state, struct err *err)
{
    memset(state, 0, sizeof *state);
    read_shim_pid(path, state);
    char *file = str_printf("%s/state.json", path);
    int rc = 0;
    if (access(file, F_OK) == 0) {
        json_t *obj = jsonx_read_file(file, STATE_MAX, err);
        rc = obj ? use_state(obj, state, err) : -1;
        if (obj && rc < 0)
            err_prefix(err, "%s", file);
        json_decref(obj);
    }
    free(file);
    return rc;
}

void folder_state_clear(struct folder_state *state)
{
    link_report_clear(&state->report);
    free(state->scratch);
    free(state->cgroup);
    free(state->token);
    memset(state, 0, sizeof *state);
}

/* Reads the last size-1 bytes of a file into out, whole lines where one fits; the number of bytes. */
static size_t read_tail(const char *file, char *out, size_t size)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    off_t end = lseek(fd, 0, SEEK_END), room = (off_t)size - 1;
    ssize_t n = pread(fd, out, size - 1, end > room ? end - room : 0);
    close(fd);
    const char *line = n > 0 && end > room ? memchr(out, '\n', (size_t)n) : NULL;
    if (line && line + 1 < out + n) {
        n -= line + 1 - out;
        memmove(out, line + 1, (size_t)n);
    }
    return n > 0 ? (size_t)n : 0;
}

void folder_log_tail(const char *path, char *out, size_t size)
{
    char *file = str_printf("%s/shim.log", path);
    size_t n = read_tail(file, out, size);
    free(file);
    while (n > 0 && isspace((unsigned char)out[n - 1]))
        n--;
    out[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (iscntrl((unsigned char)out[i]))
            out[i] = out[i] == '\n' ? ';' : ' ';
}

bool folder_is_scratch(const char *scratch, struct folder_id id)
{
    char *name = str_printf("%" PRId64 ".%" PRId64, id.job, id.attempt);
    bool ok = scratch_is_of(scratch, name);
    free(name);
    return ok;
}
