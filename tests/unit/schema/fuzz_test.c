/* Seeded mutations of good job files, cluster files and messages: never a crash, always either a result or a sentence. `make fuzz` searches
 * longer, with libFuzzer; this runs each time and always the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "job_samples.h"
#include "tests/fuzz/targets.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define CASES    20000
#define ROOM     65536

static const char *const link_samples[] = {
    "tests/fuzz/seeds/link/order.json",     "tests/fuzz/seeds/link/report.json",
    "tests/fuzz/seeds/link/inventory.json", "tests/fuzz/seeds/link/progress.json",
    "tests/fuzz/seeds/link/image.json",
};

static const char *const cluster_samples[] = {
    "tests/topologies/two-racks.yaml",
    "tests/topologies/nvl72.yaml",
    "tests/topologies/ragged.yaml",
    "tests/topologies/half-drained.yaml",
};

/* Pieces that mean something to a reader of YAML or JSON. */
static const char *const pieces[] = {
    "\n",
    "\n  ",
    "\t",
    " ",
    ": ",
    ":",
    ", ",
    "[",
    "]",
    "{",
    "}",
    "- ",
    "? ",
    "|",
    ">",
    "'",
    "\"",
    "\\",
    "#",
    "&a ",
    "*a",
    "!t ",
    "<<: ",
    "%",
    "@",
    "---\n",
    "...\n",
    "~",
    "null",
    "true",
    "on",
    "0",
    "-1",
    "1.5",
    "1e999",
    "9223372036854775807",
    "99999999999999999999",
    "0x10",
    "0",
    "1",
    "2",
    "3",
    "7",
    "16",
    "1048576",
    "name",
    "train",
    "run",
    "model",
    "parallel",
    "dp",
    "tp",
    "env",
    "placement",
    "preset",
    "llama-tiny",
    "llama",
    "gpt2",
    "experts",
    "1GiB",
    "30s",
    "\xff",
    "\xc3",
    "\xe2\x80\xa8",
    "\xef\xbb\xbf",
    "\\u0000",
    "\\x00",
    "\n--set ",
    "=",
    "rank",
};

static uint64_t random_state;

static size_t below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return limit ? (size_t)(random_state >> 11) % limit : 0;
}

struct buffer {
    char bytes[ROOM];
    size_t len;
};

static void erase(struct buffer *b, size_t at, size_t n)
{
    n = n > b->len - at ? b->len - at : n;
    memmove(b->bytes + at, b->bytes + at + n, b->len - at - n);
    b->len -= n;
}

static void insert(struct buffer *b, size_t at, const char *piece, size_t n)
{
    if (b->len + n > ROOM)
        return;
    memmove(b->bytes + at + n, b->bytes + at, b->len - at);
    memcpy(b->bytes + at, piece, n);
    b->len += n;
}

static void mutate(struct buffer *b)
{
    char copy[64];
    size_t at = below(b->len + 1), n = below(12);
    const char *piece = pieces[below(COUNT(pieces))];
    switch (below(6)) {
    case 0:
        erase(b, at, n);
        break;
    case 1:
        insert(b, at, piece, strlen(piece));
        break;
    case 2:
        erase(b, at, n);
        insert(b, at, piece, strlen(piece));
        break;
    case 3:
        if (at < b->len)
            b->bytes[at] = (char)below(256);
        break;
    case 4: /* a part once more, elsewhere */
        n = below(sizeof copy);
        n = n > b->len - at ? b->len - at : n;
        memcpy(copy, b->bytes + at, n);
        insert(b, below(b->len + 1), copy, n);
        break;
    default: /* digits are where the numbers are */
        for (; at < b->len && !(b->bytes[at] >= '0' && b->bytes[at] <= '9'); at++)
            ;
        if (at < b->len)
            b->bytes[at] = (char)('0' + below(10));
    }
}

/* Returns how many of the cases were accepted. */
static size_t run_cases(const char *const *samples, size_t n_samples, bool (*target)(const uint8_t *, size_t))
{
    static struct buffer b;
    size_t accepted = 0;
    for (size_t sample = 0; sample < n_samples; sample++) {
        size_t len = 0;
        char *text = fs_read(samples[sample], ROOM, &len, NULL);
        assert_non_null(text);
        for (size_t i = 0; i < CASES / n_samples; i++) {
            memcpy(b.bytes, text, len);
            b.len = len;
            for (size_t times = 1 + below(4); times > 0; times--)
                mutate(&b);
            accepted += target((const uint8_t *)b.bytes, b.len);
        }
        free(text);
    }
    return accepted;
}

static void mutated_jobs_give_a_result_or_a_sentence(void **state)
{
    (void)state;
    random_state = 1;
    size_t accepted = run_cases(job_samples, JOB_SAMPLES, fuzz_job);
    assert_in_range(accepted, CASES / 50, CASES); /* else the mutations no longer reach the inside */
}

static void mutated_messages_give_a_result_or_a_sentence(void **state)
{
    (void)state;
    random_state = 2;
    size_t accepted = run_cases(link_samples, COUNT(link_samples), fuzz_link);
    assert_in_range(accepted, CASES / 50, CASES);
}

static void mutated_clusters_give_a_result_or_a_sentence(void **state)
{
    (void)state;
    random_state = 3;
    size_t accepted = run_cases(cluster_samples, COUNT(cluster_samples), fuzz_cluster);
    assert_in_range(accepted, CASES / 50, CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_clusters_give_a_result_or_a_sentence),
        cmocka_unit_test(mutated_jobs_give_a_result_or_a_sentence),
        cmocka_unit_test(mutated_messages_give_a_result_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
