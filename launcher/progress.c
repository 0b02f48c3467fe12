/* progress: see progress.h. On a terminal one line is drawn over and over, at most every DRAW_EVERY_MS; elsewhere a line is a line. */
#include "launcher/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/format.h"
#include "launcher/jobview.h"
#include "launcher/terminal.h"
#include "launcher/text.h"

#define LINE_EVERY_MS  5000  /* without a terminal */
#define DRAW_EVERY_MS  50    /* on one: faster than that nobody reads */
#define RATE_WINDOW_MS 30000 /* the time to go is reckoned from this much of the past */
#define BAR_MIN        8
#define BAR_MAX        40
#define REST_COLUMNS   72 /* what the line takes beside its bar, about */

struct sample {
    int64_t step, at_ms;
};

struct progress {
    FILE *out;
    bool redraws, drawn;
    int64_t shown_ms, shown_step;
    char state[32];
    char *text; /* of the line as it was shown */
    int64_t attempt;
    bool loading;                 /* no step of this attempt has been seen yet */
    struct sample oldest, middle; /* of this attempt; two, so that the window slides */
};

struct progress *progress_new(FILE *out)
{
    struct progress *p = mem_zero(1, sizeof *p);
    *p = (struct progress){.out = out, .redraws = terminal_redraws(out), .shown_step = -1};
    p->oldest.step = p->middle.step = -1;
    return p;
}

void progress_free(struct progress *p)
{
    if (p)
        free(p->text);
    free(p);
}

/* Steps per second over the window; 0 = not known yet. */
static double rate(struct progress *p, const json_t *job, int64_t now_ms)
{
    int64_t step = jsonx_int_or(job, "step", -1), attempt = jsonx_int_or(job, "attempt", 0);
    bool fresh = attempt != p->attempt || step < p->middle.step || p->middle.step < 0;
    if (fresh || (p->loading && step > p->middle.step)) { /* loading is no part of a step's time */
        p->attempt = attempt;
        p->loading = fresh;
        p->oldest = p->middle = (struct sample){step, now_ms};
    } else if (now_ms - p->middle.at_ms > RATE_WINDOW_MS) {
        p->oldest = p->middle;
        p->middle = (struct sample){step, now_ms};
    }
    double seconds = (double)(now_ms - p->oldest.at_ms) / 1000;
    return !p->loading && p->oldest.step >= 0 && seconds >= 0.5 ? (double)(step - p->oldest.step) / seconds
                                                                : 0;
}

static char *bar_text(double done, size_t columns, bool utf8)
{
    const char *full = utf8 ? "━" : "#", *empty = utf8 ? "╌" : "-";
    size_t filled = (size_t)(fmin(fmax(done, 0), 1) * (double)columns + 0.5), len = 0;
    char *text = NULL;
    FILE *f = open_memstream(&text, &len);
    if (!f)
        abort();
    for (size_t i = 0; i < columns; i++)
        fputs(i < filled ? full : empty, f);
    fclose(f);
    return text;
}

/* Adds "  text" when text is not empty. */
static void add(char **line, const char *before, const char *text, const char *after)
{
    if (!*text)
        return;
    char *more = str_printf("%s%s%s%s%s", *line, **line ? "  " : "", before, text, after);
    free(*line);
    *line = more;
}

static void add_steps(char **line, int64_t step, int64_t steps, size_t bar, bool utf8)
{
    char text[FORMAT_SIZE], percent[FORMAT_SIZE] = "";
    double done = steps > 0 && step >= 0 ? (double)step / (double)steps : 0;
    if (bar && steps > 0 && step >= 0) {
        char *drawn = bar_text(done, bar, utf8);
        add(line, "", drawn, "");
        free(drawn);
    }
    add(line, bar ? "" : "step ", format_step(step, steps, text), "");
    if (steps > 0 && step >= 0)
        snprintf(percent, sizeof percent, "%d%%", (int)(done * 100));
    add(line, "", percent, "");
}

