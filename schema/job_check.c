/* job_check: what no single field can know. First the numbers that follow from others are filled in, then each rule looks at the
 * whole. A rule whose fields were already found wrong keeps silent, so that one mistake gives one sentence. The rules of a
 * training job are in job_check_model.c, job_check_training.c and job_check_runtime.c; those of uploads in job_check_upload.c. */
#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "schema/job_rules.h"

bool job_all_sound(const struct job_reader *r, const char *const *paths)
{
    bool all = true;
    for (size_t i = 0; paths[i] && all; i++)
        all = job_sound(r, paths[i]);
    return all;
}

void job_mark_bad(struct job_reader *r, const char *path)
{
    r->fields[job_field_index(path)].bad = true;
}

void job_fill(const struct job_reader *r, const char *path, int64_t *out, int64_t value)
{
    if (!job_given(r, path))
        *out = value;
}

void job_fill_real(const struct job_reader *r, const char *path, double *out, double value)
{
    if (!job_given(r, path))
        *out = value;
}

/* ---- train or run ---- */

static void check_kind(struct job_reader *r)
{
    bool train = job_given(r, "train"), run = job_given(r, "run");
    struct mark top = {1, 1, NULL};
    r->spec->is_train = train;
    if (train && run)
        COMPLAIN(r, "run", "a job has either train (the bundled runtime) or run (any program), not both");
    else if (!train && !run)
        diag_add(r->diag, top, "the job does nothing: add train (the bundled runtime) or run (any program)");
}

/* ---- the mesh ---- */

static bool mesh_product(const struct job_spec *s, int64_t *out)
{
    return !__builtin_mul_overflow(s->tp, s->pp, out) && !__builtin_mul_overflow(*out, s->cp, out) &&
           !__builtin_mul_overflow(*out, s->dp, out) && *out <= JOB_RANKS_MAX;
}

static void complain_large_mesh(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    diag_add(r->diag, job_place(r, "parallel"),
             "parallel: tp x pp x cp x dp = %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
             " is more than %d ranks, the most that a job may have",
             s->tp, s->pp, s->cp, s->dp, JOB_RANKS_MAX);
    job_mark_bad(r, "parallel.dp");
}

/* run.ranks without parallel.dp: dp is what is left. */
static void derive_dp(struct job_reader *r)
{
    struct job_spec *s = r->spec;
    int64_t inner = 0;
    s->dp = 1;
    if (!mesh_product(s, &inner)) {
        complain_large_mesh(r);
    } else if (s->ranks % inner != 0) {
        COMPLAIN(r, "run.ranks",
                 "%" PRId64 " ranks cannot be divided by tp x pp x cp = %" PRId64 " x %" PRId64 " x %" PRId64
                 " = %" PRId64,
                 s->ranks, s->tp, s->pp, s->cp, inner);
        job_mark_bad(r, "parallel.dp");
    } else {
        s->dp = s->ranks / inner;
    }
}

static void derive_ranks(struct job_reader *r, bool ranks_given)
{
    struct job_spec *s = r->spec;
    int64_t product = 0;
    s->dp = s->dp ? s->dp : 1;
    if (!mesh_product(s, &product))
        complain_large_mesh(r);
    else if (ranks_given && s->ranks != product)
        COMPLAIN(r, "run.ranks",
                 "%" PRId64 " ranks, but tp x pp x cp x dp = %" PRId64 " x %" PRId64 " x %" PRId64
                 " x %" PRId64 " = %" PRId64 "; make them equal or leave one of ranks and dp away",
                 s->ranks, s->tp, s->pp, s->cp, s->dp, product);
    else
        s->ranks = product;
}

/* Only a checkpoint of the bundled runtime loads on any mesh. */
static void check_range(struct job_reader *r)
{
    struct job_spec *s = r->spec;
    char range[JOB_RANGE_SIZE];
    if (job_elastic(s) && !s->is_train && SOUND(r, "parallel.dp"))
        COMPLAIN(r, "parallel.dp",
                 "the range %s is only for train jobs, whose checkpoints load on any mesh; give one number",
                 job_range_print(range, s));
    else if (!job_elastic(s))
        s->dp_min = s->dp_max = s->dp;
}

