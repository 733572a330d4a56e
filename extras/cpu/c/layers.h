/* What a layer does beside attention. */

#pragma once

#include "products.h"

typedef struct {
    Matrix matrices[3];                 /* queries, keys, values */
    const float *norm, *q_norm, *k_norm; /* each of them, or none */
    float epsilon;
} Entry;

typedef struct {
    Matrix output, gate, up, down;
    const float *norm;
    float epsilon;
} Exit;

typedef struct {
    int64_t rows, width, dim, heads, kv_heads; /* heads of queries, heads of keys */
    int64_t texts, threads;
    int64_t drafted; /* of the rows of one text, how many at its end are a draft */
    float *x, *normed, *qkv, *mixed, *active;
    const float *cosine, *sine; /* [rows, dim]; the first half of the sine is negative */
    const void *keys, *values; /* [texts, kv_heads, kv_length, dim] */
    int64_t is_bfloat16; /* whether keys and values are of bfloat16, not of float32 */
    int64_t text_stride, head_stride, kv_length; /* of keys and values, in numbers */
    const float *mask; /* [texts, count, kv_length], added to the scores; none for a chain */
    int64_t mask_text_stride, mask_row_stride;
    const int64_t *owners, *slots; /* of rows side by side: the text of each, and its place there */
    const int64_t *prefix_owners, *prefix_lengths; /* of texts: where the first keys lie, and how many */
    float scaling;
} Pass;

static inline vec either(ivec is_first, vec first, vec second)
{
    return (vec)((is_first & (ivec)first) | (~is_first & (ivec)second));
}

/* e^x, to the last bits of float32 (Cephes' polynomial), in lanes. */
static inline vec exponential(vec x)
{
    const vec low = (vec){0} - 87.0f, high = (vec){0} + 88.0f, round = (vec){0} + 12582912.0f;
    x = either(x < low, low, either(x > high, high, x));
    const vec whole = x * 1.44269504f + round - round;
    const vec rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vec sum = (vec){0} + 1.9875691500e-4f;
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    const uvec exponent = (uvec)(__builtin_convertvector(whole, ivec) + 127) << 23;
    return sum * (vec)exponent;
}

/* Root mean square norm (1910.07467) of one row of a multiple of 16 numbers. */
static void normalize(const float *x, const float *weight, float *out, int64_t width, float epsilon)
{
    vec squares = {0};
    for (int64_t at = 0; at < width; at += LANES)
        squares += *(const vec *)(x + at) * *(const vec *)(x + at);
    const float scale = 1.0f / __builtin_sqrtf(total(squares) / (float)width + epsilon);
    for (int64_t at = 0; at < width; at += LANES)
        *(vec *)(out + at) = *(const vec *)(x + at) * scale * *(const vec *)(weight + at);
}

void outrider_normalize(const float *x, const float *weight, float *out, int64_t rows, int64_t width,
                        float epsilon)
{
    for (int64_t row = 0; row < rows; row++)
        normalize(x + row * width, weight, out + row * width, width, epsilon);
}

static void normalize_all(const Pass *pass, const float *weight, float epsilon)
{
    if (weight)
        outrider_normalize(pass->x, weight, pass->normed, pass->rows, pass->width, epsilon);
    else
        memcpy(pass->normed, pass->x, (size_t)(pass->rows * pass->width) * sizeof(float));
}

/* The number with the digits of bfloat16 that is nearest. */
static inline float nearest(float number)
{
    const uint32_t bits = bits_of(number);
    return ((union { uint32_t bits; float number; }){bits + 0x7fff + (bits >> 16 & 1)}).number;
}

/* Numbers with the digits of bfloat16, the nearest ones. */
static inline vec rounded(vec x)
{
    const uvec bits = (uvec)x;
    return (vec)((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

/* Turns a head to its position (2104.09864). */
static void turn(float *head, const float *cosine, const float *sine, int64_t dim)
{
    const int64_t half = dim / 2;
    for (int64_t at = 0; at < half; at++) {
        const float low = head[at], high = head[at + half];
        head[at] = low * cosine[at] + high * sine[at];
        head[at + half] = high * cosine[at + half] + low * sine[at + half];
    }
}

/* The queries, keys and values of a layer, with their positions. */
static void enter(const Pass *pass, const Entry *entry, int alone)
{
    const int64_t heads = pass->heads + pass->kv_heads, stride = (heads + pass->kv_heads) * pass->dim;
    normalize_all(pass, entry->norm, entry->epsilon);
    const Rows normed = prepare(entry->matrices, 3, pass->normed, (int)pass->rows, alone);
    const Product product = {entry->matrices, 3, 0, normed, pass->qkv, stride, 0};
    run_product(product, alone);
    for (int64_t row = 0; row < pass->rows; row++)
        for (int64_t index = 0; index < heads; index++) {
            float *head = pass->qkv + row * stride + index * pass->dim;
            const float *norm = index < pass->heads ? entry->q_norm : entry->k_norm;
            if (norm)
                normalize(head, norm, head, pass->dim, entry->epsilon);
            turn(head, pass->cosine + row * pass->dim, pass->sine + row * pass->dim, pass->dim);
        }
    if (outrider_attends_in_short(entry->matrices->kind))
        for (int64_t at = 0; at < pass->rows * stride; at += LANES)
            *(vec *)(pass->qkv + at) = rounded(*(vec *)(pass->qkv + at));
}

typedef struct {
    const Exit *exit;
    Rows rows;
    float *out;
} Gate;

/* 32 outputs of the gated feed-forward's inside: silu(gate) * up. */
static void gate_panel(const Gate *gate, int panel)
{
    const Exit *exit = gate->exit;
    const Rows *rows = &gate->rows;
    float gates[TILED * PANEL], sums[TILED * PANEL];
    const int64_t first = (int64_t)panel * PANEL, width = exit->up.outputs;
    const int64_t outputs = width - first < PANEL ? width - first : PANEL;
    for (int row = 0, count; row < rows->rows; row += count) {
        count = next_rows(rows, row);
        multiply(&exit->gate, panel, rows, row, count, gates);
        multiply(&exit->up, panel, rows, row, count, sums);
        for (int at = 0; at < count * PANEL; at += LANES) {
            const vec x = *(const vec *)(gates + at);
            *(vec *)(sums + at) *= x / (exponential(-x) + 1.0f);
        }
        for (int next = 0; next < count; next++)
            memcpy(gate->out + (row + next) * width + first, sums + next * PANEL,
                   (size_t)outputs * sizeof(float));
    }
}

static void gate_chunk(const void *job, int chunk)
{
    const Gate *gate = job;
    const int size = grain(&gate->exit->up), first = chunk * size;
    for (int panel = first; panel < first + size && panel < panels(&gate->exit->up); panel++)
        gate_panel(gate, panel);
}

typedef struct {
    float *scores;
    int32_t *seen;
    int64_t capacity;
} Scratch;

static _Thread_local Scratch scratch;

static void reserve(int64_t numbers)
{
    if (numbers + LANES <= scratch.capacity)
        return;
    scratch.capacity = 2 * numbers + LANES;
    scratch.scores = realloc(scratch.scores, (size_t)scratch.capacity * sizeof(float));
    scratch.seen = realloc(scratch.seen, (size_t)scratch.capacity * sizeof(int32_t));
}
