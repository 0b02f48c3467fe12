/* job: the job file (docs/job-file.md): its C form, its reader with file:line:column diagnostics, and its checks.
 *
 * The same reader serves belay (before sending), belayd (again, it trusts nobody) and belay-train (its own configuration). */
#ifndef BELAY_SCHEMA_JOB_H
#define BELAY_SCHEMA_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JOB_NAME_MAX  63         /* [A-Za-z0-9][A-Za-z0-9._-]{0,62} */
#define JOB_FILE_MAX  (1u << 20) /* bytes of YAML */
#define JOB_RANKS_MAX 1048576
#define JOB_EXIT_STOPPED                                                                                     \
    75 /* a rank that was stopped before its end: the attempt is repeated, and not charged */
#define JOB_EXIT_NO_RETRY 93 /* a rank that exits with this is not restarted */

enum job_arch { ARCH_GPT2, ARCH_LLAMA };
enum job_schedule { LR_COSINE, LR_LINEAR, LR_CONSTANT, LR_WSD, LR_INVERSE_SQRT };
enum job_precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP8 };
enum job_recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
enum job_device { DEVICE_AUTO, DEVICE_CPU, DEVICE_GPU };
enum job_domain { DOMAIN_NODE, DOMAIN_NVLINK, DOMAIN_RACK, DOMAIN_POD, DOMAIN_CLUSTER, DOMAIN_COUNT };
enum job_pipeline { PIPELINE_1F1B, PIPELINE_INTERLEAVED, PIPELINE_ZERO_BUBBLE };
enum job_guard { JOB_GUARD_OFF, JOB_GUARD_STOP, JOB_GUARD_SKIP, JOB_GUARD_ROLLBACK };
enum job_notify { NOTIFY_FAILED = 1, NOTIFY_RESTARTED = 2, NOTIFY_COMPLETED = 4 };
enum { JOB_RESUME_AUTO = -1, JOB_RESUME_NEVER = -2 }; /* else a step */
enum { JOB_EVERY_AUTO = -1 };                         /* else a number of steps */
enum job_busy { JOB_BUSY_SKIP, JOB_BUSY_WAIT }; /* a checkpoint that is due while one is being written */
enum { JOB_SPARES_AUTO = -1 };                  /* else a number of nodes */

struct job_model {
    enum job_arch arch;
    char preset[32]; /* "" or e.g. "gpt2-124m"; its numbers are already filled in below */
    int64_t layers, hidden, heads, kv_heads, ffn, vocab, context; /* all filled after parsing */
    int64_t experts, top_k;                                       /* 0 = dense */
    bool tied;                                                    /* the head is the table of embeddings */
    double norm_eps, rope_theta;                                  /* rope_theta: llama only */
    double dropout;                                               /* 0 = none */
    double capacity;                    /* 0 = dropless; else see docs/job-file.md */
    double balance_loss, router_z_loss; /* weights; 0 without experts */
};

struct job_optimizer {
    double lr, min_lr, weight_decay, beta1, beta2, eps, clip; /* clip 0 = none */
    int64_t warmup;
    enum job_schedule schedule;
    int64_t decay; /* steps of the last phase of LR_WSD; filled for every schedule */
};

/* One corpus of the mixture that a job learns. */
struct job_corpus {
    char *path;    /* as data_path */
    double weight; /* above 0; its share is weight / sum of all weights */
};

struct job_train {
    struct job_model model;
    char *data_path; /* the first corpus: a text file, or .bin of tokens; relative to the job's cwd */
    struct job_corpus *corpora; /* always filled; one of weight 1 for data.path */
    size_t n_corpora;
    char *tokenizer; /* "bytes", or a file or folder, relative to the job's cwd */
    double holdout;  /* share of the sequences kept for evaluation; 0 = none */
    char *from;      /* folder with the first weights of a new run, or NULL */
    int64_t steps;
    int64_t batch_global, batch_micro; /* sequences per step; per rank and pass */
    struct job_optimizer optimizer;
    enum job_precision precision;
    uint64_t seed;
    enum job_recompute recompute;
    int64_t eval_every, eval_sequences; /* steps between evaluations, 0 = never; sequences of one */
    char *eval_path;                    /* corpus of the evaluations, as data_path; NULL = what is held out */
    enum job_guard guard_action;        /* on a spike of the loss */
    double guard_factor;
    int64_t guard_window, guard_patience; /* steps; spikes within them before the action becomes stop */
};

struct job_border {
    enum job_domain within;
    bool required;
};

