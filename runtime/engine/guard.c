/* guard: see guard.h. Two rings: the newest fine steps, and the steps of the newest spikes. Medians come from a sorted copy: a window of
 * 10,000 takes a millisecond, less than any step that is worth guarding. */
#include "runtime/engine/guard.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define KNOWN_MIN    8      /* fine steps before a loss can be too large */
#define SPREADS      6      /* normal noise reaches that once in 1e9 steps */
#define SPREAD_SCALE 1.4826 /* standard deviations in the median distance from the median, of normal noise */
#define LOSS_FLOOR   0.5    /* nats; a smaller jump costs nothing that matters */
#define NORM_RATIO   10 /* batches of few sequences have gradients of 16 times the usual norm now and then */

struct fine {
    int64_t step;
    double loss, norm;
};

struct guard {
    enum job_guard action;
    double factor;
    bool clipped; /* gradients are: large ones do no harm */
    size_t window, patience;
    struct fine *fine; /* [window], oldest first */
    size_t n_fine;
    int64_t left_out; /* step of the newest spike that is a number and whose update was skipped; 0 = none */
    int64_t *spikes;  /* [patience], oldest first */
    size_t n_spikes;
    double *sorted; /* [window], scratch */
};

struct guard *guard_new(const struct job_train *train)
{
    struct guard *g = mem_zero(1, sizeof *g);
    g->action = train->guard_action;
    g->factor = train->guard_factor;
    g->clipped = train->optimizer.clip > 0;
    g->window = (size_t)train->guard_window;
    g->patience = (size_t)train->guard_patience;
    g->fine = mem_zero(g->window, sizeof *g->fine);
    g->sorted = mem_zero(g->window, sizeof *g->sorted);
    g->spikes = mem_zero(g->patience, sizeof *g->spikes);
    return g;
}

void guard_free(struct guard *guard)
{
    if (!guard)
        return;
    free(guard->fine);
    free(guard->sorted);
    free(guard->spikes);
    free(guard);
}

/* ---- what is usual ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

struct usual {
    double median, spread;
};

/* Of g->sorted, which is overwritten. */
static struct usual usual_of(struct guard *g)
{
    struct usual u = {.median = median(g->sorted, g->n_fine)};
    for (size_t i = 0; i < g->n_fine; i++)
        g->sorted[i] = fabs(g->sorted[i] - u.median);
    u.spread = SPREAD_SCALE * median(g->sorted, g->n_fine);
    return u;
}

static struct usual usual_loss(struct guard *g)
{
    for (size_t i = 0; i < g->n_fine; i++)
        g->sorted[i] = g->fine[i].loss;
    return usual_of(g);
}

static struct usual usual_norm(struct guard *g)
{
    for (size_t i = 0; i < g->n_fine; i++)
        g->sorted[i] = g->fine[i].norm;
    return usual_of(g);
}

/* ---- what is a spike ---- */

static double limit_of(const struct usual *u, double factor, double floor)
{
    return fmax(fmax(factor * u->median, u->median + SPREADS * u->spread), u->median + floor);
}

static bool is_known(const struct guard *g)
{
    return g->n_fine >= (g->window < KNOWN_MIN ? g->window : KNOWN_MIN);
}

/* Is the loss or the norm of a step a spike? Then -1 with what is wrong, without an end. */
static int check(struct guard *g, double loss, double norm, struct err *why)
{
    if (!isfinite(loss))
        return err_set(why, "the loss is %g", loss);
    if (!isfinite(norm))
        return err_set(why, "the gradient norm is %g", norm);
    if (!is_known(g))
        return 0;
    struct usual u = usual_loss(g);
    if (loss > limit_of(&u, g->factor, LOSS_FLOOR))
        return err_set(why, "the loss %.4g is far above the median %.4g of the last %zu good steps", loss,
                       u.median, g->n_fine);
    if (g->clipped)
        return 0;
    u = usual_norm(g);
    if (norm > limit_of(&u, NORM_RATIO * g->factor, 0))
        return err_set(why, "the gradient norm %.4g is far above the median %.4g of the last %zu good steps",
                       norm, u.median, g->n_fine);
    return 0;
}

/* ---- what is remembered ---- */

/* After a rollback the steps from here on come again. */
static void forget_from(struct guard *g, int64_t step)
{
    while (g->n_fine > 0 && g->fine[g->n_fine - 1].step >= step)
        g->n_fine--;
}

