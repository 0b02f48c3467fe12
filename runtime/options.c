/* options: see options.h. */
#include "runtime/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/exits.h"
#include "schema/scalar.h"
#include "schema/suggest.h"

#define OPTIONS_MAX 40
#define PART_MIN    3 /* letters of a word that may be meant for a part of an option's name */

int options_bad(const char *command, const char *what)
{
    log_error("%s; see belay-train %s%s--help", what, command ? command : "", command ? " " : "");
    return EXIT_BAD_CONFIG;
}

/* ---- words that are no options ---- */

/* A name that is mistyped like this one, or has it as a part, or is a part of it; or NULL. */
static const char *meant(const struct option *table, const char *name)
{
    const char *names[OPTIONS_MAX];
    size_t n = 0;
    for (; n < OPTIONS_MAX && table[n].name; n++)
        names[n] = table[n].name;
    const char *near = suggest_nearest(name, names, n);
    for (size_t i = 0; !near && i < n && strlen(name) >= PART_MIN; i++)
        if (strstr(names[i], name) || strstr(name, names[i]))
            near = names[i];
    return near;
}

/* "--top-k, --top-p": all that begin with `name`, and how many they are. The caller frees. */
static char *beginning(const struct option *table, const char *name, size_t *n)
{
    char *list = str_dup("");
    *n = 0;
    for (; table->name; table++) {
        if (strncmp(table->name, name, strlen(name)) != 0)
            continue;
        char *longer = str_printf("%s%s--%s", list, *n > 0 ? ", " : "", table->name);
        free(list);
        list = longer;
        (*n)++;
    }
    return list;
}

/* word: as it was typed, dashes in front, without a value behind */
static char *say_unknown(const struct option *table, const char *word)
{
    size_t n;
    const char *name = word + strspn(word, "-"), *near = meant(table, name);
    char *several = beginning(table, name, &n), *sentence;
    if (n > 1 && strncmp(word, "--", 2) == 0)
        sentence = str_printf("%s may be any of %s: write more of it", word, several);
    else if (near)
        sentence = str_printf("unknown option %s (did you mean --%s?)", word, near);
    else
        sentence = str_printf("unknown option %s", word);
    free(several);
    return sentence;
}

/* The word that getopt stopped at: behind it when it has read it whole, which it does not with "-xy". */
static const char *stopped_at(char **argv)
{
    const char *before = argv[optind - 1];
    bool letter = optopt != 0 && optopt < 256;
    return letter && (before[0] != '-' || before[1] != (char)optopt || before[2]) ? argv[optind] : before;
}

static int complain(const char *command, const struct option *table, char **argv, int why)
{
    const char *at = stopped_at(argv);
    char *word = str_printf("%.*s", (int)strcspn(at, "="), at), *sentence;
    if (why == ':')
        sentence = str_printf("%s wants a value", word);
    else if (optopt >= 256)
        sentence = str_printf("%s takes no value, but has one in \"%s\"", word, at);
    else
        sentence = say_unknown(table, word);
    int code = options_bad(command, sentence);
    free(sentence);
    free(word);
    return code;
}

int options_read(const char *command, const struct option *table, int argc, char **argv,
                 int (*apply)(int option, void *arg), void *arg)
{
    int option, code = -1;
    optind = 0; /* begins anew */
    opterr = 0; /* its words are few; ours follow */
    while (code < 0 && (option = getopt_long(argc, argv, ":", table, NULL)) != -1)
        code = option == ':' || option == '?' ? complain(command, table, argv, option) : apply(option, arg);
    return code;
}

/* ---- values ---- */

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

int options_device(const char *command, enum job_device *out)
{
    static const char *const names[] = {[DEVICE_AUTO] = "auto", [DEVICE_CPU] = "cpu", [DEVICE_GPU] = "gpu"};
    for (int device = DEVICE_AUTO; device <= DEVICE_GPU; device++) {
        *out = (enum job_device)device;
        if (strcmp(optarg, names[device]) == 0)
            return -1;
    }
    return options_bad(command, "--device must be auto, cpu or gpu");
}
