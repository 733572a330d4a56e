/* Passes of a few rows through a decoder of Llama's kind, by as many threads as are free.

   A row's result does not depend on the rows beside it: every sum runs in one order. So a text
   that is written token by token and one that is read as a draft get the same logits, to the bit.

   Matrices are packed in panels of 32 outputs: [panel][input][32]. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define LANES 16
#define PANEL 32
#define TALLEST 12 /* rows whose sums fit in the registers */
#define HIDDEN -1e29f /* a mask that adds less than this hides a token */

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(64), aligned(4), may_alias));
typedef int8_t bytes __attribute__((vector_size(16), aligned(1), may_alias));

typedef struct {
    const void *panels;
    const float *bias;  /* [outputs], or none */
    const float *scale; /* [outputs] of eight bits, or none */
    int64_t outputs, inputs, kind; /* 0: float32, 1: eight bits */
} Matrix;

/* ---- Threads ---------------------------------------------------------------------------------

   The calling thread publishes a phase of numbered chunks and takes part in it. Whoever is free
   takes the next chunk, and nobody waits for a thread that has none: one that the system holds up
   delays a pass only if it holds a chunk. If such delays take up much of the time, since another
   program needs the cores, the others stay out for a while. */

#define SPINS 20000
#define WINDOW_NS 20000000
#define MOST_LOST 0.3 /* of a window, in waiting for others */
#define SHORTEST_REST_NS 50000000
#define LONGEST_REST_NS 800000000
#define MOST_HELPERS 63

typedef void (*Work)(const void *job, int chunk);

static struct {
    pthread_mutex_t owner; /* of the helpers; a second caller works alone */
    pthread_mutex_t sleep;
    pthread_cond_t wake;
    _Atomic uint64_t ticket; /* phase << 40 | chunks << 20 | next chunk */
    _Atomic int done, asleep;
    Work work;
    const void *job;
    uint64_t phase;
    int helpers;
    int64_t began, spent, lost; /* the call's start; of the window, the time in all and in waiting */
    int64_t rest, rest_until;
} pool = {.owner = PTHREAD_MUTEX_INITIALIZER, .sleep = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static inline int is_open(uint64_t ticket)
{
    return (ticket & 0xfffff) < (ticket >> 20 & 0xfffff);
}

/* Does one chunk of the phase, if any is left. */
static int take(void)
{
    if (!is_open(atomic_load_explicit(&pool.ticket, memory_order_acquire)))
        return 0;
    const uint64_t ticket = atomic_fetch_add_explicit(&pool.ticket, 1, memory_order_acq_rel);
    if (!is_open(ticket))
        return 0;
    pool.work(pool.job, (int)(ticket & 0xfffff));
    atomic_fetch_add_explicit(&pool.done, 1, memory_order_release);
    return 1;
}

static void *help(void *unused)
{
    for (int idle = 0;;) {
        if (take()) {
            idle = 0;
        } else if (++idle < SPINS) {
            pause_briefly();
        } else {
            pthread_mutex_lock(&pool.sleep);
            atomic_fetch_add(&pool.asleep, 1);
            if (!is_open(atomic_load(&pool.ticket)))
                pthread_cond_wait(&pool.wake, &pool.sleep);
            atomic_fetch_sub(&pool.asleep, 1);
            pthread_mutex_unlock(&pool.sleep);
            idle = 0;
        }
    }
    return unused;
}

/* A forked process has none of its parent's threads, and may find their locks taken. */
static void after_fork(void)
{
    pool.helpers = 0;
    pool.asleep = 0;
    pthread_mutex_init(&pool.owner, NULL);
    pthread_mutex_init(&pool.sleep, NULL);
    pthread_cond_init(&pool.wake, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

/* Returns whether the caller works alone, and otherwise has the helpers until `release`. */
static int is_alone(int threads)
{
    if (threads < 2 || pthread_mutex_trylock(&pool.owner))
        return 1;
    pool.began = now();
    if (pool.began < pool.rest_until) {
        pthread_mutex_unlock(&pool.owner);
        return 1;
    }
    while (pool.helpers < threads - 1 && pool.helpers < MOST_HELPERS) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, help, NULL))
            break;
        pthread_detach(thread);
        pool.helpers++;
    }
    return 0;
}

