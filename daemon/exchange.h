/* exchange: one HTTP request on its way to an answer, as the handlers see it. */
#ifndef BELAY_DAEMON_EXCHANGE_H
#define BELAY_DAEMON_EXCHANGE_H

#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "daemon/agent_link.h"
#include "daemon/turn.h"

struct exchange;

/* What a handler says when it has rendered. */
enum exchange_next {
    EXCHANGE_ANSWER, /* x->status and x->reply (or the refusal) are the answer */
    EXCHANGE_WAIT,   /* long poll: again when route->wakes says so, or when the wait is over */
    EXCHANGE_LATER   /* the handler calls exchange_answer itself, exactly once */
};

struct route {
    enum evhttp_cmd_type method;
    const char *path; /* '#' stands for a positive number (x->id), '*' for a name (x->name) */
    /* Gives the core an event, or refuses; NULL for plain reads. */
    void (*change)(struct exchange *x);
    /* After the commit, when nothing was refused: fills x->reply. x->waited_enough: must not wait any more. */
    enum exchange_next (*render)(struct exchange *x);
    /* Long polls: might the answer be ready after these changes? */
    bool (*wakes)(const struct exchange *x, const struct core_changes *changes);
};

struct exchange {
    /* what was asked */
    struct turn *turn;
    struct agent_link *link;
    const char *dir;
    int64_t started_ms; /* UTC start of belayd */
    const struct route *route;
    int64_t id;
    char name[256];
    struct evkeyvalq query;
    json_t *body; /* an object (empty when none was sent) */
    int64_t uid, gid;
    char user[64];
    /* for the handler */
    int64_t wait_for; /* rev or event id of a long poll; -1 = none */
    int64_t attempt;  /* logs */
    bool live;        /* logs */
    bool waited_enough;
    /* the answer */
    int status; /* 0 = not refused yet: 200 */
    struct err error;
    json_t *reply;
};

/* Refuses; the first refusal stays. */
void exchange_refuse(struct exchange *x, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses with the HTTP status of what the core said. */
void exchange_refuse_core(struct exchange *x, enum core_refusal why, const struct err *err);

/* The parameter as a number within limits, or `absent` when it is not there. A bad one refuses with 400 and gives absent. */
int64_t exchange_query_int(struct exchange *x, const char *key, int64_t min, int64_t max, int64_t absent);
/* Borrowed, or NULL. */
const char *exchange_query(const struct exchange *x, const char *key);

/* May this client act on something owned by uid? The owner, root, and whoever runs belayd may. */
bool exchange_may_act(const struct exchange *x, int64_t owner_uid);
/* Refuses with 403 who may not: `what` is the end of "only ann, root, or the user that runs belayd may ...". May it go on? */
bool exchange_owner_only(struct exchange *x, const struct job_record *job, const char *what);

/* Sends the answer and frees x. Only after EXCHANGE_LATER. */
void exchange_answer(struct exchange *x);

/* The tables of handlers, each ended by a row without path. */
extern const struct route rest_job_routes[], rest_node_routes[], rest_cluster_routes[], rest_log_routes[],
    rest_explain_routes[];

#endif
