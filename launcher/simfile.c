/* simfile: see simfile.h. One byte more than allowed is enough to know that there is too much; the reader says so. */
#include "launcher/simfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/jobfile.h"

int simfile_open(const char *name, struct simfile *out)
{
    *out = (struct simfile){.name = name};
    if (strcmp(name, "-") != 0)
        return CLI_DONE;
    out->text = mem_zero(JOB_FILE_MAX + 2, 1);
    out->len = fread(out->text, 1, JOB_FILE_MAX + 1, stdin);
    if (!ferror(stdin))
        return CLI_DONE;
    int error = errno;
    simfile_close(out);
    return cli_fail(CLI_USAGE, "the scenario on stdin cannot be read: %s", strerror(error));
}

void simfile_close(struct simfile *file)
{
    free(file->text);
    *file = (struct simfile){.name = NULL};
}

int simfile_scenario(const struct simfile *file, const char *const *sets, size_t n_sets,
                     struct scenario **out)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    int rc = file->text ? scenario_parse(file->text, file->len, file->name, sets, n_sets, out, d)
                        : scenario_load(file->name, sets, n_sets, out, d);
    if (rc < 0)
        jobfile_print_diagnostics(d);
    free(d);
    return rc < 0 ? CLI_USAGE : CLI_DONE;
}
