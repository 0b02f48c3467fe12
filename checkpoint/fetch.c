/* fetch: see fetch.h. What is to lie transposed, or in memory that the host cannot write to, is read into a buffer first, a band of rows at a time. */
#include "checkpoint/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/mem.h"

#define BAND_NUMBERS (1u << 20)

void fetch_add(struct fetch_list *list, const struct fetch *item)
{
    if (list->count == list->room)
        list->items = mem_one_more(list->items, list->count, &list->room, sizeof *list->items);
    list->items[list->count++] = *item;
}

void fetch_free(struct fetch_list *list)
{
    free(list->items);
    *list = (struct fetch_list){0};
}

/* A band of the box, rows b of it, and where it goes in memory that the host writes to. */
static void scatter(const float *band, const struct box *b, const struct fetch *f)
{
    size_t width = b->to[1] - b->from[1];
    float *out = f->out + (b->from[0] - f->box.from[0]) * f->step[0];
    for (size_t i = 0; i < b->to[0] - b->from[0]; i++)
        for (size_t j = 0; j < width; j++)
            out[i * f->step[0] + j * f->step[1]] = band[i * width + j];
}

/* `lines` of `length` numbers that lie side by side in x, to lines `step` apart from out on */
static void copy_lines(const struct fetch *f, float *out, size_t step, const float *x, size_t lines,
                       size_t length)
{
    if (step == length) {
        length *= lines;
        lines = 1;
    }
    for (size_t i = 0; i < lines; i++)
        f->from_host(out + i * step, x + i * length, length * sizeof *x);
}

/* The same to other memory: line by line, as they lie there. */
static void scatter_away(const float *band, const struct box *b, const struct fetch *f)
{
    size_t width = b->to[1] - b->from[1], rows = b->to[0] - b->from[0];
    float *out = f->out + (b->from[0] - f->box.from[0]) * f->step[0];
    if (f->step[1] == 1) {
        copy_lines(f, out, f->step[0], band, rows, width);
        return;
    }
    float *turned = mem_grow(NULL, rows * width, sizeof *turned);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++)
            turned[j * rows + i] = band[i * width + j];
    copy_lines(f, out, f->step[1], turned, width, rows);
    free(turned);
}

static int read_scattered(struct safetensors *file, const struct safetensors_tensor *t, const struct fetch *f,
                          struct err *err)
{
    size_t width = f->box.to[1] - f->box.from[1], rows = BAND_NUMBERS / width + 1;
    rows = rows < f->box.to[0] - f->box.from[0] ? rows : f->box.to[0] - f->box.from[0];
    float *band = mem_grow(NULL, rows * width, sizeof *band);
    int rc = 0;
    for (struct box b = f->box; rc == 0 && b.from[0] < f->box.to[0]; b.from[0] = b.to[0]) {
        b.to[0] = f->box.to[0] - b.from[0] < rows ? f->box.to[0] : b.from[0] + rows;
        rc = safetensors_read(file, t, &b, band, width, err);
        if (rc == 0)
            (f->from_host ? scatter_away : scatter)(band, &b, f);
    }
    free(band);
    return rc;
}

static int read_one(struct safetensors *file, const struct fetch *f, struct err *err)
{
    const struct safetensors_tensor *t = safetensors_find(file, f->tensor);
    if (!t)
        return err_set(err, "%s has no tensor %s", f->file, f->tensor);
    if (f->step[1] == 1 && !f->from_host)
        return safetensors_read(file, t, &f->box, f->out, f->step[0], err);
    return read_scattered(file, t, f, err);
}

/* Reads the `count` items that are in one file. */
static int read_file(const char *folder, const struct fetch *items, size_t count, struct err *err)
{
    char *path = str_printf("%s/%s", folder, items[0].file);
    struct safetensors *file = safetensors_open(path, err);
    int rc = file ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = read_one(file, &items[i], err);
    safetensors_close(file);
    free(path);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct fetch *x = a, *y = b;
    int c = strcmp(x->file, y->file);
    if (c == 0)
        c = strcmp(x->tensor, y->tensor);
    return c != 0 ? c : box_compare(&x->box, &y->box);
}

int fetch_run(struct fetch_list *list, const char *folder, struct err *err)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, by_place);
    for (size_t from = 0, to; from < list->count; from = to) {
        for (to = from + 1; to < list->count && strcmp(list->items[to].file, list->items[from].file) == 0;)
            to++;
        if (read_file(folder, &list->items[from], to - from, err) != 0)
            return -1;
    }
    return 0;
}
