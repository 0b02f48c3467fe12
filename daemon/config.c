/* config: one table of settings; each source fills only what an earlier one left open.
 *
 * belay.conf may serve other programs too, so a key that belayd does not know is named in the log and left alone. */
#include "daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cluster_dir.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"

#define CONF_MAX (64u << 10)
#define DAY_MS   86400000.0

const char *const config_help =
    "belayd --dir DIR [--listen HOST:PORT] [--cluster FILE [--play]]\n"
    "\n"
    "The controller of a Belay cluster: keeps its state in DIR/belayd.db, answers on the unix socket "
    "DIR/belayd.sock,\n"
    "and takes the links of agents at HOST:PORT (default 127.0.0.1:0; the port is written to "
    "DIR/belayd.port).\n"
    "\n"
    "  --dir DIR            the cluster's folder (else $BELAY_DIR, else /var/lib/belay or "
    "$XDG_STATE_HOME/belay)\n"
    "  --listen HOST:PORT   where agents connect; port 0 takes the one of the last run, or any\n"
    "  --cluster FILE       what the cluster is made of (docs/cluster-file.md)\n"
    "  --play               other machines stand in for those of the file: only their slots are compared "
    "with it\n"
    "  --help, --version\n"
    "\n"
    "Settings come from flags, then BELAY_<KEY> variables, then DIR/belay.conf (key = value):\n"
    "  listen, cluster, play, heartbeat_ms, suspect_after_ms, down_after_ms, settle_ms, prepare_timeout_ms, "
    "checkpoint_wait_ms,\n"
    "  keep_ms, failures_per_1000_node_days, node_repair_ms\n"
    "SIGTERM or SIGINT: exit; jobs go on without the controller and are found again at its next start.\n";

/* Values are first collected as text, then read, so that a bad one is named with its source. */
enum setting {
    SET_LISTEN,
    SET_CLUSTER,
    SET_PLAY,
    SET_HEARTBEAT,
    SET_SUSPECT,
    SET_DOWN,
    SET_SETTLE,
    SET_PREPARE,
    SET_CHECKPOINT,
    SET_KEEP,
    SET_FAILURES,
    SET_REPAIR,
    SETTINGS
};

static const struct {
    const char *key, *variable;
} settings[SETTINGS] = {
    [SET_LISTEN] = {"listen", "BELAY_LISTEN"},
    [SET_CLUSTER] = {"cluster", "BELAY_CLUSTER"},
    [SET_PLAY] = {"play", "BELAY_PLAY"}, /* 1 or 0 */
    [SET_HEARTBEAT] = {"heartbeat_ms", "BELAY_HEARTBEAT_MS"},
    [SET_SUSPECT] = {"suspect_after_ms", "BELAY_SUSPECT_AFTER_MS"},
    [SET_DOWN] = {"down_after_ms", "BELAY_DOWN_AFTER_MS"},
    [SET_SETTLE] = {"settle_ms", "BELAY_SETTLE_MS"},
    [SET_PREPARE] = {"prepare_timeout_ms", "BELAY_PREPARE_TIMEOUT_MS"},
    [SET_CHECKPOINT] = {"checkpoint_wait_ms", "BELAY_CHECKPOINT_WAIT_MS"},
    [SET_KEEP] = {"keep_ms", "BELAY_KEEP_MS"},
    [SET_FAILURES] = {"failures_per_1000_node_days", "BELAY_FAILURES_PER_1000_NODE_DAYS"},
    [SET_REPAIR] = {"node_repair_ms", "BELAY_NODE_REPAIR_MS"},
};

struct raw {
    char *value[SETTINGS];
    char *source[SETTINGS]; /* "--listen", "BELAY_LISTEN", "/dir/belay.conf:3" */
};

static void raw_set(struct raw *raw, enum setting which, const char *value, const char *source)
{
    if (raw->value[which])
        return;
    raw->value[which] = str_dup(value);
    raw->source[which] = str_dup(source);
}

static void raw_clear(struct raw *raw)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        free(raw->value[i]);
        free(raw->source[i]);
    }
}

