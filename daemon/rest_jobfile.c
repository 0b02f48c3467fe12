/* rest_jobfile: see rest_jobfile.h. Whatever the launcher has checked is checked again: nobody is trusted. */
#include "daemon/rest_jobfile.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"

#define SETS_MAX 256

struct input {
    const char *spec, *file;
    const char **sets;
    size_t n_sets;
};

static int read_sets(const json_t *body, struct input *in, struct err *err)
{
    const json_t *list = json_object_get(body, "set"), *item;
    size_t i;
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > SETS_MAX)
        return err_set(err, "\"set\" must be an array of at most %d strings", SETS_MAX);
    in->sets = mem_zero(json_array_size(list) + 1, sizeof(*in->sets));
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return err_set(err, "\"set\" must hold strings like \"train.steps=40\"");
        in->sets[in->n_sets++] = json_string_value(item);
    }
    return 0;
}

static int read_input(const json_t *body, struct input *in, struct err *err)
{
    in->file = jsonx_str_or(body, "file", "job.yaml");
    return jsonx_str(body, "spec", &in->spec, err) != 0 ? -1 : read_sets(body, in, err);
}

static void refuse_diagnostics(struct exchange *x, const struct job_diagnostics *d)
{
    json_t *list = json_array();
    size_t kept = d->count < JOB_DIAGNOSTICS_MAX ? d->count : JOB_DIAGNOSTICS_MAX;
    for (size_t i = 0; i < kept; i++) {
        json_t *text = json_string(d->text[i]);
        json_array_append_new(list, text ? text : json_string("(a message about bytes that are not UTF-8)"));
    }
    x->reply = json_object();
    jsonx_set(x->reply, "diagnostics", list);
    exchange_refuse(x, 400, "%s", kept ? d->text[0] : "the job file is not valid");
}

struct job_spec *rest_jobfile_read(struct exchange *x, bool plan_only)
{
    static struct job_diagnostics diagnostics; /* 10 KiB, and one thread: kept off the stack */
    struct input in = {0};
    struct job_spec *spec = NULL;
    struct err err = {0};
    diagnostics.count = 0;
    if (read_input(x->body, &in, &err) != 0)
        exchange_refuse(x, 400, "%s", err.text);
    else if ((plan_only ? job_spec_parse_plan : job_spec_parse)(in.spec, strlen(in.spec), in.file, in.sets,
                                                                in.n_sets, &spec, &diagnostics) != 0)
        refuse_diagnostics(x, &diagnostics);
    free(in.sets);
    return spec;
}