static void release(int alone)
{
    if (alone)
        return;
    const int64_t time = now();
    pool.spent += time - pool.began;
    if (pool.spent > WINDOW_NS) {
        if (pool.lost > MOST_LOST * pool.spent) {
            pool.rest = pool.rest ? 2 * pool.rest : SHORTEST_REST_NS;
            pool.rest = pool.rest < LONGEST_REST_NS ? pool.rest : LONGEST_REST_NS;
            pool.rest_until = time + pool.rest;
        } else {
            pool.rest = 0;
        }
        pool.spent = pool.lost = 0;
    }
    pthread_mutex_unlock(&pool.owner);
}

static void run(Work work, const void *job, int chunks, int alone)
{
    if (alone || chunks < 2) {
        for (int chunk = 0; chunk < chunks; chunk++)
            work(job, chunk);
        return;
    }
    pool.work = work;
    pool.job = job;
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    const uint64_t ticket = ++pool.phase << 40 | (uint64_t)chunks << 20;
    atomic_store(&pool.ticket, ticket);
    if (atomic_load(&pool.asleep)) {
        pthread_mutex_lock(&pool.sleep);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.sleep);
    }
    while (take()) {
    }
    int64_t began = 0;
    for (int spins = 1; atomic_load_explicit(&pool.done, memory_order_acquire) < chunks; spins++) {
        pause_briefly();
        if (spins % 1000 == 0) {
            began = began ? began : now();
            sched_yield();
        }
    }
    if (began)
        pool.lost += now() - began;
}

/* ---- Products ------------------------------------------------------------------------------ */

static inline vec load_float32(const void *at)
{
    return *(const vec *)at;
}

static inline vec load_int8(const void *at)
{
#if defined(__AVX512F__) /* which compilers don't find by themselves */
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at)));
#elif defined(__AVX2__)
    vec numbers;
    for (int half = 0; half < 2; half++) {
        const __m128i eight_bytes = _mm_loadl_epi64((const __m128i *)((const char *)at + 8 * half));
        _mm256_storeu_ps((float *)&numbers + 8 * half, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes)));
    }
    return numbers;
#else
    return __builtin_convertvector(__builtin_convertvector(*(const bytes *)at, ivec), vec);
#endif
}

/* The sums of R rows with one panel, to sums[row][output]. R is a constant, so that they stay in
   registers. */
