/* load: see load.h. All boxes are brought into the coordinates of the stored tensor; what two share is read from there. */
#include "checkpoint/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Rows of ours in the source's own direction of rows. */
static size_t source_rows(const struct load_source *s)
{
    return s->transposed ? s->shape[1] : s->shape[0];
}

static size_t first_row(const struct checkpoint_array *a, const struct load_source *s)
{
    if (!s->third || s->part == 0)
        return 0;
    return source_rows(s) - (s->part == 1 ? 2 : 1) * a->shape[0]; /* key and value have the same size */
}

bool load_fits(const struct checkpoint_array *a, struct load_source *source)
{
    if (strcmp(a->name, "position.weight") == 0 && a->shape[0] < source->shape[0])
        source->shape[0] = a->shape[0];
    size_t columns = source->transposed ? source->shape[0] : source->shape[1], rows = source_rows(source);
    if (a->dims != source->dims || (a->dims == 2 && a->shape[1] != columns))
        return false;
    if (!source->third)
        return a->shape[0] == rows;
    return source->part == 0 ? a->shape[0] < rows : 2 * a->shape[0] < rows; /* the others have some, too */
}

static void turn(struct box *b)
{
    struct box old = *b;
    for (int i = 0; i < 2; i++) {
        b->from[i] = old.from[1 - i];
        b->to[i] = old.to[1 - i];
    }
}

static void overlap_piece(struct fetch_list *list, const struct checkpoint_piece *p,
                          const struct load_source *s, size_t first, const struct fetch *in)
{
    struct box wanted = {{p->from[0] + first, p->from[1]}, {p->to[0] + first, p->to[1]}}, shared;
    struct fetch f = *in;
    size_t stride = s->dims == 1 ? 1 : p->stride;
    if (s->transposed)
        turn(&wanted);
    if (!box_overlap(&wanted, &in->box, &shared))
        return;
    f.step[0] = s->transposed ? 1 : stride;
    f.step[1] = s->transposed ? stride : 1;
    f.out = p->data + (shared.from[0] - wanted.from[0]) * f.step[0] +
            (shared.from[1] - wanted.from[1]) * f.step[1];
    for (int i = 0; i < 2; i++) { /* within what is held */
        f.box.from[i] = shared.from[i] - in->box.from[i];
        f.box.to[i] = shared.to[i] - in->box.from[i];
    }
    fetch_add(list, &f);
}

void load_overlap(struct fetch_list *list, const struct checkpoint_array *a, const struct load_source *source,
                  const struct box *held, const char *file, const char *entry)
{
    struct fetch f = {.file = file, .tensor = entry, .box = *held, .from_host = a->memory.from_host};
    for (size_t i = 0; i < a->n_pieces; i++)
        overlap_piece(list, &a->pieces[i], source, first_row(a, source), &f);
}

bool load_hf_name(enum names_layout layout, const char *ours, char name[NAMES_SIZE + 8],
                  struct load_source *source)
{
    struct names_place place;
    size_t prefix = strncmp(ours, "adam.m.", 7) == 0 || strncmp(ours, "adam.v.", 7) == 0 ? 7 : 0;
    if (!names_place(layout, ours + prefix, &place))
        return false;
    (void)snprintf(name, NAMES_SIZE + 8, "%.*s%s", (int)prefix, ours, place.name); /* 7 bytes more */
    source->transposed = place.transposed;
    source->third = place.kind == NAMES_THIRD;
    source->part = place.part;
    return true;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------------ */

/* The stored tensor that an array is filled from: that of its own name, else, in format 1, the one of Hugging Face's. */
static const struct manifest_tensor *find(const struct manifest *m, const char *ours,
                                          struct load_source *source)
{
    char name[NAMES_SIZE + 8];
    const struct manifest_tensor *t = manifest_find(m, ours);
    *source = (struct load_source){.dims = 0};
    if (!t && m->format == 1) {
        enum names_layout layout = strcmp(m->state.model.arch, "gpt2") == 0 ? NAMES_HF_GPT2 : NAMES_HF_LLAMA;
        t = load_hf_name(layout, ours, name, source) ? manifest_find(m, name) : NULL;
    }
    if (t) {
        source->dims = t->dims;
        source->shape[0] = t->shape[0];
        source->shape[1] = t->dims == 2 ? t->shape[1] : 1;
    }
    return t;
}

static void add_array(struct fetch_list *list, const struct manifest *m, const struct manifest_tensor *t,
                      const struct checkpoint_array *a, const struct load_source *source)
{
    for (size_t i = 0; i < t->n_slices; i++) {
        const struct manifest_slice *s = &t->slices[i];
        load_overlap(list, a, source, &s->box, m->files[s->file].name, s->entry ? s->entry : t->name);
    }
}

static enum checkpoint_result plan(struct fetch_list *list, const char *folder, const struct manifest *m,
                                   const struct checkpoint_array *arrays, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct load_source source;
        const struct manifest_tensor *t = find(m, arrays[i].name, &source);
        if (!t || !load_fits(&arrays[i], &source)) {
            err_set(
                err,
                "%s is of another model: it has %s %s; use another checkpoint.directory, or the model it was "
                "written with",
                folder, t ? "another shape for tensor" : "no tensor", arrays[i].name);
            return CHECKPOINT_OTHER_MODEL;
        }
        add_array(list, m, t, &arrays[i], &source);
    }
    return CHECKPOINT_OK;
}

enum checkpoint_result checkpoint_needs(const char *folder, const struct manifest *manifest,
                                        const struct checkpoint_array *arrays, size_t count, bool *needed,
                                        struct err *err)
{
    struct fetch_list list = {0};
    enum checkpoint_result rc = plan(&list, folder, manifest, arrays, count, err);
    for (size_t i = 0; rc == CHECKPOINT_OK && i < list.count;
         i++) { /* names are those of the manifest itself */
        size_t offset = (size_t)(list.items[i].file - (const char *)manifest->files);
        needed[offset / sizeof *manifest->files] = true;
    }
    fetch_free(&list);
    return rc;
}

enum checkpoint_result checkpoint_load_from(const char *folder, const struct manifest *manifest,
                                            const struct checkpoint_array *arrays, size_t count,
                                            struct err *err)
{
    struct fetch_list list = {0};
    enum checkpoint_result rc = plan(&list, folder, manifest, arrays, count, err);
    if (rc == CHECKPOINT_OK && fetch_run(&list, folder, err) != 0)
        rc = CHECKPOINT_ERROR;
    fetch_free(&list);
    return rc;
}

enum checkpoint_result checkpoint_load(const char *folder, const struct checkpoint_array *arrays,
                                       size_t count, struct err *err)
{
    struct manifest *m = manifest_read(folder, err);
    enum checkpoint_result rc = m ? checkpoint_load_from(folder, m, arrays, count, err) : CHECKPOINT_ERROR;
    manifest_free(m);
    return rc;
}
