/* images: a plain array: some dozens of images a node, looked through a few times a step. */
#include "agent/shim/images.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

struct images {
    struct held **all;
    size_t n, room;
};

struct images *images_new(void)
{
    return mem_zero(1, sizeof(struct images));
}

struct held *images_use(struct held *h)
{
    h->uses++;
    return h;
}

void images_drop(struct held *h)
{
    if (!h || --h->uses > 0)
        return;
    close(h->fd);
    free(h);
}

void images_free(struct images *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        images_drop(s->all[i]);
    free(s->all);
    free(s);
}

static struct held *add(struct images *s, const struct memimage *image, int fd)
{
    struct held *h = mem_zero(1, sizeof *h);
    *h = (struct held){.is = *image, .fd = fd, .uses = 1};
    s->all = mem_one_more(s->all, s->n, &s->room, sizeof(struct held *));
    s->all[s->n++] = h;
    return h;
}

static void let_go(struct images *s, size_t i)
{
    images_drop(s->all[i]);
    s->all[i] = s->all[--s->n];
}

static bool newer(const struct memimage *a, const struct memimage *b)
{
    return a->attempt != b->attempt ? a->attempt > b->attempt : a->step > b->step;
}

/* Lets go of the oldest of a name until at most `most` are left. */
static void trim(struct images *s, const char *name, size_t most)
{
    for (;;) {
        size_t n = 0, oldest = 0;
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->all[i]->is.name, name) == 0 &&
                (n++ == 0 || newer(&s->all[oldest]->is, &s->all[i]->is)))
                oldest = i;
        if (n <= most)
            return;
        let_go(s, oldest);
    }
}

/* The newest step before this image that its attempt has held under its name, or -1. */
static int64_t step_before(const struct images *s, const struct memimage *image)
{
    int64_t step = -1;
    for (size_t i = 0; i < s->n; i++) {
        const struct memimage *is = &s->all[i]->is;
        if (strcmp(is->name, image->name) == 0 && is->attempt == image->attempt && is->step < image->step &&
            is->step > step)
            step = is->step;
    }
    return step;
}

static void let_older_go(struct images *s, const struct memimage *image)
{
    int64_t step = step_before(s, image);
    for (size_t i = s->n; step >= 0 && i > 0; i--)
        if (s->all[i - 1]->is.attempt < image->attempt || s->all[i - 1]->is.step < step)
            let_go(s, i - 1);
}

/* Training went back to before them. */
static void let_later_go(struct images *s, const struct memimage *image)
{
    for (size_t i = s->n; i > 0; i--)
        if (strcmp(s->all[i - 1]->is.name, image->name) == 0 && s->all[i - 1]->is.step >= image->step)
            let_go(s, i - 1);
}

struct held *images_hold(struct images *s, const struct memimage *image, int fd)
{
    let_later_go(s, image);
    struct held *h = add(s, image, fd);
    let_older_go(s, image);
    trim(s, image->name, IMAGES_A_NAME);
    return h;
}

struct held *images_adopt(struct images *s, const struct memimage *image, int fd)
{
    for (size_t i = s->n; i > 0; i--) {
        const struct memimage *is = &s->all[i - 1]->is;
        if (strcmp(is->name, image->name) == 0 && is->step == image->step && is->attempt == image->attempt)
            let_go(s, i - 1);
    }
    struct held *h = images_use(add(s, image, fd));
    trim(s, image->name, IMAGES_A_NAME);
    return h;
}

void images_make_room(struct images *s, const struct memimage *image)
{
    let_later_go(s, image);
    trim(s, image->name, IMAGES_A_NAME - 1);
}

struct held *images_find(const struct images *s, const struct memimage *want)
{
    for (size_t i = 0; i < s->n; i++)
        if (memimage_same(&s->all[i]->is, want))
            return s->all[i];
    return NULL;
}

size_t images_count(const struct images *s)
{
    return s->n;
}

const struct held *images_at(const struct images *s, size_t i)
{
    return s->all[i];
}
