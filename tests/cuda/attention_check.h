/* attention_check: one shape of attention through all four functions of the table, against the CPU's in double. */
#ifndef BELAY_TESTS_CUDA_ATTENTION_CHECK_H
#define BELAY_TESTS_CUDA_ATTENTION_CHECK_H

#include "tests/cuda/check.h"

struct attention_shape {
    size_t batch, queries, keys, heads, kv_heads, size;
    bool causal;
    double rate;  /* of dropout */
    size_t parts; /* blocks of keys; 1: whole sequences, too */
    size_t gap;   /* elements between the last head of a token and the next token, and between sequences */
    double large = 1; /* of q and k: logits grow with its square */
};

/* All arrays of a shape. Those of the reference are the x of these. */
struct attention_data {
    attention_shape s;
    bool half;
    size_t q_stride, kv_stride, q_batch, kv_batch, lse_stride;
    array q, k, v, dout, out, dq, dk, dv;   /* act */
    array sum, lse, dq_sum, dk_sum, dv_sum; /* real */
    integers<uint64_t> rows;
    f64::kernel_dropout ref_dropout;
    f32::kernel_dropout dropout;

    attention_data(const attention_shape &shape, bool is_half, random_bits &r)
        : s(shape), half(is_half), q_stride(s.heads * s.size + s.gap), kv_stride(s.kv_heads * s.size + s.gap),
          q_batch(s.queries * q_stride + s.gap), kv_batch(s.keys * kv_stride + s.gap),
          lse_stride(s.queries + 1), q(half, s.batch * q_batch), k(half, s.batch * kv_batch),
          v(half, s.batch * kv_batch), dout(half, s.batch * q_batch), out(half, s.batch * q_batch),
          dq(half, s.batch * q_batch), dk(half, s.batch * kv_batch), dv(half, s.batch * kv_batch),
          sum(false, s.batch * q_batch), lse(false, s.batch * s.heads * lse_stride),
          dq_sum(false, s.batch * q_batch), dk_sum(false, s.batch * kv_batch),
          dv_sum(false, s.batch * kv_batch), rows(s.batch)
    {
        q.random(r, s.large);
        k.random(r, s.large);
        v.random(r, 1);
        dout.random(r, 1);
        for (size_t b = 0; b < s.batch; b++)
            rows.x[b] = r.bits() >> 20;
        rows.push();
        ref_dropout = {s.rate, r.bits(), rows.x.data()};
        dropout = {s.rate, ref_dropout.key, rows.device};
    }

    /* Keys [from, to): of several blocks only the last may be causal. */
    template <class S, class D> S block(D *dropped, size_t from, size_t to) const
    {
        S a = {};
        a.batch = s.batch;
        a.queries = s.queries;
        a.keys = to - from;
        a.heads = s.heads;
        a.kv_heads = s.kv_heads;
        a.size = s.size;
        a.q_stride = a.out_stride = q_stride;
        a.q_batch = a.out_batch = q_batch;
        a.kv_stride = kv_stride;
        a.kv_batch = kv_batch;
        a.lse_stride = lse_stride;
        a.causal = s.causal && to == s.keys;
        a.dropout = s.rate > 0 ? dropped : NULL;
        a.q_position = 5;
        a.k_position = 3 + from;
        a.first_head = 2;
        return a;
    }
    f32::kernel_attention call(size_t from, size_t to) const
    {
        return block<f32::kernel_attention>(&dropout, from, to);
    }
    f64::kernel_attention ref_call(size_t from, size_t to) const
    {
        return block<f64::kernel_attention>(&ref_dropout, from, to);
    }

    /* x = value where there are elements and NaN between them, where nothing may be written */
    void fill(array &x, double value, size_t tokens, size_t heads, size_t stride, size_t batch) const
    {
        std::fill(x.x.begin(), x.x.end(), NAN);
        for (size_t i = 0; i < s.batch * tokens; i++)
            for (size_t j = 0; j < heads * s.size; j++)
                x.x[i / tokens * batch + i % tokens * stride + j] = value;
    }
    void fill_queries(array &x, double value) const
    {
        fill(x, value, s.queries, s.heads, q_stride, q_batch);
    }
    void fill_keys(array &x, double value) const
    {
        fill(x, value, s.keys, s.kv_heads, kv_stride, kv_batch);
    }
    void fill_lse() const
    {
        for (size_t i = 0; i < lse.x.size(); i++)
            const_cast<double &>(lse.x[i]) = i % lse_stride < s.queries ? 0 : (double)NAN;
    }
};

