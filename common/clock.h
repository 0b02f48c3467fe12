/* clock: the only places that read clocks. Liveness uses boot time (goes on in suspend), stored times are UTC. */
#ifndef BELAY_COMMON_CLOCK_H
#define BELAY_COMMON_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_boot_ms(void);    /* CLOCK_BOOTTIME in milliseconds */
double clock_monotonic_s(void); /* CLOCK_MONOTONIC in seconds, for measuring */
int64_t clock_utc_ms(void);     /* milliseconds since 1970-01-01 UTC */

#define CLOCK_UTC_SIZE 32
/* Writes "2026-01-31T12:00:00.123Z". Returns out. */
char *clock_format_utc(int64_t utc_ms, char out[CLOCK_UTC_SIZE]);

/* Writes a duration for people: "950ms", "12.3s", "4m05s", "2h10m", "3d04h". Returns out. */
char *clock_format_duration(int64_t ms, char *out, size_t size);

#endif
