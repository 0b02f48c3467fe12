/* belay notify: tells Belay, from inside a job, how it goes: progress, checkpoints. The lines go out as one datagram, as they stand. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/unixsock.h"
#include "launcher/args.h"
#include "schema/notify_key.h"
#include "schema/utf8.h"

enum { PATIENCE_S = 10 }; /* for a shim that is behind with reading */

/* CLI_DONE, or what is wrong with KEY=VALUE. */
static int check_word(const char *word)
{
    const char *eq = strchr(word, '=');
    if (!eq)
        return cli_fail(CLI_USAGE, "notify: \"%s\" is not KEY=VALUE", word);
    if (!notify_key_ok(word, (size_t)(eq - word)))
        return cli_fail(
            CLI_USAGE,
            "notify: the key of \"%s\" must be capital letters, digits and _ (no digit first), at "
            "most %d bytes",
            word, NOTIFY_KEY_MAX);
    if (strchr(eq, '\n'))
        return cli_fail(CLI_USAGE, "notify: the value of %.*s has more than one line", (int)(eq - word),
                        word);
    if (utf8_bad(eq, strlen(eq)) < strlen(eq))
        return cli_fail(CLI_USAGE, "notify: the value of %.*s is not UTF-8", (int)(eq - word), word);
    return CLI_DONE;
}

static bool begins(const char *word, const char *key)
{
    return strncmp(word, key, strlen(key)) == 0;
}

/* PATH= as an absolute path, since nobody else knows this program's folder; other words as they are. Fresh string, or NULL when the
 * path is not there. */
static char *complete(const char *word)
{
    if (!begins(word, "PATH="))
        return str_dup(word);
    char *path = realpath(word + strlen("PATH="), NULL);
    char *line = path ? str_printf("PATH=%s", path) : NULL;
    free(path);
    return line;
}

/* All lines in one; NULL after a complaint, with *rc. */
static char *gather(const struct args *args, int *rc)
{
    const char *rank = getenv("RANK");
    bool says_rank = false;
    char *all = str_dup("");
    for (size_t i = 0; i < args->n_words && *rc == CLI_DONE; i++) {
        *rc = check_word(args->words[i]);
        char *line = *rc == CLI_DONE ? complete(args->words[i]) : NULL;
        if (*rc == CLI_DONE && !line)
            *rc = cli_fail(CLI_NO_SUCH, "notify: %s: %s; a checkpoint is told of when it is there",
                           args->words[i], strerror(errno));
        says_rank = says_rank || begins(args->words[i], "RANK=");
        char *longer = str_printf("%s%s%s", all, *all ? "\n" : "", line ? line : "");
        free(line);
        free(all);
        all = longer;
    }
    if (*rc == CLI_DONE && !says_rank && rank && *rank) {
        char *with_rank = str_printf("RANK=%s\n%s", rank, all);
        free(all);
        all = with_rank;
    } else if (*rc == CLI_DONE && !says_rank) {
        *rc = cli_fail(CLI_USAGE,
                       "notify: RANK is not set: give RANK=n, the number of the rank this is said of");
    }
    return all;
}

static int send_lines(const char *path, const char *lines)
{
    struct err err = {""};
    size_t len = strlen(lines);
    if (len > NOTIFY_DATAGRAM_MAX)
        return cli_fail(CLI_USAGE, "notify: %zu bytes are too many: at most %d go out at once", len,
                        NOTIFY_DATAGRAM_MAX);
    int fd = unixsock_datagram(path, &err);
    if (fd < 0)
        return cli_fail(CLI_UNREACHABLE, "notify: %s; has the job ended?", err.text);
    struct timeval wait = {.tv_sec = PATIENCE_S};
    int rc = CLI_DONE;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) != 0 ||
        send(fd, lines, len, MSG_NOSIGNAL) != (ssize_t)len)
        rc = cli_fail(CLI_UNREACHABLE, "notify: cannot send to %s: %s", path,
                      errno == EAGAIN ? "nobody reads it" : strerror(errno));
    close(fd);
    return rc;
}

static int notify(const struct command *self, int argc, char **argv)
{
    struct args args;
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    const char *path = getenv("BELAY_NOTIFY_SOCKET");
    rc = CLI_DONE;
    if (!path || !*path) {
        rc = cli_fail(CLI_USAGE,
                      "notify: BELAY_NOTIFY_SOCKET is not set: this is for programs inside a job of Belay");
    } else {
        char *lines = gather(&args, &rc);
        if (rc == CLI_DONE)
            rc = send_lines(path, lines);
        free(lines);
    }
    args_clear(&args);
    return rc;
}

const struct command command_notify = {
    .name = "notify",
    .args = "KEY=VALUE...",
    .help = "Inside a job: tells Belay of progress and checkpoints (docs/job-file.md, \"run: any program\")",
    .examples = "  belay notify STEP=120 LOSS=2.31\n"
                "  belay notify CHECKPOINT_DURABLE=120 PATH=ckpt/step-120.pt\n"
                "  belay notify CHECKPOINT_ON=SIGUSR1\n",
    .min_words = 1,
    .max_words = 64,
    .run = notify,
};