static int read_flags(struct config *c, struct raw *raw, int argc, char *const *argv, struct err *err)
{
    static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
                                            {"listen", required_argument, NULL, 'l'},
                                            {"cluster", required_argument, NULL, 'c'},
                                            {"play", no_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    int opt;
    opterr = 0;
    optind = 1;
    while ((opt = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
        if (opt == 'd') {
            free(c->dir);
            c->dir = str_dup(optarg);
        } else if (opt == 'l') {
            raw_set(raw, SET_LISTEN, optarg, "--listen");
        } else if (opt == 'c') {
            raw_set(raw, SET_CLUSTER, optarg, "--cluster");
        } else if (opt == 'p') {
            raw_set(raw, SET_PLAY, "1", "--play");
        } else if (opt == 'h' || opt == 'v') {
            *(opt == 'h' ? &c->help : &c->version) = true;
        } else {
            return err_set(err, "belayd does not understand %s; see belayd --help", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return err_set(err, "belayd takes no argument \"%s\"; see belayd --help", argv[optind]);
    return 0;
}

static void read_environment(struct raw *raw)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        const char *value = getenv(settings[i].variable);
        if (value && *value)
            raw_set(raw, (enum setting)i, value, settings[i].variable);
    }
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static int find_setting(const char *key)
{
    for (int i = 0; i < SETTINGS; i++) {
        if (strcmp(settings[i].key, key) == 0)
            return i;
    }
    return -1;
}

static int read_conf_line(struct raw *raw, char *line, const char *where, struct err *err)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment = '\0';
    line = trim(line);
    if (!*line)
        return 0;
    char *equals = strchr(line, '=');
    if (!equals)
        return err_set(err, "%s: \"%s\" is not \"key = value\"", where, line);
    *equals = '\0';
    const char *key = trim(line);
    int which = find_setting(key);
    if (which >= 0)
        raw_set(raw, (enum setting)which, trim(equals + 1), where);
    else
        log_warn("%s: belayd has no setting \"%s\" and leaves it alone", where, key);
    return 0;
}

static int read_conf(struct config *c, struct raw *raw, struct err *err)
{
    char *path = str_printf("%s/belay.conf", c->dir), *rest = NULL, *text = NULL;
    int rc = 0, number = 0;
    if (access(path, F_OK) == 0 && !(text = fs_read(path, CONF_MAX, NULL, err)))
        rc = -1;
    rest = text;
    for (char *line; rc == 0 && (line = strsep(&rest, "\n"));) {
        char *where = str_printf("%s:%d", path, ++number);
        rc = read_conf_line(raw, line, where, err);
        free(where);
    }
    free(text);
    free(path);
    return rc;
}

/* A whole number of milliseconds, when set. */
static int take_int(const struct raw *raw, enum setting which, int64_t min, int64_t *out, struct err *err)
{
    const char *text = raw->value[which];
    if (!text)
        return 0;
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || *end || end == text || n < min)
        return err_set(err, "%s: %s is \"%s\"; it must be a whole number of at least %lld",
                       raw->source[which], settings[which].key, text, (long long)min);
    *out = n;
    return 0;
}

static int take_listen(const struct raw *raw, struct config *c, struct err *err)
{
    const char *text = raw->value[SET_LISTEN] ? raw->value[SET_LISTEN] : "127.0.0.1:0";
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || colon == text || end == colon + 1 || *end || port < 0 || port > 65535)
        return err_set(err, "%s: listen is \"%s\"; it must be HOST:PORT, like 127.0.0.1:0",
                       raw->source[SET_LISTEN], text);
    bool brackets = text[0] == '[' && colon[-1] == ']' && colon - text > 2; /* [::1]:7070 */
    c->listen = str_printf("%.*s", (int)(colon - text) - (brackets ? 2 : 0), text + (brackets ? 1 : 0));
    c->port = (int)port;
    return 0;
}

/* All mistakes of the file, one a line, as far as err goes. */
static int refuse_cluster(const char *source, const struct job_diagnostics *d, struct err *err)
{
    struct err lines;
    err_set(&lines, "%s: the cluster file has %zu mistake%s", source, d->count, d->count == 1 ? "" : "s");
    for (size_t i = 0; i < d->count && i < JOB_DIAGNOSTICS_MAX; i++) {
        struct err before = lines;
        err_set(&lines, "%s\n%s", before.text, d->text[i]);
    }
    return err_set(err, "%s", lines.text);
}

/* A path in belay.conf starts from the folder of that file, as whoever starts belayd may be anywhere. */
static char *cluster_path(const struct raw *raw, const struct config *c)
{
    const char *path = raw->value[SET_CLUSTER];
    bool of_conf = strchr(raw->source[SET_CLUSTER], '/') != NULL;
    return of_conf && path[0] != '/' ? str_printf("%s/%s", c->dir, path) : str_dup(path);
}

static int take_cluster(const struct raw *raw, struct config *c, struct err *err)
{
    static struct job_diagnostics diagnostics;
    if (!raw->value[SET_CLUSTER])
        return 0;
    char *path = cluster_path(raw, c);
    int rc = cluster_spec_load(path, &c->cluster, &diagnostics);
    free(path);
    if (rc != 0)
        return refuse_cluster(raw->source[SET_CLUSTER], &diagnostics, err);
    int64_t play = 0;
    c->core.cluster = c->cluster;
    rc = take_int(raw, SET_PLAY, 0, &play, err);
    c->core.played = play > 0;
    return rc;
}

/* What `spares: auto` counts with. */
static int take_spares(const struct raw *raw, struct config *c, struct err *err)
{
    int64_t repair_ms = (int64_t)(c->core.repair_days * DAY_MS);
    const char *text = raw->value[SET_FAILURES];
    char *end = NULL;
    if (take_int(raw, SET_REPAIR, 1, &repair_ms, err) != 0)
        return -1;
    c->core.repair_days = (double)repair_ms / DAY_MS;
    if (!text)
        return 0;
    double rate = strtod(text, &end);
    if (end == text || *end || !(rate >= 0) || rate > 1e6)
        return err_set(
            err, "%s: failures_per_1000_node_days is \"%s\"; it must be a number from 0 to 1000000, like 6.5",
            raw->source[SET_FAILURES], text);
    c->core.failures_per_node_day = rate / 1000;
    return 0;
}

static int take_all(const struct raw *raw, struct config *c, struct err *err)
{
    if (take_listen(raw, c, err) != 0 || take_int(raw, SET_HEARTBEAT, 10, &c->heartbeat_ms, err) != 0 ||
        take_int(raw, SET_SUSPECT, 1, &c->core.suspect_after_ms, err) != 0 ||
        take_int(raw, SET_DOWN, 1, &c->core.down_after_ms, err) != 0 ||
        take_int(raw, SET_SETTLE, 0, &c->core.settle_ms, err) != 0 ||
        take_int(raw, SET_PREPARE, 1, &c->core.prepare_timeout_ms, err) != 0 ||
        take_int(raw, SET_CHECKPOINT, 0, &c->core.checkpoint_wait_ms, err) != 0 ||
        take_int(raw, SET_KEEP, 0, &c->core.keep_ms, err) != 0 || take_spares(raw, c, err) != 0 ||
        take_cluster(raw, c, err) != 0)
        return -1;
    return 0;
}

/* The folder is made if need be; links in its path are resolved, since it is shown and others compare it. */
static int settle_dir(struct config *c, struct err *err)
{
    char *dir = cluster_dir_choose(c->dir, err);
    if (!dir)
        return -1;
    free(c->dir);
    c->dir = dir;
    if (fs_mkdirs(c->dir, 0755, err) != 0)
        return -1;
    char *absolute = realpath(c->dir, NULL);
    if (!absolute)
        return err_sys(err, "cannot reach the folder %s", c->dir);
    free(c->dir);
    c->dir = absolute;
    return 0;
}

int config_load(struct config *config, int argc, char *const *argv, struct err *err)
{
    struct raw raw = {0};
    core_config_defaults(&config->core);
    config->heartbeat_ms = 1000;
    int rc = read_flags(config, &raw, argc, argv, err);
    if (rc == 0 && !config->help && !config->version) {
        read_environment(&raw);
        rc = settle_dir(config, err);
        if (rc == 0)
            rc = read_conf(config, &raw, err);
        if (rc == 0)
            rc = take_all(&raw, config, err);
    }
    raw_clear(&raw);
    return rc;
}

void config_clear(struct config *config)
{
    free(config->dir);
    free(config->listen);
    cluster_spec_free(config->cluster);
    memset(config, 0, sizeof(*config));
}