#define TILE(NAME, SIZE, R)                                                                        \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        vec sum[R][2];                                                                             \
        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) sum[row][0] = sum[row][1] =     \
            (vec){0};                                                                              \
        for (int64_t input = 0; input < inputs; input++, panel += PANEL * SIZE) {                  \
            const vec first = load_##NAME(panel), second = load_##NAME(panel + LANES * SIZE);      \
            __builtin_prefetch(panel + 4096);                                                      \
            if (SIZE > 1)                                                                          \
                __builtin_prefetch(panel + 4096 + LANES * SIZE);                                   \
            _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                             \
            {                                                                                      \
                const float value = x[row * inputs + input];                                       \
                sum[row][0] += value * first;                                                      \
                sum[row][1] += value * second;                                                     \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                                 \
        {                                                                                          \
            *(vec *)(sums + row * PANEL) = sum[row][0];                                            \
            *(vec *)(sums + row * PANEL + LANES) = sum[row][1];                                    \
        }                                                                                          \
    }
#define TILES(NAME, SIZE)                                                                          \
    TILE(NAME, SIZE, 1) TILE(NAME, SIZE, 2) TILE(NAME, SIZE, 3) TILE(NAME, SIZE, 4)                \
    TILE(NAME, SIZE, 5) TILE(NAME, SIZE, 6) TILE(NAME, SIZE, 7) TILE(NAME, SIZE, 8)                \
    TILE(NAME, SIZE, 9) TILE(NAME, SIZE, 10) TILE(NAME, SIZE, 11) TILE(NAME, SIZE, 12)             \
    static Tile *const NAME##_tiles[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4,  NAME##_5,        \
                                         NAME##_6, NAME##_7, NAME##_8, NAME##_9,  NAME##_10,       \
                                         NAME##_11, NAME##_12};

typedef void Tile(const char *panel, const float *x, int64_t inputs, float *sums);
TILES(float32, 4)
TILES(int8, 1)
static Tile *const *const TILES_OF[] = {float32_tiles, int8_tiles};
static const int SIZE_OF[] = {4, 1};

static inline int64_t panels(const Matrix *matrix)
{
    return (matrix->outputs + PANEL - 1) / PANEL;
}

/* The products of some rows with one panel, to sums[row][output]. */
static void multiply(const Matrix *matrix, int64_t panel, const float *x, int rows, float *sums)
{
    const int size = SIZE_OF[matrix->kind];
    const char *weights = (const char *)matrix->panels + panel * PANEL * matrix->inputs * size;
    TILES_OF[matrix->kind][rows - 1](weights, x, matrix->inputs, sums);
    const int64_t first = panel * PANEL;
    const int64_t count = matrix->outputs - first < PANEL ? matrix->outputs - first : PANEL;
    if (matrix->scale)
        for (int row = 0; row < rows; row++)
            for (int64_t output = 0; output < count; output++)
                sums[row * PANEL + output] *= matrix->scale[first + output];
    if (matrix->bias)
        for (int row = 0; row < rows; row++)
            for (int64_t output = 0; output < count; output++)
                sums[row * PANEL + output] += matrix->bias[first + output];
}

/* The number of rows to take next, in as few and as equal parts as fit. */
static inline int tile_of(int rows)
{
    const int parts = (rows + TALLEST - 1) / TALLEST;
    return (rows + parts - 1) / parts;
}

/* The next outputs of several matrices side by side: out = x W^T + b, or added to what is there. */
typedef struct {
    const Matrix *matrices;
    int count, rows, adds;
    const float *x;
    float *out;
    int64_t stride; /* of a row of `out` */
} Product;

static void product_chunk(const void *job, int chunk)
{
    const Product *product = job;
    const Matrix *matrix = product->matrices;
    float *out = product->out, sums[TALLEST * PANEL];
    int64_t panel = chunk;
    for (; panel >= panels(matrix); matrix++) {
        panel -= panels(matrix);
        out += matrix->outputs;
    }
    const int64_t first = panel * PANEL;
    const int64_t count = matrix->outputs - first < PANEL ? matrix->outputs - first : PANEL;
    for (int row = 0, rows; row < product->rows; row += rows) {
        rows = tile_of(product->rows - row);
        multiply(matrix, panel, product->x + row * matrix->inputs, rows, sums);
        for (int next = 0; next < rows; next++) {
            float *to = out + (row + next) * product->stride + first;
            for (int64_t output = 0; output < count; output++)
                to[output] = sums[next * PANEL + output] + (product->adds ? to[output] : 0);
        }
    }
}

static int chunks_of(const Matrix *matrices, int count)
{
    int chunks = 0;
    for (int index = 0; index < count; index++)
        chunks += (int)panels(matrices + index);
    return chunks;
}

void outrider_product(const Matrix *matrix, const float *x, float *out, int rows, int threads)
{
    const Product product = {matrix, 1, rows, 0, x, out, matrix->outputs};
    const int alone = is_alone(threads);
    run(product_chunk, &product, chunks_of(matrix, 1), alone);
    release(alone);
}

/* ---- Layers -------------------------------------------------------------------------------- */

typedef struct {
    Matrix matrices[3];                 /* queries, keys, values */
    const float *norm, *q_norm, *k_norm; /* the latter two, or none */
    float epsilon;
} Entry;

typedef struct {
    Matrix output, gate, up, down;
    const float *norm;
    float epsilon;
} Exit;

typedef struct {
    int64_t rows, width, dim, heads, narrow; /* heads of queries, heads of keys */
    int64_t texts, threads;
    float *x, *normed, *qkv, *mixed, *active;
    const float *cosine, *sine; /* [rows, dim]; the first half of the sine is negative */
    const float *keys, *values; /* [texts, narrow, all, dim] */
    int64_t text_stride, head_stride, all; /* of keys and values, in numbers */
    const float *mask; /* [texts, count, all], added to the scores; none for a chain */
    int64_t mask_text_stride, mask_row_stride;
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
    const ivec exponent = (__builtin_convertvector(whole, ivec) + 127) << 23;
    return sum * (vec)exponent;
}

static inline float total(vec x)
{
    const eight halves_of_x = ((const eight *)&x)[0] + ((const eight *)&x)[1];
    const four quarters = ((const four *)&halves_of_x)[0] + ((const four *)&halves_of_x)[1];
    return quarters[0] + quarters[2] + (quarters[1] + quarters[3]);
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

static void normalize_all(const Pass *pass, const float *weight, float epsilon)
{
    for (int64_t row = 0; row < pass->rows; row++)
        normalize(pass->x + row * pass->width, weight, pass->normed + row * pass->width,
                  pass->width, epsilon);
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
    const int64_t heads = pass->heads + pass->narrow, stride = (heads + pass->narrow) * pass->dim;
    normalize_all(pass, entry->norm, entry->epsilon);
    const Product product = {entry->matrices, 3, (int)pass->rows, 0, pass->normed, pass->qkv, stride};
    run(product_chunk, &product, chunks_of(entry->matrices, 3), alone);
    for (int64_t row = 0; row < pass->rows; row++)
        for (int64_t index = 0; index < heads; index++) {
            float *head = pass->qkv + row * stride + index * pass->dim;
            const float *norm = index < pass->heads ? entry->q_norm : entry->k_norm;
            if (norm)
                normalize(head, norm, head, pass->dim, entry->epsilon);
            turn(head, pass->cosine + row * pass->dim, pass->sine + row * pass->dim, pass->dim);
        }
}

typedef struct {
    const Pass *pass;
    const Exit *exit;
} Half;

/* 32 outputs of the gated feed-forward's inside: silu(gate) * up. */
static void gate_chunk(const void *job, int chunk)
{
    const Half *half = job;
    const Exit *exit = half->exit;
    const Pass *pass = half->pass;
    float gates[TALLEST * PANEL], sums[TALLEST * PANEL];
    const int64_t first = (int64_t)chunk * PANEL, outputs = exit->up.outputs;
    const int64_t count = outputs - first < PANEL ? outputs - first : PANEL;
    for (int row = 0, rows; row < pass->rows; row += rows) {
        rows = tile_of((int)pass->rows - row);
        const float *x = pass->normed + row * pass->width;
        multiply(&exit->gate, chunk, x, rows, gates);
        multiply(&exit->up, chunk, x, rows, sums);
        for (int at = 0; at < rows * PANEL; at += LANES) {
            const vec gate = *(const vec *)(gates + at);
            *(vec *)(sums + at) *= gate / (exponential(-gate) + 1.0f);
        }
        for (int next = 0; next < rows; next++)
            memcpy(pass->active + (row + next) * outputs + first, sums + next * PANEL,
                   (size_t)count * sizeof(float));
    }
}

static inline float dot(const float *a, const float *b, int64_t dim)
{
    vec sum = {0};
    for (int64_t at = 0; at < dim; at += LANES)
        sum += *(const vec *)(a + at) * *(const vec *)(b + at);
    return total(sum);
}

typedef struct {
    float *scores;
    int32_t *seen;
    int64_t room;
} Scratch;

static _Thread_local Scratch scratch;

static void reserve(int64_t tokens)
{
    if (tokens + LANES <= scratch.room)
        return;
    scratch.room = 2 * tokens + LANES;
    scratch.scores = realloc(scratch.scores, (size_t)scratch.room * sizeof(float));
    scratch.seen = realloc(scratch.seen, (size_t)scratch.room * sizeof(int32_t));
}

/* Lists the tokens that a row sees, in the order of the text, so that a path of a tree adds up
   as a chain does. Returns how many they are. */
static int64_t list_seen(const Pass *pass, int64_t text, int64_t row)
{
    const int64_t count = pass->rows / pass->texts;
    const int64_t limit = pass->mask ? pass->all : pass->all - count + row + 1;
    const float *mask = NULL;
    int64_t seen = 0;
    if (pass->mask)
        mask = pass->mask + text * pass->mask_text_stride + row * pass->mask_row_stride;
    for (int64_t token = 0; token < limit; token++)
        if (!mask || mask[token] > HIDDEN)
            scratch.seen[seen++] = (int32_t)token;
    return seen;
}

/* The weighted sum of some tokens' values. */
static void mix(const float *weights, const int32_t *seen, int count, const float *values,
                int64_t dim, float scale, float *out)
{
    int64_t first = 0;
    for (; first + 4 * LANES <= dim; first += 4 * LANES) {
        vec sum[4] = {{0}, {0}, {0}, {0}};
        for (int at = 0; at < count; at++) {
            const float *value = values + seen[at] * dim + first;
            _Pragma("GCC unroll 4") for (int part = 0; part < 4; part++)
                sum[part] += weights[at] * *(const vec *)(value + part * LANES);
        }
        for (int part = 0; part < 4; part++)
            *(vec *)(out + first + part * LANES) = sum[part] * scale;
    }
    for (; first < dim; first += LANES) {
        vec sum = {0};
        for (int at = 0; at < count; at++)
            sum += weights[at] * *(const vec *)(values + seen[at] * dim + first);
        *(vec *)(out + first) = sum * scale;
    }
}

/* Attention of one head of one row. */
static void attend_chunk(const void *job, int chunk)
{
    const Pass *pass = ((const Half *)job)->pass;
    const int64_t head = chunk % pass->heads, row = chunk / pass->heads, dim = pass->dim;
    const int64_t count = pass->rows / pass->texts, text = row / count;
    const int64_t shared = head / (pass->heads / pass->narrow);
    const int64_t offset = text * pass->text_stride + shared * pass->head_stride;
    const float *query = pass->qkv + row * (pass->heads + 2 * pass->narrow) * dim + head * dim;
    reserve(pass->all);
    int64_t seen = list_seen(pass, text, row % count);
    const float scaling = seen ? pass->scaling : 0; /* who sees nothing mixes all, as in PyTorch */
    for (; !scaling && seen < pass->all; seen++)
        scratch.seen[seen] = (int32_t)seen;
    float *const scores = scratch.scores, *const out = pass->mixed + (row * pass->heads + head) * dim;
    float best = HIDDEN;
    for (int64_t at = 0; at < seen; at++) {
        scores[at] = scaling * dot(query, pass->keys + offset + scratch.seen[at] * dim, dim);
        best = scores[at] > best ? scores[at] : best;
    }
    vec sums = {0};
    for (int64_t at = 0; at < seen; at += LANES) {
        const vec weights = exponential(*(vec *)(scores + at) - best);
        *(vec *)(scores + at) = weights;
        if (at + LANES > seen) /* what lies behind the last score counts for nothing */
            memset(scores + seen, 0, (size_t)(at + LANES - seen) * sizeof(float));
        sums += *(vec *)(scores + at);
    }
    mix(scores, scratch.seen, (int)seen, pass->values + offset, dim, 1.0f / total(sums), out);
}

/* From a layer's attention to its output. */
static void leave(const Pass *pass, const Exit *exit, int alone)
{
    const int rows = (int)pass->rows;
    const Product output = {&exit->output, 1, rows, 1, pass->mixed, pass->x, pass->width};
    const Product down = {&exit->down, 1, rows, 1, pass->active, pass->x, pass->width};
    const Half half = {pass, exit};
    run(product_chunk, &output, chunks_of(&exit->output, 1), alone);
    normalize_all(pass, exit->norm, exit->epsilon);
    run(gate_chunk, &half, (int)panels(&exit->up), alone);
    run(product_chunk, &down, chunks_of(&exit->down, 1), alone);
}

/* Attends in one layer, if `keys` is set, and goes on to the queries, keys and values of the
   next, if there is one. `exit` is NULL before the first layer, `entry` after the last. */
void outrider_layer(const Pass *pass, const Exit *exit, const Entry *entry)
{
    const int alone = is_alone((int)pass->threads);
    const Half half = {pass, exit};
    if (exit && pass->keys)
        run(attend_chunk, &half, (int)(pass->rows * pass->heads), alone);
    if (exit)
        leave(pass, exit, alone);
    if (entry)
        enter(pass, entry, alone);
    release(alone);
}
