/* job: the way from bytes to a spec: tree (tree.c), overrides (job_set.c), fields (job_read.c), checks (job_check.c). Everything
 * that is wrong is collected on the way and handed out together; a spec comes out only when nothing is. */
#include "schema/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "schema/job_read.h"

static struct job_spec *read_spec(const char *text, size_t len, const char *const *sets, size_t n_sets,
                                  bool plan_only, struct diag *d)
{
    struct tree_node *root = tree_parse(text, len, NULL, d);
    if (!root)
        return NULL;
    struct job_reader r = {.spec = mem_zero(1, sizeof *r.spec), .diag = d, .plan_only = plan_only};
    job_read_sets(root, sets, n_sets, d);
    job_read_tree(&r, root);
    if (root->kind == TREE_MAPPING)
        job_check(&r);
    tree_free(root);
    return r.spec;
}

struct job_spec *job_spec_from_tree(const struct tree_node *node, bool plan_only, struct diag *d)
{
    size_t before = diag_count(d);
    struct job_reader r = {.spec = mem_zero(1, sizeof *r.spec), .diag = d, .plan_only = plan_only};
    job_read_tree(&r, node);
    if (node->kind == TREE_MAPPING)
        job_check(&r);
    if (diag_count(d) == before)
        return r.spec;
    job_spec_free(r.spec);
    return NULL;
}

/* The completed file is what is stored and read again later, so it must be one that can be. It is checked only when the input is so
 * large that its longest escapes (\N becomes \u0085) and all defaults could make it too large. */
static void check_written_size(const struct job_spec *spec, size_t len, const char *const *sets,
                               size_t n_sets, struct diag *d)
{
    struct mark top = {1, 1, NULL};
    for (size_t i = 0; i < n_sets; i++)
        len += strlen(sets[i]);
    if (len < JOB_FILE_MAX / 8)
        return;
    char *yaml = job_spec_to_yaml(spec);
    if (strlen(yaml) > JOB_FILE_MAX)
        diag_add(d, top,
                 "the job has %zu bytes when it is written out in full; at most %u (1 MiB) are allowed",
                 strlen(yaml), JOB_FILE_MAX);
    free(yaml);
}

static int parse(const char *text, size_t len, const char *file, const char *const *sets, size_t n_sets,
                 bool plan_only, struct job_spec **out, struct job_diagnostics *diagnostics)
{
    struct diag *d = diag_new(file);
    struct job_spec *spec = read_spec(text, len, sets, n_sets, plan_only, d);
    if (diag_count(d) == 0)
        check_written_size(spec, len, sets, n_sets, d);
    bool ok = diag_count(d) == 0;
    if (!ok) {
        job_spec_free(spec);
        spec = NULL;
    }
    diag_finish(d, diagnostics);
    diag_free(d);
    *out = spec;
    return ok ? 0 : -1;
}

int job_spec_parse(const char *text, size_t len, const char *file, const char *const *sets, size_t n_sets,
                   struct job_spec **out, struct job_diagnostics *diagnostics)
{
    return parse(text, len, file, sets, n_sets, false, out, diagnostics);
}

int job_spec_parse_plan(const char *text, size_t len, const char *file, const char *const *sets,
                        size_t n_sets, struct job_spec **out, struct job_diagnostics *diagnostics)
{
    return parse(text, len, file, sets, n_sets, true, out, diagnostics);
}

/* ---- files ---- */