/* Where the blocks of keys end that a shape is cut into. */
static inline std::vector<size_t> attention_cuts(const attention_shape &s, size_t parts)
{
    size_t most = s.causal ? s.keys > s.queries ? s.keys - s.queries : 0 : s.keys;
    std::vector<size_t> ends;
    for (size_t i = 1; i < parts; i++)
        ends.push_back(most * i / parts);
    ends.push_back(s.keys);
    return ends;
}

/* fp32: sums in another order, and logits and lse that are as exact as their size lets them be; bf16: also p, its gradient and the results are
 * rounded. */
static inline double attention_tolerance(const attention_data &d)
{
    return (d.half ? 1.0 / 64 : 2e-5) + 1e-6 * (d.s.large * d.s.large - 1);
}

static inline void attention_check_forward(const f32::kernels *k, attention_data &d, size_t parts)
{
    const f64::kernels *ref = reference();
    d.fill_queries(d.sum, 0);
    d.fill_lse();
    bool first = true;
    size_t from = 0;
    d.sum.poison();
    d.lse.poison();
    for (size_t to : attention_cuts(d.s, parts)) {
        f64::kernel_attention a = d.ref_call(from, to);
        f32::kernel_attention b = d.call(from, to);
        size_t skip = from * d.kv_stride;
        ref->attention_forward(d.sum.ref(), d.lse.ref(), first, d.q.ref_act(),
                               f64::act_in(ref, d.k.ref_act(), skip), f64::act_in(ref, d.v.ref_act(), skip),
                               &a);
        k->attention_forward(d.sum.real(), d.lse.real(), first, d.q.act(), f32::act_in(k, d.k.act(), skip),
                             f32::act_in(k, d.v.act(), skip), &b);
        first = false;
        from = to;
    }
    expect_near("out of blocks", d.sum, attention_tolerance(d));
    expect_near("lse of blocks", d.lse, 1e-5);
    if (parts > 1)
        return;
    d.out.poison();
    d.lse.poison();
    f32::kernel_attention b = d.call(0, d.s.keys);
    k->attention_whole(d.out.act(), d.lse.real(), d.q.act(), d.k.act(), d.v.act(), &b);
    d.out.x = d.sum.x;
    expect_near("out", d.out, attention_tolerance(d));
    expect_near("lse", d.lse, 1e-5);
}

/* After attention_check_forward: goes on from the reference's out and lse. */
static inline void attention_check_backward(const f32::kernels *k, attention_data &d, size_t parts,
                                            random_bits &r)
{
    const f64::kernels *ref = reference();
    d.out.x = d.sum.x;
    d.out.push();
    d.lse.push();
    array *sums[] = {&d.dq_sum, &d.dk_sum, &d.dv_sum}, *whole[] = {&d.dq, &d.dk, &d.dv};
    for (array *x : sums)
        parts == 1 ? (void)std::fill(x->x.begin(), x->x.end(), 0.0) : (void)x->random(r, 1);
    size_t from = 0;
    for (size_t to : attention_cuts(d.s, parts)) {
        f64::kernel_attention a = d.ref_call(from, to);
        f32::kernel_attention b = d.call(from, to);
        size_t skip = from * d.kv_stride;
        ref->attention_backward(d.dq_sum.ref(), d.dk_sum.ref() + skip, d.dv_sum.ref() + skip,
                                d.dout.ref_act(), d.out.ref_act(), d.lse.ref(), d.q.ref_act(),
                                f64::act_in(ref, d.k.ref_act(), skip), f64::act_in(ref, d.v.ref_act(), skip),
                                &a);
        if (parts > 1)
            k->attention_backward(d.dq_sum.real(), d.dk_sum.real() + skip, d.dv_sum.real() + skip,
                                  d.dout.act(), d.out.act(), d.lse.real(), d.q.act(),
                                  f32::act_in(k, d.k.act(), skip), f32::act_in(k, d.v.act(), skip), &b);
        else
            k->attention_whole_backward(d.dq.act(), d.dk.act(), d.dv.act(), d.dout.act(), d.out.act(),
                                        d.lse.real(), d.q.act(), d.k.act(), d.v.act(), &b);
        from = to;
    }
    static const char *const names[] = {"dq", "dk", "dv"};
    for (size_t i = 0; i < 3; i++) {
        if (parts == 1) {
            i == 0 ? d.fill_queries(*whole[i], 0) : d.fill_keys(*whole[i], 0);
            for (size_t j = 0; j < whole[i]->x.size(); j++)
                whole[i]->x[j] += sums[i]->x[j];
        }
        expect_near(names[i], parts == 1 ? *whole[i] : *sums[i], attention_tolerance(d),
                    i < 2 ? d.s.large : 1);
    }
}

