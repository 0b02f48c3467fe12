/* objects_retry: see objects_retry.h. */
#include "checkpoint/objects_retry.h"

#include <stddef.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

const struct objects_limits objects_usual_limits = {
    .tries = 10, .pause_ms = 500, .longest_ms = 30000, .connect_ms = 10000, .stall_s = 30};

/* Codes of 4xx that pass: the server was busy, or what it got was damaged or cut short on its way.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html */
static const char *const passing[] = {
    "SlowDown",         "Throttling",     "ThrottlingException", "RequestTimeout",
    "OperationAborted", "IncompleteBody", "BadDigest",           "XAmzContentSHA256Mismatch"};

bool objects_retry_status(long status, const char *code)
{
    for (size_t i = 0; i < COUNT(passing); i++)
        if (strcmp(code, passing[i]) == 0)
            return true;
    return status == 408 || status == 429 || (status >= 500 && status != 501);
}

int64_t objects_retry_pause(const struct objects_limits *limits, int tried, int64_t asked_ms, uint64_t random)
{
    if (tried >= limits->tries)
        return -1;
    int64_t pause = limits->pause_ms;
    for (int i = 1; i < tried && pause < limits->longest_ms; i++)
        pause *= 2;
    if (pause > limits->longest_ms)
        pause = limits->longest_ms;
    if (asked_ms > 2 * limits->longest_ms)
        asked_ms = 2 * limits->longest_ms;
    int64_t half = pause / 2, chosen = half + (int64_t)(random % (uint64_t)(pause - half + 1));
    return chosen > asked_ms ? chosen : asked_ms;
}