/* A guess needs no tenths. */
static char *whole_seconds(double seconds, char out[FORMAT_SIZE])
{
    if (seconds >= 60)
        return format_seconds(seconds, out);
    snprintf(out, FORMAT_SIZE, "%ds", (int)ceil(seconds));
    return out;
}

char *progress_text(const json_t *job, double step_rate, size_t bar, bool utf8)
{
    char text[FORMAT_SIZE];
    int64_t step = jsonx_int_or(job, "step", -1), steps = jsonx_int_or(job, "steps", -1);
    const char *state = jsonx_str_or(job, "state", "?");
    bool running = strcmp(state, "running") == 0;
    char *line = str_dup("");
    add(&line, "", jsonx_str_or(job, "name", "?"), "");
    add_steps(&line, step, steps, bar, utf8);
    add(&line, "loss ", format_loss(jsonx_real_or(job, "loss", NAN), text), "");
    if (running)
        add(&line, "", format_count(jsonx_real_or(job, "tokens_per_second", NAN), text), " tokens/s");
    if (running && step_rate > 0 && steps > step)
        add(&line, "eta ", whole_seconds((double)(steps - step) / step_rate, text), "");
    const char *phase = jsonx_str_or(job, "phase", "");
    if (!running || (!*phase && step < 0))
        add(&line, "", state, "");
    else if (strcmp(phase, "training") != 0)
        add(&line, "", phase, "");
    char *clean = text_clean(line);
    free(line);
    return clean;
}

static void draw(struct progress *p, const char *text)
{
    size_t width = terminal_width(p->out);
    fprintf(p->out, "\r\033[K%.*s", (int)text_prefix(text, width > 1 ? width - 1 : 1), text);
    p->drawn = true;
    fflush(p->out);
}

/* Is there something new worth showing? Without a terminal only steps are: what else happens is told by notes. */
static bool worth_showing(const struct progress *p, const json_t *job, int64_t now_ms)
{
    int64_t step = jsonx_int_or(job, "step", -1), passed = now_ms - p->shown_ms;
    if (p->redraws)
        return strcmp(jsonx_str_or(job, "state", "?"), p->state) != 0 || passed >= DRAW_EVERY_MS;
    return step >= 0 && step != p->shown_step && (passed >= LINE_EVERY_MS || jobview_final(job));
}

/* The bar gets what the rest of the line leaves. */
static size_t bar_columns(const struct progress *p)
{
    size_t width = p->redraws ? terminal_width(p->out) : 0;
    if (!p->redraws)
        return 0;
    return width < REST_COLUMNS + BAR_MIN   ? BAR_MIN
           : width > REST_COLUMNS + BAR_MAX ? BAR_MAX
                                            : width - REST_COLUMNS;
}

void progress_job(struct progress *p, const json_t *job, int64_t now_ms)
{
    double steps_per_s = rate(p, job, now_ms);
    if (!worth_showing(p, job, now_ms))
        return;
    char *text = progress_text(job, steps_per_s, bar_columns(p), terminal_utf8());
    if (!p->redraws)
        fprintf(p->out, "%s\n", text);
    else if (!p->drawn || strcmp(text, p->text) != 0)
        draw(p, text);
    fflush(p->out);
    free(p->text);
    p->text = text;
    snprintf(p->state, sizeof p->state, "%s", jsonx_str_or(job, "state", "?"));
    p->shown_ms = now_ms;
    p->shown_step = jsonx_int_or(job, "step", -1);
}

void progress_note(struct progress *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = text_clean_vprintf(fmt, ap);
    va_end(ap);
    fprintf(p->out, "%s%s\n", p->drawn ? "\r\033[K" : "", text);
    fflush(p->out);
    p->drawn = false;
    if (p->redraws)
        p->shown_ms = 0; /* the progress line is drawn again at the next look */
    free(text);
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        fputc('\n', p->out);
    p->drawn = false;
    fflush(p->out);
}