static inline void attention_check(const f32::kernels *k, bool half, const attention_shape &s, uint64_t seed)
{
    random_bits r(seed);
    attention_data d(s, half, r);
    d.dq.poison();
    d.dk.poison();
    d.dv.poison();
    attention_check_forward(k, d, s.parts);
    attention_check_backward(k, d, s.parts, r);
}

/* Shapes, each under one order of the threads, and one drawn at random for each order. */
static inline void attention_check_all(bool half, const attention_shape *shapes, size_t count,
                                       const std::function<attention_shape(random_bits &)> &draw)
{
    static const char *const orders[] = {"fwd", "rev", "rand"};
    const f32::kernels *k = kernels_cuda(half ? f32::KERNEL_BF16 : f32::KERNEL_FP32);
    for (size_t order = 0; order < 3; order++) {
        emu_schedule(orders[order], 1 + order);
        for (size_t i = order; i < count; i += 3)
            attention_check(k, half, shapes[i], i);
        random_bits r(100 + order);
        attention_check(k, half, draw(r), order);
    }
}

/* Everything that whole sequences give, forward and backward. */
static inline std::vector<std::vector<double>> attention_results(const f32::kernels *k, attention_data &d)
{
    array *outs[] = {&d.out, &d.lse, &d.dq, &d.dk, &d.dv};
    for (array *x : outs)
        x->poison();
    f32::kernel_attention b = d.call(0, d.s.keys);
    k->attention_whole(d.out.act(), d.lse.real(), d.q.act(), d.k.act(), d.v.act(), &b);
    k->attention_whole_backward(d.dq.act(), d.dk.act(), d.dv.act(), d.dout.act(), d.out.act(), d.lse.real(),
                                d.q.act(), d.k.act(), d.v.act(), &b);
    cudaDeviceSynchronize();
    std::vector<std::vector<double>> all;
    for (array *x : outs)
        all.push_back(x->pull());
    return all;
}

static inline bool same_bits(const std::vector<double> &a, const std::vector<double> &b)
{
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
}

/* The same bits twice, and in another order of the threads. */
static inline void attention_check_bits(bool half, const attention_shape &s)
{
    random_bits r(7);
    attention_data d(s, half, r);
    const f32::kernels *k = kernels_cuda(half ? f32::KERNEL_BF16 : f32::KERNEL_FP32);
    emu_schedule("fwd", 1);
    auto first = attention_results(k, d);
    emu_schedule("rand", 2);
    auto second = attention_results(k, d);
    for (size_t i = 0; i < first.size(); i++)
        assert_true(same_bits(first[i], second[i]));
}

/* Tokens of batch 0 in which an element of any head differs (or is NaN in one and not in the other). */
static inline std::vector<bool> attention_differ(const attention_data &d, const std::vector<double> &a,
                                                 const std::vector<double> &b)
{
    std::vector<bool> rows(d.s.queries);
    for (size_t i = 0; i < rows.size(); i++)
        rows[i] = memcmp(&a[i * d.q_stride], &b[i * d.q_stride], d.s.heads * d.s.size * sizeof a[0]) != 0;
    return rows;
}

/* NaN in one query's q or dout reaches what belongs to that query, and no other's; NaN in a key reaches the queries that see it. */
static inline void attention_check_nan(bool half, const attention_shape &s, size_t token)
{
    random_bits r(8);
    attention_data d(s, half, r);
    const f32::kernels *k = kernels_cuda(half ? f32::KERNEL_BF16 : f32::KERNEL_FP32);
    auto clean = attention_results(k, d);
    array *const from[] = {&d.q, &d.dout, &d.k};
    for (size_t i = 0; i < 3; i++) {
        std::vector<double> before = from[i]->x;
        for (size_t j = 0; j < s.size; j++)
            from[i]->x[token * (i == 2 ? d.kv_stride : d.q_stride) + j] = NAN;
        from[i]->push();
        auto dirty = attention_results(k, d);
        std::vector<bool> out = attention_differ(d, clean[0], dirty[0]),
                          dq = attention_differ(d, clean[2], dirty[2]);
        for (size_t row = 0; row < s.queries; row++) {
            assert_int_equal(out[row], i == 0 ? row == token : i == 2 && row >= token);
            if (i < 2)
                assert_int_equal(dq[row], row == token);
            assert_int_equal(!isnan(dirty[1][row]), !(i == 0 ? row == token : i == 2 && row >= token));
        }
        from[i]->x = before;
        from[i]->push();
    }
}

#endif
