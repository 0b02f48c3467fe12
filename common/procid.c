/* procid: see procid.h. A pid may be given to another process at any time; the start time and the boot id tell them apart. */
#include "common/procid.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/jsonx.h"

static void read_boot(char out[40])
{
    char *text = fs_read("/proc/sys/kernel/random/boot_id", 64, NULL, NULL);
    snprintf(out, 40, "%.36s", text ? text : "unknown");
    free(text);
}

/* State letter and start time (fields 3 and 22) of /proc/PID/stat; the name in field 2 may hold spaces and brackets. */
static int read_stat(pid_t pid, char *state, uint64_t *start)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    char *text = fs_read(path, 8192, NULL, NULL);
    char *p = text ? strrchr(text, ')') : NULL;
    int rc = -1;
    if (p && p[1] == ' ') {
        *state = p[2];
        p += 2;
        for (int field = 3; p && field < 22; field++)
            p = strchr(p + 1, ' ');
        if (p) {
            *start = strtoull(p, NULL, 10);
            rc = 0;
        }
    }
    free(text);
    return rc;
}

int procid_of(pid_t pid, struct procid *id)
{
    char state;
    memset(id, 0, sizeof *id);
    id->pid = pid ? pid : getpid();
    if (read_stat(id->pid, &state, &id->start) < 0)
        return -1;
    read_boot(id->boot);
    return 0;
}

bool procid_alive(const struct procid *id)
{
    char state, boot[40];
    uint64_t start;
    if (id->pid <= 0 || read_stat(id->pid, &state, &start) < 0 || start != id->start)
        return false;
    read_boot(boot);
    return strcmp(boot, id->boot) == 0 && state != 'Z' && state != 'X';
}

int procid_kill(const struct procid *id, int sig)
{
    if (id->pid <= 0)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, id->pid, 0);
    if (fd < 0)
        return -1;
    /* The fd holds on to one process; only now is it sure whether that is the one meant. */
    int rc = procid_alive(id) ? (int)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) : -1;
    close(fd);
    return rc;
}

json_t *procid_to_json(const struct procid *id)
{
    return json_pack("{s:I,s:I,s:s}", "pid", (json_int_t)id->pid, "start", (json_int_t)id->start, "boot",
                     id->boot);
}

int procid_from_json(const json_t *obj, struct procid *id)
{
    int64_t pid, start;
    const char *boot;
    memset(id, 0, sizeof *id);
    if (jsonx_int(obj, "pid", 1, INT32_MAX, &pid, NULL) < 0 ||
        jsonx_int(obj, "start", 0, INT64_MAX, &start, NULL) < 0 || jsonx_str(obj, "boot", &boot, NULL) < 0)
        return -1;
    id->pid = (pid_t)pid;
    id->start = (uint64_t)start;
    snprintf(id->boot, sizeof id->boot, "%s", boot);
    return 0;
}

int procid_read_file(const char *path, struct procid *id, struct err *err)
{
    json_t *obj = jsonx_read_file(path, 4096, err);
    int rc = obj ? procid_from_json(obj, id) : -1;
    if (obj && rc < 0)
        err_set(err, "%s does not name a process: expected {\"pid\":…,\"start\":…,\"boot\":…}", path);
    json_decref(obj);
    return rc;
}

int procid_write_file(const char *path, const struct procid *id, struct err *err)
{
    json_t *obj = procid_to_json(id);
    int rc = jsonx_write_file(path, obj, err);
    json_decref(obj);
    return rc;
}
