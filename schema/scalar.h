/* scalar: the words of a job file as numbers, sizes and durations, and back.
 *
 * The readers return 0, or -1 with the second half of a sentence, e.g. `must be a whole number from 1 to 8, not "x"`. They
 * accept one spelling each: what other YAML tools might read differently (1_000, 0x10, 010, 1:30, yes) is refused. */
#ifndef BELAY_SCHEMA_SCALAR_H
#define BELAY_SCHEMA_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* What a YAML 1.1 tool makes of a word without quotes. */
enum scalar_class {
    SCALAR_TEXT,
    SCALAR_NULL,
    SCALAR_BOOL,
    SCALAR_NUMBER,     /* decimal: every tool that keeps it as text keeps this text */
    SCALAR_ODD_NUMBER, /* 1_000, 0x10, 010, 1:30, 1e3, .5, +1, .inf: would come back as another text */
};
enum scalar_class scalar_classify(const char *text);

/* Whole number within min..max; finite number within low..high; true or false. */
int scalar_int(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err);
int scalar_real(const char *text, double low, double high, double *out, struct err *err);
int scalar_bool(const char *text, bool *out, struct err *err);
/* 512MiB, 1GiB, 2GB, 4096 (bytes); whole numbers. */
int scalar_size(const char *text, int64_t min, int64_t max, int64_t *out, struct err *err);
/* 500ms, 30s, 5m, 24h, 14d, in milliseconds. */
int scalar_duration(const char *text, int64_t min, int64_t max, int64_t *out_ms, struct err *err);
/* 450GB/s, 12.5GB/s or 400Gb/s (bits), powers of 1000, in bytes a second, above 0. */
int scalar_rate(const char *text, double *out_bytes_per_s, struct err *err);
/* 100ns, 2.5us, 1ms or 1s, in seconds, from 0 to 1000 s. */
int scalar_latency(const char *text, double *out_s, struct err *err);

#define SCALAR_PRINT_SIZE 40
/* Each prints what its reader reads back as the same value, in the largest unit that fits exactly. Returns out. */
const char *scalar_print_size(char out[SCALAR_PRINT_SIZE], int64_t bytes);
const char *scalar_print_duration(char out[SCALAR_PRINT_SIZE], int64_t ms);
const char *scalar_print_real(char out[SCALAR_PRINT_SIZE], double value);
/* These are for people, to six digits: 7.14286GB/s, 2.5us. */
const char *scalar_print_rate(char out[SCALAR_PRINT_SIZE], double bytes_per_s);
const char *scalar_print_latency(char out[SCALAR_PRINT_SIZE], double seconds);

#endif
