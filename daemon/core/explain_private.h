/* explain_private: one question to the placement engine, as the parts of explain share it. */
#ifndef BELAY_DAEMON_CORE_EXPLAIN_PRIVATE_H
#define BELAY_DAEMON_CORE_EXPLAIN_PRIVATE_H

#include "daemon/core/core.h"
#include "daemon/core/holders.h"
#include "daemon/core/placement.h"
#include "schema/verdict.h"

struct inquiry {
    const struct job_spec *spec;
    struct placement_view *view;
    struct holders holders;
    const char **idle; /* nodes out of service */
    size_t n_idle;
    struct placed_rank *ranks; /* room for spec->ranks */
    struct verdict *out;
    const struct core_config *config;
    const struct core *core; /* NULL: a cluster on paper, where nobody waits */
    struct job *head;        /* the most urgent of those that wait for slots and go before it, or NULL */
    const struct job *first; /* the most urgent of all that go before it, or NULL */
    int64_t ends_ms;         /* when its time limit would end it; INT64_MAX = it has none */
    bool places;             /* wanted: where each rank would go */
};

/* Could this spec (with at most as many ranks as q->spec) be placed in the view as it is? why may be NULL. */
enum placement_result inquiry_ask(const struct inquiry *q, const struct job_spec *spec, struct err *why);

/* It was just placed (q->ranks) and would fit, but delay a job that goes before it: then it waits all the same. */
bool inquiry_waits(const struct inquiry *q, const struct job_spec *spec, struct err *why);

/* explain_changes.c: appends to q->out->changes what would let it start, or, where it never fits, fit. The view is left as it was. */
void explain_changes(const struct inquiry *q, const struct placement_room *now,
                     const struct placement_room *all);
void explain_add_change(struct verdict *v, char *text); /* takes text */

const char *explain_domain(enum job_domain domain); /* "a rack", "an NVLink domain" … */

#endif
