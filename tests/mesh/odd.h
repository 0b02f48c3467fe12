/* odd: models and meshes at the edge of what divides: ranks without tokens of the vocabulary, without counted targets, without rows for their
 * experts; one head a rank, one layer a piece, one token a chunk. */
#ifndef BELAY_TESTS_MESH_ODD_H
#define BELAY_TESTS_MESH_ODD_H

#include "tests/mesh/meshes.h"

static const struct test odd[] = {
    /* name, model, tp pp cp dp ep zero, micro, sequence, schedule */
    {"tp8 sp", LAB_NARROW, 8, 1, 1, 1, 1, 0, 2, true, PLAIN},
    {"tp8", LAB_NARROW, 8, 1, 1, 1, 1, 1, 1, false, FULL},
    {"tp4 pp2 zero-bubble", LAB_NARROW, 4, 2, 1, 1, 1, 2, 1, true, ZB},
    {"cp4 dp2", LAB_NARROW, 1, 1, 4, 2, 1, 0, 1, false, PLAIN},
    {"tp2 sp cp4", LAB_NARROW, 2, 1, 4, 1, 1, 3, 1, true, SOME},
    {"dp8", LAB_NARROW, 1, 1, 1, 8, 1, 0, 1, false, PLAIN},
    {"dp8 zero2", LAB_NARROW, 1, 1, 1, 8, 1, 2, 1, false, PLAIN},
    {"one rank", LAB_SPARSE, 1, 1, 1, 1, 1, 0, 16, false, PLAIN},
    {"ep8", LAB_SPARSE, 1, 1, 1, 8, 8, 0, 1, false, PLAIN},
    {"cp4 ep8 dp2", LAB_SPARSE, 1, 1, 4, 2, 8, 2, 1, false, PLAIN},
    {"cp4 ep4", LAB_SPARSE, 1, 1, 4, 1, 4, 3, 1, false, FULL},
    {"cp2 pp2 ep4 zero-bubble", LAB_SPARSE, 1, 2, 2, 2, 4, 1, 1, false, ZB},
    {"tp2 cp4 ep2", LAB_SPARSE, 2, 1, 4, 1, 2, 2, 1, false, SOME},
    {"every one rank", LAB_EVERY, 1, 1, 1, 1, 1, 0, 4, false, PLAIN},
    {"pp4 dp2 interleaved zero3", LAB_EVERY, 1, 4, 1, 2, 1, 3, 2, false, WAVE},
    {"pp4 ep2 interleaved zero2", LAB_EVERY, 1, 4, 1, 2, 2, 2, 1, false, WAVE},
    {"pp8 zero-bubble", LAB_EVERY, 1, 8, 1, 1, 1, 3, 4, false, ZB},
    {"pp4 ep2 zero-bubble zero3", LAB_EVERY, 1, 4, 1, 2, 2, 3, 2, false, ZB},
    {"tp2 sp cp2 ep2 zero3", LAB_EVERY, 2, 1, 2, 2, 4, 3, 2, true, SOME},
    {"tp2 pp2 cp2 ep2 interleaved zero1", LAB_EVERY, 2, 2, 2, 1, 2, 1, 2, true, WAVE},
};

#endif
