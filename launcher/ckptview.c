/* ckptview: see ckptview.h. */
#include "launcher/ckptview.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/jsonx.h"

struct size {
    const char *name;
    int64_t ranks;
};

static void sizes_of(const struct manifest_state *s, struct size out[5])
{
    const struct size sizes[] = {{"dp", s->dp}, {"pp", s->pp}, {"cp", s->cp}, {"tp", s->tp}, {"ep", s->ep}};
    memcpy(out, sizes, sizeof sizes);
}

char *ckptview_mesh(const struct manifest_state *state, char out[FORMAT_SIZE])
{
    struct size sizes[5];
    size_t used = 0;
    sizes_of(state, sizes);
    out[0] = '\0';
    for (size_t i = 0; i < 5 && used < FORMAT_SIZE; i++)
        if (sizes[i].ranks > 1)
            used += (size_t)snprintf(out + used, FORMAT_SIZE - used, "%s%s%" PRId64, used ? " " : "",
                                     sizes[i].name, sizes[i].ranks);
    if (used == 0)
        snprintf(out, FORMAT_SIZE, "1");
    return out;
}

void ckptview_json(json_t *obj, const struct manifest *manifest)
{
    const struct manifest_state *s = &manifest->state;
    struct size sizes[5];
    json_t *mesh = json_object();
    sizes_of(s, sizes);
    for (size_t i = 0; i < 5; i++)
        jsonx_set(mesh, sizes[i].name, json_integer(sizes[i].ranks));
    jsonx_set(obj, "step", json_integer(s->step));
    jsonx_set_str(obj, "time", manifest->time[0] ? manifest->time : NULL);
    jsonx_set(obj, "mesh", mesh);
    jsonx_set(obj, "attempt", json_integer(s->attempt));
    jsonx_set_str(obj, "job", s->job);
    jsonx_set(obj, "format", json_integer(manifest->format));
    jsonx_set_real(obj, "held_loss", s->held_loss);
}
