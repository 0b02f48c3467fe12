/* load: what part of a stored tensor goes into which piece of memory. Shared by checkpoints and by what comes from Hugging Face's layout. */
#ifndef BELAY_CHECKPOINT_LOAD_H
#define BELAY_CHECKPOINT_LOAD_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/fetch.h"
#include "checkpoint/names.h"

/* A stored tensor: its whole shape (columns 1 for one dimension). */
struct load_source {
    size_t shape[2], dims;
    bool transposed; /* element (r,c) of ours is its (c,r) */
    bool third;      /* ours is part `part` of its rows: query first, value last */
    size_t part;
};

/* Can the array be filled from the source: are the shapes right? A table of positions may be wanted up to some position only: then the source is
 * cut to that. */
bool load_fits(const struct checkpoint_array *a, struct load_source *source);

/* Adds to the list what the pieces of an array take from the box `held` of the source, which is in `file` as tensor `entry` (both borrowed). */
void load_overlap(struct fetch_list *list, const struct checkpoint_array *a, const struct load_source *source,
                  const struct box *held, const char *file, const char *entry);

/* The name under which Hugging Face's layout keeps the array, and which part of it; of "adam.m.X" that of X with the same prefix. False when the
 * layout has no such tensor. */
bool load_hf_name(enum names_layout layout, const char *ours, char name[NAMES_SIZE + 8],
                  struct load_source *source);

#endif
