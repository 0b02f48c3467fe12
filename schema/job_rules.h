/* job_rules: what the rules of the job file across fields have in common, and the groups of them. Used only by job_check*.c. */
#ifndef BELAY_SCHEMA_JOB_RULES_H
#define BELAY_SCHEMA_JOB_RULES_H

#include "schema/job_read.h"

/* True when none of the paths (up to NULL) was found wrong. */
bool job_all_sound(const struct job_reader *r, const char *const *paths);
#define SOUND(r, ...) job_all_sound(r, (const char *const[]){__VA_ARGS__, NULL})

void job_mark_bad(struct job_reader *r, const char *path);

/* "path: sentence" at the place of the path, which counts as wrong from then on. */
#define COMPLAIN(r, path, ...)                                                                               \
    do {                                                                                                     \
        diag_add((r)->diag, job_place(r, path), path ": " __VA_ARGS__);                                      \
        job_mark_bad(r, path);                                                                               \
    } while (0)

/* A number that is not in the file becomes `value`. */
void job_fill(const struct job_reader *r, const char *path, int64_t *out, int64_t value);
void job_fill_real(const struct job_reader *r, const char *path, double *out, double value);

/* Each completes its part of a training job and checks it: the model; data, batch, optimizer, evaluation. */
void job_check_model(struct job_reader *r);
void job_check_training(struct job_reader *r);
/* Of an elastic job: the size of a micro-batch when it is not given, and the largest size that is allowed. Before the rules that look at dp. */
void job_check_sizes(struct job_reader *r);
/* What the bundled runtime asks of the numbers that a mesh divides, and what it does not do yet. After the others. */
void job_check_runtime(struct job_reader *r);
/* Copies of checkpoints in object storage, of any job. */
void job_check_upload(struct job_reader *r);

#endif