struct job_spec {
    char name[JOB_NAME_MAX + 1];
    char queue[JOB_NAME_MAX + 1];
    int64_t priority;
    bool is_train;          /* train: or run: (exactly one) */
    struct job_train train; /* when is_train */
    char **argv;            /* run.command, NULL-terminated */
    int64_t ranks;          /* world size = tp*pp*cp*dp, always filled */
    int64_t tp, pp, cp, dp, ep, zero;
    int64_t dp_min, dp_max; /* of an elastic job the range of dp, else both dp; see job_elastic */
    int64_t regrow_ms;      /* an elastic job runs so long before it is interrupted to grow */
    enum job_pipeline pipeline;
    int64_t virtual_stages; /* pieces of the model that each pipeline rank holds; 1 unless interleaved */
    bool sequence;          /* sequence parallelism; has effect with tp > 1 */
    int64_t *stages;        /* layers of each of the pp * virtual_stages pieces; NULL = even */
    size_t n_stages;        /* 0 = even */
    enum job_device device;
    int64_t cpus;   /* per rank */
    int64_t memory; /* bytes per rank */
    struct {
        struct job_border tp, pp, cp, ep, dp;
        int64_t spares;
    } placement;
    struct {
        char *directory;
        int64_t every, keep, resume; /* every: or JOB_EVERY_AUTO */
        enum job_busy busy;
        int64_t keep_every, keep_best; /* 0 = none */
        int64_t memory_every;          /* 0 = no copies in memory */
        bool buddy;
        struct {
            char *url, *endpoint; /* NULL: none; NULL: AWS's of the region */
            char *region;
            int64_t part; /* bytes */
            int64_t keep; /* 0 = all */
        } upload;
    } checkpoint; /* directory NULL for run: jobs without one */
    struct {
        int64_t max, window_ms, backoff_ms;
    } restart;
    struct {
        int64_t time_ms, grace_ms;
    } limits; /* time 0 = none */
    struct {
        char *key, *value;
    } * env;
    size_t n_env;
    char *notify_url; /* or NULL */
    unsigned notify_on;
};

#define JOB_DIAGNOSTICS_MAX 20
struct job_diagnostics {
    size_t count; /* all that were found; only the first JOB_DIAGNOSTICS_MAX are kept */
    char text[JOB_DIAGNOSTICS_MAX][512]; /* "file:line:column: sentence" */
};

/* Reads, completes (presets, defaults) and checks a job file.
 *
 * text/len: the file, any bytes (not trusted). file: its name for messages. sets: "train.steps=40" overrides from --set,
 * applied to the tree before checking; their messages begin with "--set train.steps=40: ".
 * Returns 0 and *out (job_spec_free), or -1 with at least one diagnostic. Touches nothing else. */
int job_spec_parse(const char *text, size_t len, const char *file, const char *const *sets, size_t n_sets,
                   struct job_spec **out, struct job_diagnostics *diagnostics);

/* The same for a job that is only to be planned or simulated: what the bundled runtime cannot do yet is accepted too. */
int job_spec_parse_plan(const char *text, size_t len, const char *file, const char *const *sets,
                        size_t n_sets, struct job_spec **out, struct job_diagnostics *diagnostics);

/* Reads the file first (at most JOB_FILE_MAX bytes; "-" = stdin, called "stdin" in messages). A file that cannot be read or is too
 * large gives a diagnostic at 1:1. */
int job_spec_load(const char *path, const char *const *sets, size_t n_sets, struct job_spec **out,
                  struct job_diagnostics *diagnostics);

void job_spec_free(struct job_spec *spec);

/* Prints the spec, everything filled in, as a job file that parses back to the same spec (YAML, fresh string of at most
 * JOB_FILE_MAX bytes for a spec that was parsed). */
char *job_spec_to_yaml(const struct job_spec *spec);

/* Layers of piece 0 to pp * virtual_stages - 1 of a training job (piece s is on pipeline rank s % pp). As parallel.stages says; else as even
 * as can be: the ceiling everywhere, then one less each for the last piece, the first, the last but one, the second, and so on (the last
 * and the first have the head and the embeddings besides). At least 1 in a job that the bundled runtime can do. */
int64_t job_stage_layers(const struct job_spec *spec, int64_t piece);

/* ---- elastic jobs: parallel.dp is a range, and a placement chooses one of the sizes that are allowed in it ----
 *
 * Of such a job, dp and ranks are those of its newest placement; before the first, those of the largest allowed size. */
bool job_elastic(const struct job_spec *spec);
/* May it run with so many replicas? In the range, and batch, experts and pipeline come out even. Of a job that is not elastic: only dp. */
bool job_dp_allowed(const struct job_spec *spec, int64_t dp);
/* The largest allowed size that is not above `most`; 0 when there is none. */
int64_t job_dp_at_most(const struct job_spec *spec, int64_t most);
/* The smallest that is not below `least`, or 0. */
int64_t job_dp_at_least(const struct job_spec *spec, int64_t least);
/* Sets dp, which is allowed, and ranks with it. */
void job_resize(struct job_spec *spec, int64_t dp);
/* A flat copy of that size, which borrows everything from spec and is not to be freed. */
struct job_spec job_spec_resized(const struct job_spec *spec, int64_t dp);
/* "2..8", or "4" when it is one number. */
#define JOB_RANGE_SIZE 48
const char *job_range_print(char out[JOB_RANGE_SIZE], const struct job_spec *spec);

/* Parameters of the model by the usual count, biases and norms included; the table of embeddings counts twice when it is not tied. */
int64_t job_model_parameters(const struct job_model *m);

const char *job_arch_name(enum job_arch arch);
/* "fp32", "bf16", "fp8" */
const char *job_precision_name(enum job_precision precision);
/* The name of preset i from 0; NULL after the last. */
const char *job_preset_name(size_t i);
/* As a job file has it: "nvlink". In a sentence: "an NVLink domain". */
const char *job_domain_name(enum job_domain domain);
const char *job_domain_words(enum job_domain domain);

#endif
