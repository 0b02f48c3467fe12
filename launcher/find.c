/* find: see find.h. A word of digits is an id, anything else a name; of several jobs of a name only live ones are in doubt. */
#include "launcher/find.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/jobview.h"
#include "schema/suggest.h"

static bool is_id(const char *word, int64_t *id)
{
    return word[strspn(word, "0123456789")] == '\0' && args_int64(word, id) == 0;
}

size_t find_in(const json_t *jobs, const char *name, bool ended_too, int64_t *id)
{
    size_t live = 0, i;
    int64_t newest_live = 0, newest_ended = 0;
    json_t *job;
    json_array_foreach(jobs, i, job)
    {
        int64_t this = jsonx_int_or(job, "id", 0);
        if (strcmp(jsonx_str_or(job, "name", ""), name) != 0)
            continue;
        int64_t *newest = jobview_final(job) ? &newest_ended : &newest_live;
        live += newest == &newest_live;
        if (this > *newest)
            *newest = this;
    }
    *id = live ? newest_live : ended_too ? newest_ended : 0;
    return live;
}

static int not_found(const json_t *jobs, const char *word)
{
    size_t n = json_array_size(jobs), i;
    const char **names = mem_zero(n + 1, sizeof *names);
    json_t *job;
    json_array_foreach(jobs, i, job)
    {
        names[i] = jsonx_str_or(job, "name", "");
    }
    const char *near = suggest_nearest(word, names, n);
    int rc = near && strcmp(near, word) != 0
                 ? cli_fail(CLI_NO_SUCH, "there is no job called %s: did you mean %s?", word, near)
                 : cli_fail(CLI_NO_SUCH, "there is no job called %s%s: `belay status --all` lists them", word,
                            near ? " that has not ended" : "");
    free(names);
    return rc;
}

int find_job(struct client *c, const char *word, bool ended_too, int64_t *id)
{
    json_t *jobs = NULL;
    if (is_id(word, id))
        return CLI_DONE;
    int rc = client_call(c, "GET", NULL, &jobs, "/v1/jobs?all=1");
    if (rc == CLI_DONE) {
        size_t live = find_in(jobs, word, ended_too, id);
        if (live > 1)
            rc = cli_fail(CLI_USAGE, "%zu jobs are called %s: use an id from `belay status`", live, word);
        else if (*id == 0)
            rc = not_found(jobs, word);
    }
    json_decref(jobs);
    return rc;
}
