/* longpoll: one question to belayd asked again and again, that outlives a belayd that is killed and started again.
 *
 * Ask, call longpoll_step whenever client_wait returns, take the answer, ask the next. When the connection breaks the same
 * question is asked again every 100 ms, for at most a minute; the very first question is not. */
#ifndef BELAY_LAUNCHER_LONGPOLL_H
#define BELAY_LAUNCHER_LONGPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/client.h"

struct longpoll;
enum longpoll_result { LONGPOLL_NOTHING, LONGPOLL_ANSWER, LONGPOLL_FAILED };

struct longpoll *longpoll_new(struct client *c);
void longpoll_free(struct longpoll *lp);

/* The next question (a GET), to be sent at not_before_ms of boot time at the soonest (0 = now). */
void longpoll_ask(struct longpoll *lp, int64_t not_before_ms, const char *path_fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ANSWER and FAILED fill *reply (client_reply_clear); after FAILED it is over. */
enum longpoll_result longpoll_step(struct longpoll *lp, struct client_reply *reply);

/* Milliseconds until longpoll_step must be called although nothing comes; INT_MAX = never. */
int longpoll_pause(const struct longpoll *lp);

/* Has the connection been broken since the last answer? */
bool longpoll_away(const struct longpoll *lp);

#endif
