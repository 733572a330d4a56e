/* Attention of few rows, or of rows of several texts. */

#pragma once

#include "attention_pairs.h"

/* The products of some queries with the keys of some tokens, each query's in a row of its own. */
static inline __attribute__((always_inline)) void score(
    const float *queries, int64_t count, const char *keys, int64_t tokens, const int64_t dim,
    float *scores, int64_t width, const int is_bfloat16)
{
    for (int64_t first = 0; first < tokens; first += LANES)
        for (int64_t index = 0; index < count; index++) {
            const float *query = queries + index * dim;
            vec sums[LANES];
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t token = first + lane < tokens ? first + lane : tokens - 1;
                const int64_t key = scratch.seen[token] * dim;
                vec sum = {0};
                for (int64_t at = 0; at < dim; at += LANES)
                    sum += *(const vec *)(query + at) * load_kept(keys, key + at, is_bfloat16);
                sums[lane] = sum;
            }
            *(vec *)(scores + index * width + first) = totals(sums);
        }
}

/* Adds the weighted values of some tokens to the outputs of H heads. H is a constant, so that the
   sums stay in registers. */
static inline __attribute__((always_inline)) void mix(
    const float *weights, int64_t width, const int32_t *seen, int64_t tokens, const char *values,
    int64_t dim, float *out, const int H, const int is_bfloat16)
{
    int64_t first = 0;
    for (; first + 4 * LANES <= dim; first += 4 * LANES) {
        vec sum[H][4];
        _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
            _Pragma("GCC unroll 4") for (int part = 0; part < 4; part++)
                sum[head][part] = *(const vec *)(out + head * dim + first + part * LANES);
        for (int64_t token = 0; token < tokens; token++)
            _Pragma("GCC unroll 4") for (int part = 0; part < 4; part++)
            {
                const vec value = load_kept(values, seen[token] * dim + first + part * LANES, is_bfloat16);
                _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
                    sum[head][part] += weights[head * width + token] * value;
            }
        _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
            _Pragma("GCC unroll 4") for (int part = 0; part < 4; part++)
                *(vec *)(out + head * dim + first + part * LANES) = sum[head][part];
    }
    for (; first < dim; first += LANES)
        for (int64_t token = 0; token < tokens; token++)
            for (int head = 0; head < H; head++)
                *(vec *)(out + head * dim + first) +=
                    weights[head * width + token] * load_kept(values, seen[token] * dim + first, is_bfloat16);
}

/* Adds the weighted values of all tokens to the outputs of some heads. */
static inline __attribute__((always_inline)) void mix_all(
    const float *weights, int64_t heads, int64_t width, int64_t tokens, const char *values,
    const int64_t dim, float *out, const int is_bfloat16)
{
    for (int64_t token = 0; token < tokens; token += FEW) {
        const int64_t count = tokens - token < FEW ? tokens - token : FEW;
        const int32_t *seen = scratch.seen + token;
        int64_t head = 0;
        for (; head + 3 <= heads; head += 3)
            mix(weights + head * width + token, width, seen, count, values, dim, out + head * dim, 3, is_bfloat16);
        for (; head < heads; head++)
            mix(weights + head * width + token, width, seen, count, values, dim, out + head * dim, 1, is_bfloat16);
    }
}

/* Returns whether attention multiplies numbers of bfloat16. */
static inline int is_paired(const Pass *pass, int is_bfloat16)
{
#if defined(HAS_SHORT)
    return pass->is_bfloat16 && is_bfloat16 && pass->dim % DEPTH == 0;
#endif
    (void)pass;
    (void)is_bfloat16;
    return 0;
}

/* Replaces scores by e to their power, in relation to the largest, and returns the sum. */
static float soften(float *scores, int64_t count, float scaling, int is_bfloat16)
{
    vec most = (vec){0} + HIDDEN, sums = {0};
    for (int64_t at = 0; at < count; at += LANES) {
        for (int64_t behind = count; behind < at + LANES; behind++)
            scores[behind] = HIDDEN; /* which counts for nothing */
        const vec scaled = *(vec *)(scores + at) * scaling;
        *(vec *)(scores + at) = scaled;
        most = either(scaled > most, scaled, most);
    }
    float best = HIDDEN;
    for (int lane = 0; lane < LANES; lane++)
        best = most[lane] > best ? most[lane] : best;
    for (int64_t at = 0; at < count; at += LANES) {
        const vec weights = exponential(*(vec *)(scores + at) - best);
        *(vec *)(scores + at) = is_bfloat16 ? rounded(weights) : weights;
        if (at + LANES > count)
            memset(scores + count, 0, (size_t)(at + LANES - count) * sizeof(float));
        sums += *(vec *)(scores + at);
    }
    return total(sums);
}

/* together: how many heads that share keys are one chunk, so that keys and values are read once. */
typedef struct {
    const Pass *pass;
    int64_t together;
    int is_bfloat16;
} Few;

static void attend_few_chunk(const void *job, int chunk)
{
    const Few *few = job;
    const Pass *pass = few->pass;
    const int64_t together = few->together, groups = pass->heads / together, dim = pass->dim;
    const int64_t head = chunk % groups * together, row = chunk / groups;
    const int64_t shared = head / (pass->heads / pass->kv_heads);
    const int64_t text = pass->owners ? pass->owners[row] : row / (pass->rows / pass->texts);
    const int64_t offset = text * pass->text_stride + shared * pass->head_stride;
    const float *queries = pass->qkv + (row * (pass->heads + 2 * pass->kv_heads) + head) * dim;
    const int64_t width = pass->kv_length + LANES;
    float *const out = pass->mixed + (row * pass->heads + head) * dim;
    reserve(together * width);
    int64_t seen = list_seen(pass, row);
    const float scaling = seen ? pass->scaling : 0; /* who sees nothing mixes all, as in PyTorch */
    for (; !scaling && seen < pass->kv_length; seen++)
        scratch.seen[seen] = (int32_t)seen;
    float *const scores = scratch.scores;
    const char *keys = kept(pass, pass->keys, offset), *values = kept(pass, pass->values, offset);
#if defined(HAS_SHORT)
    if (is_paired(pass, few->is_bfloat16))
        score_pairs(queries, together, keys, seen, dim, scores, width);
    else
#endif
    if (pass->is_bfloat16)
        score(queries, together, keys, seen, dim, scores, width, 1);
    else
        score(queries, together, keys, seen, dim, scores, width, 0);
    float scale[together];
    for (int64_t index = 0; index < together; index++)
        scale[index] = 1.0f / soften(scores + index * width, seen, scaling, few->is_bfloat16);
    memset(out, 0, (size_t)(together * dim) * sizeof(float));
#if defined(HAS_SHORT)
    if (is_paired(pass, few->is_bfloat16))
        mix_all_pairs(scores, together, width, seen, values, dim, out);
    else
#endif
    if (pass->is_bfloat16)
        mix_all(scores, together, width, seen, values, dim, out, 1);
    else
        mix_all(scores, together, width, seen, values, dim, out, 0);
    for (int64_t index = 0; index < together; index++)
        for (int64_t at = 0; at < dim; at += LANES)
            *(vec *)(out + index * dim + at) *= scale[index];
}

static void attend_few(const Pass *pass, int is_bfloat16, int alone)
{
    /* A single row has too few groups of heads for all threads. */
    const Few few = {pass, pass->rows > 1 ? pass->heads / pass->kv_heads : 1, is_bfloat16};
    run(attend_few_chunk, &few, (int)(pass->rows * (pass->heads / few.together)), alone);
}
