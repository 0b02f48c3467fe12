/* jobfile: see jobfile.h. The key of a submit is drawn once for each file, so that repeating the request is safe. */
#include "launcher/jobfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/jobnotes.h"

#define RETRY_FOR_MS 10000 /* a belayd that was killed is back within 2 s */
#define RETRY_NS     50000000

/* Reads to the end, also of a pipe. One byte more than allowed is enough to know that it is too much. */
static int read_all(int fd, struct jobfile *f, struct err *err)
{
    f->text = mem_zero(JOB_FILE_MAX + 2, 1);
    ssize_t n = 1;
    while (n != 0 && f->len <= JOB_FILE_MAX) {
        n = read(fd, f->text + f->len, JOB_FILE_MAX + 1 - f->len);
        if (n < 0 && errno != EINTR)
            return err_sys(err, "cannot read the job file %s", f->name);
        f->len += n > 0 ? (size_t)n : 0;
    }
    if (f->len > JOB_FILE_MAX)
        return err_set(err, "%s is larger than %u KiB: a job file is a page of text", f->name,
                       JOB_FILE_MAX >> 10);
    return 0;
}

static int read_file(struct jobfile *f, struct err *err)
{
    if (strcmp(f->name, "-") == 0)
        return read_all(STDIN_FILENO, f, err);
    int fd = open(f->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "cannot open the job file %s", f->name);
    int rc = read_all(fd, f, err);
    close(fd);
    return rc;
}

void jobfile_print_diagnostics(const struct job_diagnostics *d)
{
    size_t kept = d->count < JOB_DIAGNOSTICS_MAX ? d->count : JOB_DIAGNOSTICS_MAX;
    for (size_t i = 0; i < kept; i++)
        fprintf(stderr, "%s\n", d->text[i]);
    if (d->count > kept)
        fprintf(stderr, "… and %zu more\n", d->count - kept);
}

typedef int parser(const char *, size_t, const char *, const char *const *, size_t, struct job_spec **,
                   struct job_diagnostics *);

static int load(const char *name, const struct args_list *sets, parser *parse, struct jobfile *out)
{
    struct err err = {""};
    struct job_diagnostics *d = mem_zero(1, sizeof *d);
    int rc = CLI_DONE;
    *out = (struct jobfile){.name = name};
    if (read_file(out, &err) != 0) {
        rc = cli_fail(CLI_USAGE, "%s", err.text);
    } else if (parse(out->text, out->len, name, sets->items, sets->count, &out->spec, d) != 0) {
        jobfile_print_diagnostics(d);
        rc = CLI_USAGE;
    }
    if (!out->spec)
        jobfile_clear(out);
    free(d);
    return rc;
}

int jobfile_load(const char *name, const struct args_list *sets, struct jobfile *out)
{
    int rc = load(name, sets, job_spec_parse, out);
    if (out->spec)
        jobnotes_print(name, out->spec);
    return rc;
}

int jobfile_load_plan(const char *name, const struct args_list *sets, struct jobfile *out)
{
    return load(name, sets, job_spec_parse_plan, out);
}

void jobfile_clear(struct jobfile *f)
{
    job_spec_free(f->spec);
    free(f->text);
    *f = (struct jobfile){.name = NULL};
}

/* A random UUID (version 4). */
static char *new_key(void)
{
    unsigned char b[16];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        abort(); /* at most 256 bytes never come short */
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    return str_printf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                      b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
                      b[15]);
}

/* The body of the submit, or NULL with the exit code in *rc. */
static json_t *make_body(const struct jobfile *f, const struct args_list *sets, int *rc)
{
    json_t *spec = json_stringn(f->text, f->len), *list = json_array(), *body = json_object();
    char *cwd = realpath(".", NULL), *key = new_key();
    *rc = CLI_DONE;
    for (size_t i = 0; i < sets->count; i++)
        json_array_append_new(list, json_string(sets->items[i]));
    if (!spec || json_array_size(list) != sets->count)
        *rc = cli_fail(CLI_USAGE, "%s or a --set is not UTF-8 text: save it as UTF-8", f->name);
    else if (!cwd)
        *rc = cli_fail(CLI_USAGE, "cannot find out the current folder, in which the job would run: %s",
                       strerror(errno));
    jsonx_set(body, "spec", spec ? spec : json_null());
    jsonx_set_str(body, "file", f->name);
    jsonx_set(body, "set", list);
    jsonx_set_str(body, "cwd", cwd);
    jsonx_set_str(body, "key", key);
    free(cwd);
    free(key);
    return body;
}

/* Goes on after a broken connection for a while: the key makes a second submit harmless. */
static void post(struct client *c, json_t *body, struct client_reply *reply)
{
    int64_t end = clock_boot_ms() + RETRY_FOR_MS;
    client_try(c, "POST", json_incref(body), reply, "/v1/jobs");
    bool maybe_sent = reply->loss == CLIENT_LOST;
    while (maybe_sent && reply->loss != CLIENT_ANSWERED && clock_boot_ms() < end) {
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
        client_reply_clear(reply);
        client_try(c, "POST", json_incref(body), reply, "/v1/jobs");
    }
    if (maybe_sent && reply->loss != CLIENT_ANSWERED)
        err_prefix(&reply->err,
                   "whether the job was accepted is not known; `belay status` will tell once belayd is back");
}

static int print_refusal(const struct client_reply *reply)
{
    const json_t *diagnostics = json_object_get(reply->body, "diagnostics");
    size_t i;
    json_t *line;
    if (!json_array_size(diagnostics))
        return cli_fail(reply->exit_code, "%s", reply->err.text);
    json_array_foreach(diagnostics, i, line)
    {
        fprintf(stderr, "%s\n", json_is_string(line) ? json_string_value(line) : "?");
    }
    return reply->exit_code;
}

int jobfile_submit(struct client *c, const struct jobfile *f, const struct args_list *sets, int64_t *id)
{
    struct client_reply reply = {.body = NULL};
    struct err err = {""};
    int rc;
    json_t *body = make_body(f, sets, &rc);
    if (rc == CLI_DONE) {
        post(c, body, &reply);
        rc = reply.exit_code;
        if (rc != CLI_DONE)
            print_refusal(&reply);
        else if (jsonx_int(reply.body, "id", 1, INT64_MAX, id, &err) != 0)
            rc =
                cli_fail(CLI_UNREACHABLE, "belayd's answer to the submit cannot be understood: %s", err.text);
    }
    client_reply_clear(&reply);
    json_decref(body);
    return rc;
}

int jobfile_send(struct client *c, const char *name, const struct args_list *sets, int64_t *id)
{
    struct jobfile f;
    int rc = jobfile_load(name, sets, &f);
    if (rc != CLI_DONE)
        return rc;
    rc = jobfile_submit(c, &f, sets, id);
    jobfile_clear(&f);
    return rc;
}
