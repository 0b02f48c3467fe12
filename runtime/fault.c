/* fault: see fault.h. */
#include "runtime/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    enum fault_kind kind;
} kinds[] = {{"exit0", FAULT_EXIT0}, {"exit1", FAULT_EXIT1}, {"segv", FAULT_SEGV},      {"kill", FAULT_KILL},
             {"nan", FAULT_NAN},     {"hang", FAULT_HANG},   {"nangrad", FAULT_NANGRAD}};

static int bad(const char *text, struct err *err)
{
    return err_set(err,
                   "BELAY_FAULT=%s is not understood; write exit0|exit1|segv|kill|nan|nangrad|hang @STEP "
                   "[:rank=R][:attempt=A][:times=N], such as kill@12:rank=1",
                   text);
}

/* A decimal number at *p; moves *p behind it. */
static int number(const char **p, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(*p, &end, 10);
    if (errno != 0 || end == *p || value < 0)
        return -1;
    *p = end;
    *out = value;
    return 0;
}

static enum fault_kind kind_of(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, name, len) == 0)
            return kinds[i].kind;
    return FAULT_NONE;
}

int fault_parse(const char *text, struct fault *out, struct err *err)
{
    *out = (struct fault){.kind = FAULT_NONE, .rank = -1, .attempt = -1, .times = 1};
    if (!text || !*text)
        return 0;
    const char *p = strchr(text, '@');
    enum fault_kind kind = p ? kind_of(text, (size_t)(p - text)) : FAULT_NONE;
    if (kind == FAULT_NONE)
        return bad(text, err);
    p++;
    if (number(&p, &out->step) != 0)
        return bad(text, err);
    while (*p == ':') {
        int64_t *field = strncmp(p, ":rank=", 6) == 0      ? &out->rank
                         : strncmp(p, ":attempt=", 9) == 0 ? &out->attempt
                         : strncmp(p, ":times=", 7) == 0   ? &out->times
                                                           : NULL;
        if (!field)
            return bad(text, err);
        p = strchr(p, '=') + 1;
        if (number(&p, field) != 0)
            return bad(text, err);
    }
    if (*p)
        return bad(text, err);
    out->kind = kind;
    return 0;
}

static bool is_due(const struct fault *fault, int64_t step, int64_t rank, int64_t attempt)
{
    return fault->kind != FAULT_NONE && fault->times > 0 && fault->step == step &&
           (fault->rank < 0 || fault->rank == rank) && (fault->attempt < 0 || fault->attempt == attempt);
}

enum fault_kind fault_strike(struct fault *fault, int64_t step, int64_t rank, int64_t attempt)
{
    if (!is_due(fault, step, rank, attempt))
        return FAULT_NONE;
    fault->times--;
    switch (fault->kind) {
    case FAULT_EXIT0:
        _exit(0);
    case FAULT_EXIT1:
        _exit(1);
    case FAULT_SEGV:
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
        break;
    case FAULT_KILL:
        (void)raise(SIGKILL);
        break;
    case FAULT_HANG:
        for (;;)
            (void)pause();
    default:
        break;
    }
    return fault->kind;
}
