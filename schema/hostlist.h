/* hostlist: many names in few words, as Slurm and pdsh write them.
 *
 *   gpu[001-384]       gpu001, gpu002 … gpu384 (leading zeros are kept)
 *   a[1-3,7]b          a1b, a2b, a3b, a7b
 *   r[1-2]n[1-3]       r1n1, r1n2, r1n3, r2n1, r2n2, r2n3
 *   head, gpu[1-2]     head, gpu1, gpu2 */
#ifndef BELAY_SCHEMA_HOSTLIST_H
#define BELAY_SCHEMA_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#define HOSTLIST_NAME_MAX 63 /* bytes of one name, as for every name of a node, rack or pod */

struct hostlist {
    char **names; /* in the order in which they were written; a name that is written twice is there twice */
    size_t n;
};

/* The names that text stands for, at most `limit`, each 1 to 63 letters, digits, ".", "_" and "-", the first a letter or digit.
 * 0 and *out (hostlist_clear), or -1 with the second half of a sentence and *out empty. Costs nothing before the count is known to be within
 * the limit. */
int hostlist_expand(const char *text, size_t limit, struct hostlist *out, struct err *err);
void hostlist_clear(struct hostlist *list);

/* Is it one name by the rule above, without brackets or commas? */
bool hostlist_is_name(const char *name);

#endif
