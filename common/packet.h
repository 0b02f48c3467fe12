/* packet: one JSON object, and at most one descriptor beside it, as one packet of a SOCK_SEQPACKET unix socket. */
#ifndef BELAY_COMMON_PACKET_H
#define BELAY_COMMON_PACKET_H

#include <jansson.h>

#include "common/err.h"

#define PACKET_MAX    32768                                  /* bytes */
#define PACKET_CLOSED "the other side closed the connection" /* the sentence for an end */

/* Sends msg (borrowed), and a duplicate of the descriptor `passed` unless it is -1. flags as of send(2). 0, or -1 with a sentence and errno;
 * EAGAIN: the socket is full. */
int packet_send(int fd, const json_t *msg, int passed, int flags, struct err *err);

/* Takes the next packet: *msg is a new reference, *passed the caller's to close, or -1. flags as of recv(2). 1; 0 when there is none now, or none
 * in time; -1 with a sentence for an end, a broken socket, or a packet that is not such a one (it is consumed, and what came with it closed). */
int packet_receive(int fd, int flags, json_t **msg, int *passed, struct err *err);

#endif
