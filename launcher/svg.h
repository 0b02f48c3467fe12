/* svg: a picture of a cluster and of where the ranks of a job are: pods, racks, NVLink domains, nodes, and one square a device. */
#ifndef BELAY_LAUNCHER_SVG_H
#define BELAY_LAUNCHER_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct svg_node {
    const char *name, *rack, *pod;
    const char *nvlink; /* its NVLink domain when that is wider than the node, else "" or NULL */
    int64_t slots;      /* 0 to 1024 */
    int64_t taken;      /* of its slots others use so many; drawn on the first that hold no rank */
    bool usable;        /* else drained or down: hatched */
};

struct svg_rank {
    int64_t rank; /* -1 = a spare slot of the job */
    size_t node;  /* index in the nodes */
    int64_t slot, tp, pp, cp, dp;
};

/* What the colour of a rank tells. TP: ranks of one TP group have one hue. PP: the hue is the pipeline stage, the lightness the replica (dp).
 * DP: the hue is the replica, the lightness the stage. */
enum svg_colour { SVG_TP, SVG_PP, SVG_DP };

/* tp, pp or dp. 0, or -1 for another word. */
int svg_colour_parse(const char *word, enum svg_colour *out);

/* Writes one self-contained SVG (no scripts, no outside parts). Nodes and ranks in any order; a rank whose node or slot is not there is left
 * out. Squares shrink with the number of devices: names of nodes are dropped first, then those of racks; what is pointed at tells its names
 * and coordinates (<title>). The same input gives the same bytes. Errors of writing stay in `out` (ferror). */
void svg_cluster(FILE *out, const struct svg_node *nodes, size_t n_nodes, const struct svg_rank *placed,
                 size_t n_placed, enum svg_colour by, const char *title);

#endif
