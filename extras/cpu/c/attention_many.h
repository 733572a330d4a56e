/* Attention of many rows of one text. */

#pragma once

#include "attention_few.h"

/* Attention of many rows of a chain: the products of queries with keys, and of weights with
   values, are those of matrices, in float32 or bfloat16.

   keys: [kv_heads][panels][dim][PANEL], with zeros behind the last token.
   values: [kv_heads][parts][panels][PANEL tokens][PANEL], likewise.
   key_bytes, value_bytes: of a panel. */
typedef struct {
    const Pass *pass;
    char *keys, *values;
    int64_t panels, parts, key_bytes, value_bytes;
    int is_bfloat16;
} Tall;

/* Where a panel has an input of an output: in bfloat16 two inputs are next to each other. */
static inline int64_t place(int64_t input, int64_t output, int is_bfloat16)
{
    return is_bfloat16 ? (input / 2 * PANEL + output) * 2 + input % 2 : input * PANEL + output;
}

static inline void put(char *panel, int64_t at, float number, int is_bfloat16)
{
    if (is_bfloat16)
        ((uint16_t *)panel)[at] = (uint16_t)(bits_of(number) >> 16);
    else
        ((float *)panel)[at] = number;
}

/* A number of keys or values. */
static inline float take_kept(const char *some, int64_t at, int64_t is_bfloat16)
{
    if (is_bfloat16)
        return ((union { uint32_t bits; float number; }){(uint32_t)((const uint16_t *)some)[at] << 16}).number;
    return ((const float *)some)[at];
}

/* Packs the keys and values of 32 tokens. In bfloat16 they have been rounded before. */
static inline __attribute__((always_inline)) void pack(const Tall *tall, int chunk, const int is_bfloat16)
{
    const Pass *pass = tall->pass;
    const int64_t head = chunk / tall->panels, panel = chunk % tall->panels, dim = pass->dim;
    const int64_t first = panel * PANEL, left = pass->kv_length - first;
    const int64_t tokens = left < PANEL ? left : PANEL, offset = head * pass->head_stride + first * dim;
    const Origin origin = origin_of(pass, 0);
    int64_t at_token[PANEL];
    for (int64_t token = 0; token < tokens; token++)
        at_token[token] = offset + (token + (first + token < origin.held ? origin.ahead : 0)) * dim;
    char *keys = tall->keys + (head * tall->panels + panel) * tall->key_bytes;
    memset(keys, 0, (size_t)tall->key_bytes);
    for (int64_t at = 0; at < dim; at++)
        for (int64_t token = 0; token < tokens; token++)
            put(keys, place(at, token, is_bfloat16), take_kept(pass->keys, at_token[token] + at, pass->is_bfloat16), is_bfloat16);
    for (int64_t part = 0; part < tall->parts; part++) {
        char *values = tall->values + ((head * tall->parts + part) * tall->panels + panel) * tall->value_bytes;
        const int64_t begin = part * PANEL, width = dim - begin < PANEL ? dim - begin : PANEL;
        memset(values, 0, (size_t)tall->value_bytes);
        for (int64_t token = 0; token < tokens; token++)
            for (int64_t at = 0; at < width; at++)
                put(values, place(token, at, is_bfloat16),
                    take_kept(pass->values, at_token[token] + begin + at, pass->is_bfloat16), is_bfloat16);
    }
}

static void pack_chunk(const void *job, int chunk)
{
    const Tall *tall = job;
    if (tall->is_bfloat16)
        pack(tall, chunk, 1);
    else
        pack(tall, chunk, 0);
}

/* Attention of some queries of the heads that share keys. The last come first: they take longest. */
static void attend_tall_chunk(const void *job, int chunk)
{
    const Tall *tall = job;
    const Pass *pass = tall->pass;
    const int64_t dim = pass->dim, shared = pass->heads / pass->kv_heads, queries = pass->rows * shared;
    const int64_t kv_heads = chunk % pass->kv_heads, known = pass->kv_length - pass->rows;
    const int64_t end = queries - chunk / pass->kv_heads * TALLEST, first = end > TALLEST ? end - TALLEST : 0;
    const int64_t panels_seen = (known + (end - 1) / shared + PANEL) / PANEL, width = panels_seen * PANEL;
    const int count = (int)(end - first);
    reserve(TALLEST * (width + dim));
    float *const scores = scratch.scores, *const own = scores + TALLEST * width;
    float sums[TALLEST * PANEL], scale[TALLEST];
    float *out[TALLEST];
    for (int64_t index = 0; index < count; index++) {
        const int64_t row = (first + index) / shared, head = kv_heads * shared + (first + index) % shared;
        const float *query = pass->qkv + (row * (pass->heads + 2 * pass->kv_heads) + head) * dim;
        out[index] = pass->mixed + (row * pass->heads + head) * dim;
        memcpy(own + index * dim, query, (size_t)dim * sizeof(float));
    }
    const Rows own_rows = few_rows(own, dim, count, tall->is_bfloat16);
    for (int64_t panel = 0; panel < panels_seen; panel++) {
        multiply_few(tall->keys + (kv_heads * tall->panels + panel) * tall->key_bytes, &own_rows, tall->is_bfloat16, sums);
        for (int index = 0; index < count; index++)
            memcpy(scores + index * width + panel * PANEL, sums + index * PANEL, PANEL * sizeof(float));
    }
    for (int index = 0; index < count; index++) {
        const int64_t seen = known + (first + index) / shared + 1;
        scale[index] = 1.0f / soften(scores + index * width, seen, pass->scaling, tall->is_bfloat16);
        memset(scores + index * width + seen, 0, (size_t)(width - seen) * sizeof(float));
    }
    const Rows weights = few_rows(scores, width, count, tall->is_bfloat16);
    for (int64_t part = 0; part < tall->parts; part++) {
        const int64_t left = dim - part * PANEL, size = left < PANEL ? left : PANEL;
        multiply_few(tall->values + (kv_heads * tall->parts + part) * tall->panels * tall->value_bytes,
                     &weights, tall->is_bfloat16, sums);
        for (int index = 0; index < count; index++)
            for (int64_t at = 0; at < size; at++)
                out[index][part * PANEL + at] = sums[index * PANEL + at] * scale[index];
    }
}

static void attend_tall(const Pass *pass, int is_bfloat16, int alone)
{
    static _Thread_local char *buffer;
    static _Thread_local int64_t size;
    const int64_t panels = (pass->kv_length + PANEL - 1) / PANEL, parts = (pass->dim + PANEL - 1) / PANEL;
    const int64_t bytes = is_bfloat16 ? 2 : 4, inputs = is_bfloat16 ? depth_of(pass->dim) * DEPTH : pass->dim;
    const int64_t key_bytes = inputs * PANEL * bytes, value_bytes = PANEL * PANEL * bytes;
    const int64_t keys = pass->kv_heads * panels * key_bytes;
    const int64_t needed = keys + pass->kv_heads * panels * parts * value_bytes + AHEAD;
    if (needed > size) {
        free(buffer);
        size = (2 * needed + 63) / 64 * 64;
        buffer = aligned_alloc(64, (size_t)size);
    }
    const Tall tall = {pass, buffer, buffer + keys, panels, parts, key_bytes, value_bytes, is_bfloat16};
    const int64_t queries = pass->rows * (pass->heads / pass->kv_heads);
    run(pack_chunk, &tall, (int)(pass->kv_heads * panels), alone);
    run(attend_tall_chunk, &tall, (int)(pass->kv_heads * ((queries + TALLEST - 1) / TALLEST)), alone);
}
