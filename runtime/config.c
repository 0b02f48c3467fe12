/* config: see config.h. */
#include "runtime/config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/exits.h"

static int check_kind(const struct job_spec *s, struct err *err)
{
    if (!s->is_train)
        return err_set(err, "this job has run:, not train:; belay-train runs only train: jobs");
    if (strcmp(s->train.tokenizer, "bytes") != 0)
        return err_set(err, "train.data.tokenizer %s is not supported; write bytes", s->train.tokenizer);
    if (!s->checkpoint.directory)
        return err_set(err, "checkpoint.directory is missing; it also holds metrics.csv");
    return 0;
}

/* The parts of the job file that this version does not do yet. */
static int check_features(const struct job_spec *s, struct err *err)
{
    const struct {
        const char *what;
        bool asked;
        const char *instead;
    } rows[] = {
        {"tensor parallelism (parallel.tp)", s->tp > 1, "write tp: 1"},
        {"pipeline parallelism (parallel.pp)", s->pp > 1, "write pp: 1"},
        {"context parallelism (parallel.cp)", s->cp > 1, "write cp: 1"},
        {"expert parallelism (parallel.ep)", s->ep > 1, "write ep: 1"},
        {"a sharded optimizer (parallel.zero)", s->zero > 0, "write zero: 0"},
        {"bf16 (train.precision)", s->train.precision != PRECISION_FP32, "write precision: fp32"},
        {"recomputation (train.recompute)", s->train.recompute != RECOMPUTE_NONE, "write recompute: none"},
        {"experts (train.model.experts)", s->train.model.experts > 0, "leave experts out"},
        {"a GPU (resources.device)", s->device == DEVICE_GPU, "write device: cpu"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].asked)
            return err_set(err, "belay-train " BELAY_VERSION " cannot do %s yet; %s", rows[i].what,
                           rows[i].instead);
    return 0;
}

static int check_batch(const struct job_spec *s, struct err *err)
{
    int64_t micro = s->train.batch_micro, global = s->train.batch_global;
    if (micro < 1 || global < 1 || micro > global || s->dp > global / micro || global % (micro * s->dp) != 0)
        return err_set(err,
                       "train.batch.global %" PRId64 " is not a multiple of micro %" PRId64
                       " times dp %" PRId64 "; change one of them",
                       global, micro, s->dp);
    return 0;
}

int config_check(const struct job_spec *spec, int world, struct err *err)
{
    if (check_kind(spec, err) != 0 || check_features(spec, err) != 0 || check_batch(spec, err) != 0)
        return EXIT_NO_RETRY;
    if (spec->dp != world) {
        err_set(err,
                "the job wants %" PRId64 " ranks (parallel.dp) but %d started; use mpirun -n %" PRId64
                " or --set parallel.dp=%d",
                spec->dp, world, spec->dp, world);
        return EXIT_BAD_CONFIG;
    }
    return 0;
}
