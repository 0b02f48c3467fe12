/* options: see options.h. */
#include "runtime/options.h"

#include <getopt.h>
#include <stdbool.h>
#include <string.h>

#include "common/log.h"
#include "runtime/exits.h"
#include "schema/scalar.h"

int options_bad(const char *command, const char *what)
{
    log_error("%s; see belay-train %s --help", what, command);
    return EXIT_BAD_CONFIG;
}

static int answer(int rc, const char *option, const struct err *err)
{
    if (rc == 0)
        return -1;
    log_error("--%s %s", option, err->text);
    return EXIT_BAD_CONFIG;
}

int options_whole(const char *option, int64_t min, int64_t max, int64_t *out)
{
    struct err err;
    return answer(scalar_int(optarg, min, max, out, &err), option, &err);
}

int options_real(const char *option, double high, double *out)
{
    struct err err;
    return answer(scalar_real(optarg, 0, high, out, &err), option, &err);
}

int options_precision(const char *command, enum kernel_type *out)
{
    bool bf16 = strcmp(optarg, "bf16") == 0;
    *out = bf16 ? KERNEL_BF16 : KERNEL_FP32;
    return bf16 || strcmp(optarg, "fp32") == 0 ? -1
                                               : options_bad(command, "--precision must be fp32 or bf16");
}
