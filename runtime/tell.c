/* tell: see tell.h. */
#include "runtime/tell.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"

#define PRINT_INTERVAL_S 0.1 /* at most ten lines a second */

/* Idle part of this rank's pipelined time. */
static double bubble(const struct run *run, const struct step *s)
{
    const struct engine_result *r = &s->result;
    return run->mesh.size.pp > 1 && r->span_s > 0 ? 1 - r->busy_s / r->span_s : 0;
}

/* Sums over the run, for the end. */
static struct {
    double busy_s, span_s;
    struct step_traffic tp, pp, cp, ep, dp;
    int64_t steps;
} total;

static void add_traffic(struct step_traffic *sum, const struct step_traffic *x)
{
    sum->seconds += x->seconds;
    sum->bytes += x->bytes;
}

static void add_up(const struct step *s)
{
    total.busy_s += s->result.busy_s;
    total.span_s += s->result.span_s;
    total.steps++;
    add_traffic(&total.tp, &s->tp);
    add_traffic(&total.pp, &s->pp);
    add_traffic(&total.cp, &s->cp);
    add_traffic(&total.ep, &s->ep);
    add_traffic(&total.dp, &s->dp);
}

/* The peak was measured in an instant (host_gemm_peak), when others may have used the cores. A step that came to more shows that it is higher. */
static void raise_peak(struct run *run, const struct step *s)
{
    static bool told;
    const struct job_train *t = &run->spec->train;
    double flops = run_step_tokens(run) / s->seconds *
                   model_hardware_flops_per_token(&t->model, (size_t)t->model.context, t->recompute);
    if (run->peak <= 0 || flops <= run->peak)
        return;
    if (!told)
        printf("step %5" PRId64
               "  came to %.1f GFLOP/s, more than the %.1f of sgemm at the start (others used "
               "the cores then): mfu counts by the fastest step from here on\n",
               run->state.step, flops / 1e9, run->peak / 1e9);
    told = true;
    run->peak = flops;
}

static struct metrics_row make_row(const struct run *run, const struct step *s, double held)
{
    const struct job_train *t = &run->spec->train;
    size_t context = (size_t)t->model.context;
    double rate = run_step_tokens(run) / s->seconds;
    double model = model_flops_per_token(&t->model, context);
    double hardware = model_hardware_flops_per_token(&t->model, context, t->recompute);
    return (struct metrics_row){.step = run->state.step,
                                .loss = s->result.loss,
                                .grad_norm = s->result.norm,
                                .lr = s->lr,
                                .tokens = run->state.tokens,
                                .step_ms = (float)(s->seconds * 1e3),
                                .tokens_per_second = (float)rate,
                                .mfu = run->peak > 0 ? (float)(rate * model / run->peak) : 0,
                                .hfu = run->peak > 0 ? (float)(rate * hardware / run->peak) : 0,
                                .compute_ms = (float)((s->seconds - s->wait_s) * 1e3),
                                .wait_ms = (float)(s->wait_s * 1e3),
                                .attempt = run->state.attempt,
                                .router_loss = s->result.router,
                                .held_loss = held,
                                .bubble = (float)bubble(run, s),
                                .staged_ms = (float)(run->held_up.staged_s * 1e3),
                                .durable_ms = (float)(run->held_up.durable_s * 1e3),
                                .skipped = s->verdict != GUARD_FINE,
                                .axis_ms = {(float)(s->tp.seconds * 1e3), (float)(s->cp.seconds * 1e3),
                                            (float)(s->pp.seconds * 1e3), (float)(s->ep.seconds * 1e3),
                                            (float)(s->dp.seconds * 1e3)},
                                .axis_mib = {(float)(s->tp.bytes / 1048576), (float)(s->cp.bytes / 1048576),
                                             (float)(s->pp.bytes / 1048576), (float)(s->ep.bytes / 1048576),
                                             (float)(s->dp.bytes / 1048576)}};
}