static void remember_fine(struct guard *g, int64_t step, double loss, double norm)
{
    if (g->n_fine == g->window)
        memmove(g->fine, g->fine + 1, --g->n_fine * sizeof *g->fine);
    g->fine[g->n_fine++] = (struct fine){step, loss, norm};
}

static void remember_spike(struct guard *g, int64_t step)
{
    if (g->n_spikes == g->patience)
        memmove(g->spikes, g->spikes + 1, --g->n_spikes * sizeof *g->spikes);
    g->spikes[g->n_spikes++] = step;
}

static bool is_remembered(const struct guard *g, int64_t step)
{
    for (size_t i = 0; i < g->n_spikes; i++)
        if (g->spikes[i] == step)
            return true;
    return false;
}

/* Remembered spikes near a step, in either direction: after a rollback they may be ahead of it. */
static size_t spikes_near(const struct guard *g, int64_t step)
{
    size_t near = 0;
    for (size_t i = 0; i < g->n_spikes; i++) {
        int64_t away = g->spikes[i] > step ? g->spikes[i] - step : step - g->spikes[i];
        near += away < (int64_t)g->window;
    }
    return near;
}

/* ---- what is done ---- */

static void give_up(const struct guard *g, int64_t step, const char *what, struct err *why)
{
    if (g->action == JOB_GUARD_STOP)
        err_set(why,
                "step %" PRId64 ": %s; the job stops as train.guard.action says; go on from an older "
                "checkpoint (checkpoint.resume) with a lower "
                "train.optimizer.lr, or with train.guard.action: skip or rollback",
                step, what);
    else
        err_set(why,
                "step %" PRId64 ": %s, after %zu spikes within %zu steps; the job stops; go on from an older "
                "checkpoint (checkpoint.resume) with a "
                "lower train.optimizer.lr, or raise train.guard.patience",
                step, what, g->patience, g->window);
}

static enum guard_verdict answer(const struct guard *g, int64_t step, bool bear, const char *what,
                                 struct err *why)
{
    bool skip = g->action == JOB_GUARD_SKIP;
    size_t near = spikes_near(g, step);
    if (g->action == JOB_GUARD_STOP || near >= g->patience) {
        give_up(g, step, what, why);
        return GUARD_STOP;
    }
    if (bear) {
        err_set(why,
                "step %" PRId64
                ": %s, as after the step before, which was skipped; the weights must be off, so "
                "the update is applied (spike %zu of at most %zu within %zu steps)",
                step, what, near + 1, g->patience, g->window);
        return GUARD_BEAR;
    }
    err_set(why, "step %" PRId64 ": %s; %s (spike %zu of at most %zu within %zu steps)", step, what,
            skip ? "its update is skipped" : "back to the newest checkpoint, past the data since then",
            near + 1, g->patience, g->window);
    return skip ? GUARD_SKIP : GUARD_ROLLBACK;
}

/* A spike of the action skip: is it the second in a row? Remembers it for the next. */
static bool is_second(struct guard *g, int64_t step, double loss, double norm)
{
    bool number = isfinite(loss) && isfinite(norm), second = g->left_out > 0 && step == g->left_out + 1;
    bool bear = g->action == JOB_GUARD_SKIP && number && second;
    g->left_out = number && !bear ? step : 0;
    return bear;
}

enum guard_verdict guard_judge(struct guard *guard, int64_t step, double loss, double grad_norm,
                               struct err *why)
{
    struct err what;
    if (guard->action == JOB_GUARD_OFF)
        return GUARD_FINE;
    forget_from(guard, step);
    if (check(guard, loss, grad_norm, &what) == 0) {
        remember_fine(guard, step, loss, grad_norm);
        return GUARD_FINE;
    }
    bool bear = is_second(guard, step, loss, grad_norm);
    enum guard_verdict verdict = answer(guard, step, bear, what.text, why);
    remember_spike(guard, step);
    return verdict;
}

void guard_feed(struct guard *guard, int64_t step, double loss, double grad_norm)
{
    forget_from(guard, step);
    if (check(guard, loss, grad_norm, NULL) == 0) {
        remember_fine(guard, step, loss, grad_norm);
        return;
    }
    (void)is_second(guard, step, loss, grad_norm);
    if (!is_remembered(guard, step))
        remember_spike(guard, step);
}
