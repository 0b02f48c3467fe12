/* ckptmeter: how far a long reading is, as a line on standard error when that is a terminal which redraws; else nothing is shown. */
#ifndef BELAY_LAUNCHER_CKPTMETER_H
#define BELAY_LAUNCHER_CKPTMETER_H

#include <stdint.h>

#include "checkpoint/digest.h"

struct ckptmeter;

/* total: bytes that will be read. verb: "verifying"; must stay valid. */
struct ckptmeter *ckptmeter_new(const char *verb, uint64_t total);
/* For any number of threads at once; borrowed until ckptmeter_end. */
const struct digest_watch *ckptmeter_watch(const struct ckptmeter *meter);
/* Takes the line away. */
void ckptmeter_end(struct ckptmeter *meter);

#endif
