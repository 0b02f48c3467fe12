/* ckptmeter: see ckptmeter.h. Whoever has read something draws, unless another thread is at it or has just been. */
#include "launcher/ckptmeter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "launcher/format.h"
#include "launcher/terminal.h"

#define REDRAW_MS 200

struct ckptmeter {
    const char *verb;
    uint64_t total;
    bool shown;
    struct digest_watch watch;
    atomic_uint_fast64_t seen;
    pthread_mutex_t drawing;
    int64_t drawn_ms, began_ms;
};

static void draw(const struct ckptmeter *m, int64_t now)
{
    char done[FORMAT_SIZE], all[FORMAT_SIZE], rate[FORMAT_SIZE];
    uint64_t seen = atomic_load(&m->seen);
    double seconds = (double)(now - m->began_ms) / 1000;
    format_bytes((int64_t)seen, done);
    format_bytes((int64_t)m->total, all);
    format_bytes((int64_t)((double)seen / (seconds > 0 ? seconds : 1)), rate);
    fprintf(stderr, "\r%s: %s of %s, %s/s\033[K", m->verb, done, all, rate);
    fflush(stderr);
}

static void seen(void *arg, size_t bytes)
{
    struct ckptmeter *m = arg;
    atomic_fetch_add(&m->seen, bytes);
    if (!m->shown || pthread_mutex_trylock(&m->drawing) != 0)
        return;
    int64_t now = clock_boot_ms();
    if (now - m->drawn_ms >= REDRAW_MS) {
        m->drawn_ms = now;
        draw(m, now);
    }
    pthread_mutex_unlock(&m->drawing);
}

struct ckptmeter *ckptmeter_new(const char *verb, uint64_t total)
{
    struct ckptmeter *m = mem_zero(1, sizeof *m);
    m->verb = verb;
    m->total = total;
    m->shown = terminal_redraws(stderr);
    m->watch = (struct digest_watch){seen, m};
    m->began_ms = m->drawn_ms = clock_boot_ms();
    pthread_mutex_init(&m->drawing, NULL);
    return m;
}

const struct digest_watch *ckptmeter_watch(const struct ckptmeter *meter)
{
    return &meter->watch;
}

void ckptmeter_end(struct ckptmeter *meter)
{
    if (meter->drawn_ms != meter->began_ms)
        fprintf(stderr, "\r\033[K");
    pthread_mutex_destroy(&meter->drawing);
    free(meter);
}
