/* The CUDA kernels of embeddings against the CPU's in double. */
#include <algorithm>

#include "tests/cuda/check.h"

#include "kernels/cuda/sort.h"

struct table_case {
    size_t n, c, rows, skip;
    int32_t first, tokens; /* tokens below this, and some that are broken */
};

static const table_case cases[] = {
    {1, 1, 1, 0, 0, 1},    {5, 3, 7, 0, 0, 7},      {40, 8, 10, 0, 5, 30},   {40, 8, 10, 1, 5, 30},
    {200, 40, 3, 0, 0, 4}, {200, 8, 3, 1, 0, 3},    {97, 300, 20, 0, 2, 25}, {64, 1032, 50, 0, 0, 50},
    {700, 8, 1, 0, 0, 1},  {33, 5, 300, 0, 0, 300}, {32, 4, 1, 0, 0, 1},     {3000, 1, 700, 0, 0, 900},
    {64, 16, 0, 0, 0, 5},  {0, 8, 3, 0, 0, 3},      {6, 0, 3, 0, 0, 3},
};

static void draw_tokens(integers<int32_t> &tokens, const table_case &s, random_bits &r)
{
    static const int32_t broken[] = {-1, INT32_MIN, INT32_MAX};
    for (int32_t &t : tokens.x) {
        t = (int32_t)r.below((size_t)s.tokens);
        if (r.below(3) == 0)
            t = s.first + s.tokens / 3; /* one of them is frequent */
        if (s.n > 9 && r.below(20) == 0)
            t = broken[r.below(3)];
    }
    tokens.push();
}

static void rows_come_by_token(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (auto &s : cases) {
            array out(half, s.n * s.c, s.skip), table(half, s.rows * s.c);
            integers<int32_t> tokens(s.n);
            draw_tokens(tokens, s, r);
            table.random(r, 1);
            k->embedding_forward(out.act(), tokens.device, table.act(), s.first, s.rows, s.n, s.c);
            reference()->embedding_forward(out.ref_act(), tokens.x.data(), table.ref_act(), s.first, s.rows,
                                           s.n, s.c);
            expect_near("out", out, 0);
        }
    });
}

/* Also: the same bits whatever the order in which threads run. */
static void rows_get_what_their_tokens_send(void **state)
{
    (void)state;
    static std::vector<double> bits[2][sizeof cases / sizeof *cases];
    in_all_orders([](const f32::kernels *k, bool half, uint64_t) {
        random_bits r(7);
        std::vector<double> *before = bits[half];
        for (auto &s : cases) {
            array dtable(false, s.rows * s.c, s.skip), dout(half, s.n * s.c);
            integers<int32_t> tokens(s.n);
            draw_tokens(tokens, s, r);
            dtable.random(r, 1);
            dout.random(r, 1);
            k->embedding_backward(dtable.real(), dout.act(), tokens.device, s.first, s.rows, s.n, s.c);
            reference()->embedding_backward(dtable.ref(), dout.ref_act(), tokens.x.data(), s.first, s.rows,
                                            s.n, s.c);
            expect_near("dtable", dtable, 2e-6, 5);
            if (!before->empty() && *before != dtable.pull())
                fail_msg("%zu tokens: other bits in another order", s.n);
            *before++ = dtable.pull();
        }
    });
}

/* By one digit, two or three; entries of one number keep their order. */
static void entries_are_sorted(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *, bool half, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : {1, 31, 300, 2048, 4500})
            for (int bits : {1, 8, 17}) {
                if (half)
                    continue; /* it knows no elements */
                integers<uint64_t> entries(n), other(n);
                integers<uint32_t> counts(sort_counts(n));
                for (size_t i = 0; i < n; i++)
                    entries.x[i] = (r.below(2) ? r.bits() >> (64 - bits) : 1u) << 32 | i;
                entries.push();
                sort_room room = {entries.device, other.device, counts.device};
                const uint64_t *sorted = sort_entries(&room, n, bits);
                std::sort(entries.x.begin(), entries.x.end());
                std::vector<uint64_t> got = sorted == entries.device ? entries.pull() : other.pull();
                if (got != entries.x)
                    fail_msg("%zu entries of %d bits are not sorted", n, bits);
            }
    });
}

static void positions_are_added(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (size_t c : {5, 24, 32})
            for (size_t skip = 0; skip < 2; skip++) {
                const size_t batch = 3, rows = 50, n = batch * rows;
                array x(half, n * c, skip), table(half, rows * c), dtable(false, rows * c);
                integers<int32_t> positions(n);
                for (size_t i = 0; i < n; i++)
                    positions.x[i] = (int32_t)(i % rows);
                positions.push();
                x.random(r, 1);
                table.random(r, 1);
                dtable.random(r, 1);
                k->position_backward(dtable.real(), x.act(), positions.device, rows, n, c);
                reference()->position_backward(dtable.ref(), x.ref_act(), positions.x.data(), rows, n, c);
                expect_near("dtable", dtable, 2e-6);
                k->position_forward(x.act(), table.act(), positions.device, n, c);
                reference()->position_forward(x.ref_act(), table.ref_act(), positions.x.data(), n, c);
                expect_near("x", x, rounding(half));
            }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_by_token),
        cmocka_unit_test(rows_get_what_their_tokens_send),
        cmocka_unit_test(entries_are_sorted),
        cmocka_unit_test(positions_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