static int complain_file(const char *file, struct job_diagnostics *out, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int complain_file(const char *file, struct job_diagnostics *out, const char *fmt, ...)
{
    char text[400];
    struct mark at = {1, 1, NULL};
    struct diag *d = diag_new(file);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    diag_add(d, at, "%s", text);
    diag_finish(d, out);
    diag_free(d);
    return -1;
}

/* Reads until the end or until one byte more than allowed. The length, or -1 with errno. */
static ssize_t read_up_to(int fd, char *buf, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, buf + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* A large file is refused by its size, before it is read. */
static int check_stat(int fd, const char *file, struct job_diagnostics *out)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return complain_file(file, out, "cannot be read: %s", strerror(errno));
    if (S_ISDIR(st.st_mode))
        return complain_file(file, out, "is a folder; name the job file in it");
    if (S_ISREG(st.st_mode) && st.st_size > (off_t)JOB_FILE_MAX)
        return complain_file(file, out, "the file has %lld bytes; a job file has at most %u (1 MiB)",
                             (long long)st.st_size, JOB_FILE_MAX);
    return 0;
}

static int load_fd(int fd, const char *file, const char *const *sets, size_t n_sets, struct job_spec **out,
                   struct job_diagnostics *diagnostics)
{
    if (check_stat(fd, file, diagnostics) < 0)
        return -1;
    size_t size = (size_t)JOB_FILE_MAX + 1;
    char *text = mem_zero(size, 1);
    ssize_t len = read_up_to(fd, text, size);
    int rc = -1;
    if (len < 0)
        (void)complain_file(file, diagnostics, "cannot be read: %s", strerror(errno));
    else
        rc = job_spec_parse(text, (size_t)len, file, sets, n_sets, out, diagnostics);
    free(text);
    return rc;
}

int job_spec_load(const char *path, const char *const *sets, size_t n_sets, struct job_spec **out,
                  struct job_diagnostics *diagnostics)
{
    *out = NULL;
    if (strcmp(path, "-") == 0)
        return load_fd(STDIN_FILENO, "stdin", sets, n_sets, out, diagnostics);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return complain_file(path, diagnostics, "cannot be opened: %s", strerror(errno));
    int rc = load_fd(fd, path, sets, n_sets, out, diagnostics);
    (void)close(fd);
    return rc;
}

/* ---- the rest ---- */

void job_spec_free(struct job_spec *spec)
{
    if (!spec)
        return;
    for (size_t i = 0; spec->argv && spec->argv[i]; i++)
        free(spec->argv[i]);
    for (size_t i = 0; i < spec->n_env; i++) {
        free(spec->env[i].key);
        free(spec->env[i].value);
    }
    free(spec->argv);
    free(spec->env);
    for (size_t i = 0; i < spec->train.n_corpora; i++)
        free(spec->train.corpora[i].path);
    free(spec->train.corpora);
    free(spec->train.data_path);
    free(spec->train.from);
    free(spec->stages);
    free(spec->train.tokenizer);
    free(spec->train.eval_path);
    free(spec->checkpoint.directory);
    free(spec->checkpoint.upload.url);
    free(spec->checkpoint.upload.endpoint);
    free(spec->checkpoint.upload.region);
    free(spec->notify_url);
    free(spec);
}

/* Places from the nearer end: the last piece has 0, the first 1, the last but one 2, and so on. */
static int64_t rank_from_ends(int64_t piece, int64_t pieces)
{
    int64_t from_last = pieces - 1 - piece;
    return from_last <= piece ? 2 * from_last : 2 * piece + 1;
}

int64_t job_stage_layers(const struct job_spec *spec, int64_t piece)
{
    int64_t pieces = spec->pp * spec->virtual_stages, layers = spec->train.model.layers;
    if (spec->n_stages == (size_t)pieces)
        return spec->stages[piece];
    int64_t most = (layers + pieces - 1) / pieces;
    return most - (rank_from_ends(piece, pieces) < most * pieces - layers);
}

const char *job_arch_name(enum job_arch arch)
{
    return arch == ARCH_LLAMA ? "llama" : "gpt2";
}

const char *job_precision_name(enum job_precision precision)
{
    static const char *const names[] = {
        [PRECISION_FP32] = "fp32", [PRECISION_BF16] = "bf16", [PRECISION_FP8] = "fp8"};
    return names[precision];
}

/* Weights of one feed-forward block: gpt2 has two matrices with biases, llama three without (SwiGLU). */
static int64_t ffn_parameters(const struct job_model *m)
{
    int64_t matrices = m->arch == ARCH_LLAMA ? 3 : 2;
    int64_t biases = m->arch == ARCH_LLAMA ? 0 : m->ffn + m->hidden;
    int64_t one = matrices * m->hidden * m->ffn + biases;
    return m->experts > 0 ? m->experts * one + m->experts * m->hidden : one; /* with the router */
}

/* Queries, keys, values and the projection back. */
static int64_t attention_parameters(const struct job_model *m)
{
    int64_t kv = m->hidden / m->heads * m->kv_heads;
    int64_t weights = 2 * m->hidden * m->hidden + 2 * m->hidden * kv;
    int64_t biases = m->arch == ARCH_LLAMA ? 0 : 2 * m->hidden + 2 * kv;
    return weights + biases;
}

int64_t job_model_parameters(const struct job_model *m)
{
    int64_t norm = m->arch == ARCH_LLAMA ? m->hidden : 2 * m->hidden; /* gain; with bias */
    int64_t positions = m->arch == ARCH_LLAMA ? 0 : m->context * m->hidden;
    int64_t block = attention_parameters(m) + ffn_parameters(m) + 2 * norm;
    int64_t tables = m->tied ? 1 : 2;
    return tables * m->vocab * m->hidden + positions + m->layers * block + norm;
}
