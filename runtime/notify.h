/* notify: progress datagrams in the style of sd_notify to $BELAY_NOTIFY_SOCKET (docs/protocols.md, section 4).
 *
 * Never blocks while training and never fails it: a lost datagram costs a stale progress bar. Any thread may
 * send. */
#ifndef BELAY_RUNTIME_NOTIFY_H
#define BELAY_RUNTIME_NOTIFY_H

struct notify;

/* Opens the way to the socket at `path`; NULL path (no launcher) or a socket that is not there give a notify that sends nothing.
 * Never NULL. */
struct notify *notify_open(const char *path, int rank);
/* Waits up to a second for room when lines to keep are still pending. NULL is fine. */
void notify_close(struct notify *notify);

/* Sends "RANK=n\n" and the lines printed from fmt ("STEP=3\nLOSS=2.5"). */
void notify_send(struct notify *notify, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As notify_send, for lines that should arrive (CHECKPOINT_*): when the receiver's queue is full they go out ahead of the next send. */
void notify_keep(struct notify *notify, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
