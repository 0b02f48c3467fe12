/* rank_env: the environment of a rank (docs/protocols.md section 4). */
#ifndef BELAY_AGENT_SHIM_RANK_ENV_H
#define BELAY_AGENT_SHIM_RANK_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/shim/identity.h"
#include "schema/link.h"

struct rank_env {
    const struct link_order *order;
    const struct identity *who;
    const char *scratch, *job_file, *notify_socket;
    const char *memory_socket; /* or NULL */
    const char *resume_from;   /* or NULL */
};

/* environ-like lists: malloc'ed, NULL-terminated, of malloc'ed "KEY=value" (as PMIx_server_setup_fork wants them). */
void envlist_set(char ***env, const char *key, const char *value);
const char *envlist_get(char *const *env, const char *key);
void envlist_free(char **env);

/* What of the shim's own environment ranks inherit: everything but BELAY_*, PMIX_*, OMPI_* and the like of an outer launcher; ranks of
 * another user only what is no secret (the lists are in rank_env.c and docs/protocols.md section 4). */
char **rank_env_inherit(char *const *from, bool other_user);

/* The whole environment of order->ranks[index] without PMIx's own part; with the job's env last. Only before go may the map
 * be missing (then the variables that need it are too). */
char **rank_env_build(const struct rank_env *in, size_t index, char *const *inherited);

/* Puts the job's own env on top; to be called again after others have added to env. */
void rank_env_apply_job(char ***env, const struct link_order *order);

#endif
