/* jsonx: typed, checked reading of JSON objects that came from outside. Each returns 0 or -1 with a sentence. */
#ifndef BELAY_COMMON_JSONX_H
#define BELAY_COMMON_JSONX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* The key must be there: a whole number within min..max; a string; an array. */
int jsonx_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *out, struct err *err);
int jsonx_str(const json_t *obj, const char *key, const char **out, struct err *err); /* borrowed */
int jsonx_array(const json_t *obj, const char *key, json_t **out, struct err *err);   /* borrowed */
/* 64 bits as 16 hexadecimal digits. */
int jsonx_hex(const json_t *obj, const char *key, uint64_t *out, struct err *err);

/* With a default for an absent or null key; a key of the wrong type gives the default too. */
int64_t jsonx_int_or(const json_t *obj, const char *key, int64_t fallback);
double jsonx_real_or(const json_t *obj, const char *key, double fallback);
bool jsonx_bool_or(const json_t *obj, const char *key, bool fallback);
const char *jsonx_str_or(const json_t *obj, const char *key, const char *fallback);

/* json_object_set_new that aborts on lack of memory; "x" sets null when value is NULL or (reals) not finite. */
void jsonx_set(json_t *obj, const char *key, json_t *value);
void jsonx_set_str(json_t *obj, const char *key, const char *value_or_null);
void jsonx_set_real(json_t *obj, const char *key, double value);
void jsonx_set_hex(json_t *obj, const char *key, uint64_t value);

/* Reads a JSON object file of at most limit bytes; a new reference or NULL. */
json_t *jsonx_read_file(const char *path, size_t limit, struct err *err);
/* Writes it durably (fs_write_durable). */
int jsonx_write_file(const char *path, const json_t *obj, struct err *err);

#endif
