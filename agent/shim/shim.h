/* shim: one attempt on one node, from its order to the end of its last process.
 *
 * How it works: prepare checks and makes everything while nothing runs; go forks; the end of a rank is seen through its pidfd;
 * stop and the end of all ranks both lead to the sweep, which kills until nothing of the attempt is left. The states are in
 * shim_table. The shim decides nothing about restarts: it reports, and does as ordered.
 * What always holds: a report is on disk before it is sent; `gone` is said only when no process is left; the shim exits only
 * when released (or told by signal, after the same sweep); it goes on when its agent is away. */
#ifndef BELAY_AGENT_SHIM_SHIM_H
#define BELAY_AGENT_SHIM_SHIM_H

/* Runs the attempt whose directory (absolute) holds order.json; returns the exit status: 0 after a full life, 1 when it could
 * not begin (a sentence was logged). An attempt that was begun before is not begun again. */
int shim_run(const char *attempt_dir);

#endif
