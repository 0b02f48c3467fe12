/* unixsock: unix sockets whose path may be longer than sun_path (reached through /proc/self/fd). All fds are CLOEXEC. */
#ifndef BELAY_COMMON_UNIXSOCK_H
#define BELAY_COMMON_UNIXSOCK_H

#include <sys/types.h>

#include "common/err.h"

/* Listens at path with the given mode, non-blocking; an old socket file there is replaced. fd or -1. */
int unixsock_listen(const char *path, mode_t mode, struct err *err);

/* Connects (blocking connect, then non-blocking if asked). fd or -1. */
int unixsock_connect(const char *path, int nonblocking, struct err *err);

/* A blocking datagram socket that sends to path. fd or -1. */
int unixsock_datagram(const char *path, struct err *err);

/* The same for sockets of packets (SOCK_SEQPACKET). What connects is blocking afterwards, but does not wait for a place in a full queue. */
int unixsock_listen_packets(const char *path, mode_t mode, struct err *err);
int unixsock_connect_packets(const char *path, struct err *err);

#endif
