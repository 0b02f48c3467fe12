/* client: REST calls to belayd over its unix socket (docs/protocols.md, section 5), by libcurl.
 *
 * Requests may run side by side (long polls beside log reads): client_start, client_wait, client_take. client_call does
 * one and prints what went wrong. A connection is kept and reused; one that died is made anew by itself. Replies larger
 * than CLIENT_REPLY_MAX are refused. */
#ifndef BELAY_LAUNCHER_CLIENT_H
#define BELAY_LAUNCHER_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "launcher/command.h"

#define CLIENT_REPLY_MAX (256u << 20) /* 10,000 jobs, or one with the placement of a million ranks */
#define CLIENT_POLL_S    25           /* how long a long poll asks the server to wait; it allows 30 */

struct client;
struct client_request;

enum client_loss {
    CLIENT_ANSWERED,
    CLIENT_NO_CONNECTION, /* nothing was sent */
    CLIENT_LOST, /* the connection broke before the whole answer: it may or may not have been carried out */
};

struct client_reply {
    int exit_code; /* CLI_DONE, or what the failure means to a script */
    enum client_loss loss;
    long status;    /* HTTP, 0 when lost */
    json_t *body;   /* NULL when lost or not JSON */
    struct err err; /* the sentence when exit_code is not 0 */
};

/* Never fails: a cluster that is not there shows when something is asked. */
struct client *client_open(const char *dir);
void client_close(struct client *c);

/* Begins a call; body (may be NULL) is stolen. The path's words must be escaped (client_escape). */
struct client_request *client_start(struct client *c, const char *method, json_t *body, const char *path_fmt,
                                    ...) __attribute__((format(printf, 4, 5)));
bool client_done(const struct client_request *r);
/* Takes the answer (an unfinished call is given up) and frees the request. r may be NULL: then *reply is zeroed. */
void client_take(struct client *c, struct client_request *r, struct client_reply *reply);
void client_drop(struct client *c, struct client_request *r);
void client_reply_clear(struct client_reply *reply);

/* Waits until a call has moved on, extra_fd (-1 = none) is readable, or timeout_ms passed. True: extra_fd is readable. */
bool client_wait(struct client *c, int extra_fd, int timeout_ms);

/* One call, to its end. CLI_DONE with *out (new reference; out may be NULL), or prints the sentence and returns the exit
 * code. body is stolen. */
int client_call(struct client *c, const char *method, json_t *body, json_t **out, const char *path_fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* As client_call, but the failure stays in *reply. Returns its exit code. */
int client_try(struct client *c, const char *method, json_t *body, struct client_reply *reply,
               const char *path_fmt, ...) __attribute__((format(printf, 5, 6)));

/* A word made fit for a path or query (fresh string). */
char *client_escape(const char *word);

/* The exit code that goes with an HTTP status. */
int client_exit_code(long status);

#endif