static void check_mesh(struct job_reader *r)
{
    bool ranks_given = !r->spec->is_train && job_given(r, "run.ranks");
    if (!SOUND(r, "parallel.tp", "parallel.pp", "parallel.cp", "parallel.dp", "run.ranks", "parallel"))
        job_mark_bad(r, "parallel.dp");
    else if (ranks_given && !job_given(r, "parallel.dp"))
        derive_dp(r);
    else
        derive_ranks(r, ranks_given);
    check_range(r);
}

static void check_expert_parallel(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    if (s->ep == 1 || !SOUND(r, "parallel.ep", "parallel.cp", "parallel.dp", "train.model.experts"))
        return;
    if (s->dp * s->cp % s->ep != 0)
        COMPLAIN(r, "parallel.ep",
                 "%" PRId64 " does not divide dp x cp = %" PRId64 " x %" PRId64 " = %" PRId64, s->ep, s->dp,
                 s->cp, s->dp * s->cp);
    else if (s->is_train && s->train.model.experts == 0)
        COMPLAIN(r, "parallel.ep", "%" PRId64 " needs a model with experts; use ep: 1", s->ep);
}

/* ---- notify ---- */

static void check_notify(struct job_reader *r)
{
    const char *url = r->spec->notify_url;
    if (!url && job_given(r, "notify.on") && !job_given(r, "notify.url")) {
        COMPLAIN(r, "notify.on", "has no effect without notify.url");
        return;
    }
    if (!url)
        return;
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    char quoted[DIAG_QUOTE_SIZE];
    if (!scheme || !url[scheme] || url[scheme] == '/' || strpbrk(url, " \t\r\n\"<>\\"))
        COMPLAIN(r, "notify.url", "must be an http:// or https:// address without spaces, not %s",
                 diag_quote(quoted, url));
}

/* ---- all ---- */

/* The interleaved schedule cuts each rank's part of the model into pieces. */
static void fill_virtual_stages(struct job_reader *r)
{
    struct job_spec *s = r->spec;
    if (!job_given(r, "parallel.virtual_stages"))
        s->virtual_stages = s->pipeline == PIPELINE_INTERLEAVED ? 2 : 1;
    if (s->virtual_stages > 1 && s->pipeline != PIPELINE_INTERLEAVED &&
        SOUND(r, "parallel.virtual_stages", "parallel.schedule"))
        COMPLAIN(r, "parallel.virtual_stages",
                 "only the interleaved schedule has virtual stages; add schedule: interleaved");
}

static int64_t sum_of(const int64_t *numbers, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += numbers[i];
    return sum;
}

/* Stages that are given, against the mesh and the model. */
static void check_stages(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    int64_t pieces = s->pp * s->virtual_stages, layers = s->train.model.layers,
            sum = sum_of(s->stages, s->n_stages);
    if (s->n_stages == 0 ||
        !SOUND(r, "parallel.stages", "parallel.pp", "parallel.virtual_stages", "parallel.schedule"))
        return;
    if ((int64_t)s->n_stages != pieces)
        COMPLAIN(r, "parallel.stages",
                 "has %zu pieces, but pp x virtual_stages = %" PRId64 " x %" PRId64 " = %" PRId64
                 "; give as many",
                 s->n_stages, s->pp, s->virtual_stages, pieces);
    else if (s->is_train && sum != layers && job_given(r, "train.model") &&
             SOUND(r, "train.model", "train.model.layers"))
        COMPLAIN(r, "parallel.stages",
                 "has %" PRId64 " layers together, but the model has %" PRId64
                 "; change the list or train.model.layers",
                 sum, layers);
}

static void check_train(struct job_reader *r)
{
    job_check_model(r);
    job_check_sizes(r);
    check_expert_parallel(r); /* a preset may have experts */
    job_check_training(r);
    if (!r->plan_only)
        job_check_runtime(r);
    if (!r->spec->checkpoint.directory)
        r->spec->checkpoint.directory = str_printf("ckpt-%s", r->spec->name);
}

void job_check(struct job_reader *r)
{
    check_kind(r);
    check_mesh(r);
    fill_virtual_stages(r);
    if (r->spec->is_train && SOUND(r, "train", "run"))
        check_train(r);
    else
        check_expert_parallel(r);
    check_stages(r);
    job_check_upload(r);
    check_notify(r);
}
