/* notify_key: what a datagram to the notify socket may hold (docs/protocols.md, section 4), for who sends and who receives. */
#ifndef BELAY_SCHEMA_NOTIFY_KEY_H
#define BELAY_SCHEMA_NOTIFY_KEY_H

#include <stdbool.h>
#include <stddef.h>

#define NOTIFY_KEY_MAX      32
#define NOTIFY_DATAGRAM_MAX 4096

/* Capital letters, digits and '_', no digit first, at most NOTIFY_KEY_MAX bytes. */
bool notify_key_ok(const char *key, size_t len);

#endif
