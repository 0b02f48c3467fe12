/* err: one human sentence about what went wrong, owned by the caller.
 *
 * Functions that can fail take `struct err *err` last and return -1 (or NULL). They fill it with a sentence that names
 * what, where and what to do next. `return err_set(err, "…")` reads well because the printers return -1. */
#ifndef BELAY_COMMON_ERR_H
#define BELAY_COMMON_ERR_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err {
    char text[1024]; /* "" = no error; cut with "…" when longer */
};

/* Prints the sentence into err (err may be NULL: then nothing is kept). Always returns -1. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_set, then adds ": " and the text of the current errno. Always returns -1. */
int err_sys(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "what: " before the sentence already in err. Always returns -1. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
