/* route: from the experts that tokens have chosen to who sends which rows where. Pure, on the host.
 *
 * Kept pairs (token, choice) are put in order of the expert, then of the token: that is the order in which rows are sent, because experts are
 * dealt out to the ranks of an EP group in order. Rows arrive by rank, and each rank's by expert; `order` brings them together by expert. */
#ifndef BELAY_RUNTIME_ROUTE_H
#define BELAY_RUNTIME_ROUTE_H

#include <stddef.h>
#include <stdint.h>

struct route_shape {
    size_t batch, tokens; /* sequences; tokens of each that are here */
    size_t experts, top_k;
    size_t ranks, rank; /* of the EP group */
    size_t limit;       /* rows of one sequence that an expert takes; 0 = all */
    size_t
        parts; /* pieces that each sequence's tokens here lie in (2 with zig-zag, else 1), of equal length */
};

struct route {
    size_t sends;      /* rows sent */
    int32_t *slots;    /* (N,K) row that the pair is sent as; -1: dropped */
    int32_t *tokens;   /* (sends) token of each row */
    int64_t *counts;   /* (experts) rows for each expert, from here */
    size_t *send_rows; /* (ranks) */
    /* after route_receive */
    size_t receives;
    size_t *receive_rows;  /* (ranks) */
    size_t *expert_rows;   /* (experts / ranks) rows of each of our experts, from all ranks */
    int32_t *order, *back; /* (receives) arrived row of each row by expert, and the other way round */
};

/* How many tokens of each part of each sequence chose each expert: counts (parts, batch, experts). */
void route_count(const struct route_shape *shape, const int32_t *experts, int64_t *counts);
/* Fills everything up to send_rows. experts (N,K); before (parts, batch, experts): how many tokens of earlier parts of the sequence, on any rank,
 * chose the expert, what a limit counts from; NULL: none. Arrays are grown as needed and kept for the next call; start with a zeroed struct. */
void route_send(struct route *route, const struct route_shape *shape, const int32_t *experts,
                const int64_t *before);
/* Fills the rest from all ranks' counts: all (ranks, experts). */
void route_receive(struct route *route, const struct route_shape *shape, const int64_t *all);
void route_free(struct route *route);

#endif