static void print_row(const struct run *run, const struct metrics_row *row)
{
    static double printed; /* when the last line went out */
    double now = clock_monotonic_s();
    if (!isnan(row->held_loss))
        printf("step %5" PRId64 "  held-out loss %.4f  perplexity %.2f\n", row->step, row->held_loss,
               exp(row->held_loss));
    if (now - printed < PRINT_INTERVAL_S && row->step != run->spec->train.steps)
        return;
    printed = now;
    printf("step %5" PRId64 "/%" PRId64
           "  loss %.4f  norm %.3f  lr %.2e  %.0f tokens/s  mfu %.0f %%  %.0f ms\n",
           row->step, run->spec->train.steps, row->loss, row->grad_norm, row->lr,
           (double)row->tokens_per_second, 100 * (double)row->mfu, (double)row->step_ms);
}

/* The last step must arrive, or a finished run would look as if it had stopped before its end. */
static void send_step(struct run *run, const struct metrics_row *row)
{
    char lines[512];
    int64_t steps = run->spec->train.steps;
    (void)snprintf(lines, sizeof lines,
                   "STEP=%" PRId64 "\nSTEPS=%" PRId64 "\nLOSS=%.9g\nTOKENS=%" PRIu64
                   "\nTOKENS_PER_SECOND=%.6g\nMFU=%.4g\nCOMPUTE_MS=%.6g\nWAIT_MS=%.6g",
                   row->step, steps, row->loss, row->tokens, (double)row->tokens_per_second, (double)row->mfu,
                   (double)row->compute_ms, (double)row->wait_ms); /* about 200 bytes */
    if (row->step == steps)
        notify_keep(run->notify, "%s", lines);
    else
        notify_send(run->notify, "%s", lines);
}

/* On a disk that is full rows wait in memory, which is told once. */
static void append_row(const struct run *run, const struct metrics_row *row)
{
    static bool failing;
    struct err err;
    bool failed = metrics_append(run->metrics, row, &err) != 0;
    if (failed && !failing)
        log_warn("%s", err.text);
    failing = failed;
}

void tell_step(struct run *run, const struct step *step, double held)
{
    if (run->rank == 0) /* the rank whose mfu is told */
        raise_peak(run, step);
    struct metrics_row row = make_row(run, step, held);
    add_up(step);
    run->held_up.staged_s = run->held_up.durable_s = 0;
    if (run->rank != 0) {
        notify_send(run->notify, "STEP=%" PRId64 "\nCOMPUTE_MS=%.6g\nWAIT_MS=%.6g", row.step,
                    (double)row.compute_ms, (double)row.wait_ms);
        return;
    }
    append_row(run, &row);
    print_row(run, &row);
    send_step(run, &row);
}

static void print_axis(const char *name, const struct step_traffic *t, int ranks)
{
    double steps = (double)total.steps;
    if (ranks > 1)
        printf("  %s: %.1f MiB sent and %.2f ms waited a step\n", name, t->bytes / steps / 1048576,
               t->seconds / steps * 1e3);
}

/* What the device had to hold, beside what `belay plan` says. */
static void print_memory(const struct run *run)
{
    struct kernel_memory m;
    run->kernels->memory(&m);
    if (run->rank == 0 && run->backend->cuda && total.steps > 0)
        printf("memory of GPU %d at most: %.2f GiB of %.2f GiB\n", run->backend->number,
               (double)m.peak / (1 << 30), (double)m.device / (1 << 30));
}

void tell_end(struct run *run)
{
    const struct mesh_sizes *m = &run->mesh.size;
    /* the pipeline is as long as its longest rank; the bubble is what all of them together idle in that time */
    double busy = comm_sum_double(run->mesh.world, total.busy_s) / run->size;
    double span = comm_sum_double(run->mesh.world, total.span_s) / run->size;
    print_memory(run);
    if (run->rank != 0 || total.steps == 0 || run->size == 1)
        return;
    printf("of rank 0, over %" PRId64 " steps:\n", total.steps);
    print_axis("tensor parallelism", &total.tp, m->tp);
    print_axis("context parallelism", &total.cp, m->cp);
    print_axis("pipeline", &total.pp, m->pp);
    print_axis("expert parallelism", &total.ep, m->ep);
    print_axis("data parallelism", &total.dp, m->dp * m->cp);
    if (m->pp > 1 && run->backend->cuda)
        printf("  bubble of the pipeline: %.1f %% by formula\n", 100 * engine_bubble(run->engine));
    else if (m->pp > 1 && span > 0)
        printf("  bubble of the pipeline, mean of all ranks: %.1f %% measured, %.1f %% by formula\n",
               100 * (1 - busy / span), 100 * engine_bubble(run->engine));
}
