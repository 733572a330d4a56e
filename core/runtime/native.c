/* Passes of a few rows through a decoder of Llama's kind, by as many threads as are free.

   A row's result does not depend on the rows beside it: every sum runs in one order. So a text
   that is written token by token and one that is read as a draft get the same logits, to the bit.

   Matrices are packed in panels of 32 outputs: [panel][input][32]. Those of bfloat16 have their
   inputs in pairs, [panel][pair][32][2], with zeros up to a multiple of 32 inputs. In four bits,
   32 inputs are a group, and a panel is two halves, [half][group]: a group has its scales and its
   least weights, [16] of float16 each, and [8 inputs][16 outputs][4] bytes, where the lower half
   of byte i is input i of the eight, and the upper half input i + 4. In eight bits, it has its
   scales and [4 inputs][16 outputs][4] bytes, of which 128 stands for 0.

   Whatever the weights are stored as, everything else is float32, but for the inputs of a product
   where the processor multiplies shorter ones faster. With weights of bfloat16, they are rounded to
   bfloat16 as well (AVX512_BF16, AMX). With groups, each row's are whole numbers of fifteen or
   eight bits, with a scale for each group (VNNI). */

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
#if defined(__AVX512VNNI__)
#define HAS_BYTES
#endif
#if defined(__AVX512BF16__)
#define HAS_SHORT
#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#define HAS_TILES
#endif
#endif

#define LANES 16
#define PANEL 32
#define TALLEST 12 /* rows whose sums fit in the registers */
#define DEPTH 32   /* inputs of a tile, and of a group */
#define MIDDLE 8   /* of a weight's whole number in four bits */
#define ZERO 128   /* the byte of a weight of 0 */
#define LARGEST 127 /* byte that inputs are rounded to */
#define GROUP (4 * LANES + DEPTH * LANES / 2) /* bytes of a group of four bits */
#define AHEAD 4096 /* bytes of a panel to fetch before they are needed */
#define NEAR 2048  /* likewise, once they are in the second cache */
#define SHORTEST 4 /* rows whose products take no longer than their weights take to arrive */
#define PIECE 65536 /* bytes of panels for one thread to take, at most if they are more than one */
#define TILED 32   /* rows of two tiles */
#define FEW 64     /* rows whose results don't depend on their number */
#define HIDDEN -1e29f /* a mask that adds less than this hides a token */

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t uvec __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t halves __attribute__((vector_size(32), aligned(2), may_alias));
typedef int8_t bytes __attribute__((vector_size(16), aligned(1), may_alias));

typedef struct {
    const void *panels;
    const float *bias;  /* [outputs], or none */
    const float *scale; /* [outputs] of eight bits, or none */
    int64_t outputs, inputs, kind;
} Matrix;

enum { FLOAT32, EIGHT_BITS, BFLOAT16, FOUR_BITS, EIGHT_BITS_IN_GROUPS, SHORT_INPUTS };

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
    int gives_up; /* the others are out for the rest of the call, and then for `rest` */
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
    if (pool.gives_up) {
        pool.rest = pool.rest > SHORTEST_REST_NS / 2 ? 2 * pool.rest : SHORTEST_REST_NS;
        pool.rest = pool.rest < LONGEST_REST_NS ? pool.rest : LONGEST_REST_NS;
        pool.rest_until = time + pool.rest;
    } else if (pool.spent > WINDOW_NS) {
        pool.rest /= 2; /* not 0: the other program may only have paused */
    }
    if (pool.gives_up || pool.spent > WINDOW_NS)
        pool.spent = pool.lost = pool.gives_up = 0;
    pthread_mutex_unlock(&pool.owner);
}

static void run(Work work, const void *job, int chunks, int alone)
{
    if (alone || chunks < 2 || pool.gives_up) {
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
    if (began) {
        const int64_t time = now(), spent = pool.spent + time - pool.began;
        pool.lost += time - began;
        pool.gives_up = pool.lost > MOST_LOST * (spent > WINDOW_NS ? spent : WINDOW_NS);
    }
}

/* ---- Products ------------------------------------------------------------------------------ */

static inline uint32_t bits_of(float number)
{
    return ((union { float number; uint32_t bits; }){number}).bits;
}

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

static inline float total(vec x)
{
    const eight halves_of_x = ((const eight *)&x)[0] + ((const eight *)&x)[1];
    const four quarters = ((const four *)&halves_of_x)[0] + ((const four *)&halves_of_x)[1];
    return quarters[0] + quarters[2] + (quarters[1] + quarters[3]);
}

#if defined(__clang__) || __GNUC__ >= 12
#define PICK(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#else
#define PICK(A, B, ...) __builtin_shuffle(A, B, (ivec){__VA_ARGS__})
#endif

/* Adds the halves of two vectors, or of what they were folded from. */
static inline vec fold16(vec a, vec b)
{
    return PICK(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
         + PICK(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}

static inline vec fold8(vec a, vec b)
{
    return PICK(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
         + PICK(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

static inline vec fold4(vec a, vec b)
{
    return PICK(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29)
         + PICK(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
}

static inline vec fold2(vec a, vec b)
{
    return PICK(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
         + PICK(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

/* The totals of sixteen vectors, each added up as `total` does. */
static inline __attribute__((always_inline)) vec totals(const vec *x)
{
    vec eights[8], fours[4];
    _Pragma("GCC unroll 8") for (int pair = 0; pair < 8; pair++)
        eights[pair] = fold16(x[2 * pair], x[2 * pair + 1]);
    _Pragma("GCC unroll 4") for (int pair = 0; pair < 4; pair++)
        fours[pair] = fold8(eights[2 * pair], eights[2 * pair + 1]);
    return fold2(fold4(fours[0], fours[1]), fold4(fours[2], fours[3]));
}

/* The lowest four bits of each word, as numbers. */
static inline vec nibble(uvec words)
{
#if defined(__AVX512F__) /* looks only at the lowest four bits */
    const vec numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vec)_mm512_permutexvar_ps((__m512i)words, (__m512)numbers);
#else
    return __builtin_convertvector((ivec)(words & 15), vec);
#endif
}

/* Sixteen numbers of float16: the exponent's offset is 15 instead of 127. */
static inline vec load_float16(const void *at)
{
#if defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
#endif
    const uvec bits = __builtin_convertvector(*(const halves *)at, uvec);
    const vec magnitude = (vec)((bits & 0x7fff) << 13) * 0x1p112f;
    return (vec)((uvec)magnitude | (bits & 0x8000) << 16);
}

static inline vec load_bfloat16(const void *at)
{
    return (vec)(__builtin_convertvector(*(const halves *)at, uvec) << 16);
}

/* Fetches what comes later in a panel. The first cache waits for few lines at once, too few to keep
   memory busy during the products of many rows, so the second one is asked for them before. */
static inline __attribute__((always_inline)) void fetch_ahead(const char *at, const int rows)
{
    __builtin_prefetch(at + (rows > SHORTEST ? NEAR : AHEAD));
    if (rows > SHORTEST)
        __builtin_prefetch(at + 2 * AHEAD, 0, 2);
}

/* Writes the sums of R rows, which are in registers, to sums[row][output]. */
#define STORE(SUM, SUMS, R)                                                                        \
    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                                     \
    {                                                                                              \
        *(vec *)(SUMS + row * PANEL) = SUM[row][0];                                                \
        *(vec *)(SUMS + row * PANEL + LANES) = SUM[row][1];                                        \
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
            fetch_ahead(panel, R);                                                                 \
            if (SIZE > 1)                                                                          \
                fetch_ahead(panel + LANES * SIZE, R);                                              \
            _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                             \
            {                                                                                      \
                const float value = x[row * inputs + input];                                       \
                sum[row][0] += value * first;                                                      \
                sum[row][1] += value * second;                                                     \
            }                                                                                      \
        }                                                                                          \
        STORE(sum, sums, R)                                                                        \
    }

/* The same for weights of bfloat16, which are the upper halves of float32. Two inputs share a
   word; behind the last of an odd number is a weight of 0. */
#define PAIR_TILE(NAME, SIZE, R)                                                                   \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        vec sum[R][2];                                                                             \
        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) sum[row][0] = sum[row][1] =     \
            (vec){0};                                                                              \
        for (int64_t input = 0; input < inputs; input += 2, panel += 2 * PANEL * SIZE) {           \
            const uvec first = *(const uvec *)panel;                                               \
            const uvec second = *(const uvec *)(panel + 2 * LANES * SIZE);                         \
            const int64_t odd = input + 1 < inputs;                                                \
            fetch_ahead(panel, R);                                                                 \
            fetch_ahead(panel + 2 * LANES * SIZE, R);                                              \
            _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                             \
            {                                                                                      \
                const float *values = x + row * inputs + input;                                    \
                sum[row][0] += values[0] * (vec)(first << 16);                                     \
                sum[row][1] += values[0] * (vec)(second << 16);                                    \
                sum[row][0] += values[odd] * (vec)(first & 0xffff0000);                            \
                sum[row][1] += values[odd] * (vec)(second & 0xffff0000);                           \
            }                                                                                      \
        }                                                                                          \
        STORE(sum, sums, R)                                                                        \
    }

/* The same for weights of four bits: each is scale * q + least, with q from 0 to 15. A group's sums
   of q are scaled at its end. */
#define GROUP_TILE(NAME, SIZE, R)                                                                  \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        for (int half = 0; half < 2; half++, sums += LANES) {                                      \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t group = 0; group < inputs; group += DEPTH, panel += GROUP) {              \
                vec first[R] = {{0}}, second[R] = {{0}};                                           \
                for (int64_t word = 0; word < DEPTH / 8; word++) {                                 \
                    const uvec words = *(const uvec *)(panel + 4 * LANES * (word + 1));            \
                    fetch_ahead(panel + 4 * LANES * word, R);                                      \
                    _Pragma("GCC unroll 4") for (int byte = 0; byte < 4; byte++)                   \
                        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                 \
                    {                                                                              \
                        const float *values = x + row * inputs + group + 8 * word + byte;          \
                        first[row] += values[0] * nibble(words >> 8 * byte);                       \
                        second[row] += values[4] * nibble(words >> (8 * byte + 4));                \
                    }                                                                              \
                }                                                                                  \
                const vec scale = load_float16(panel), least = load_float16(panel + 2 * LANES);    \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                {                                                                                  \
                    const vec *values = (const vec *)(x + row * inputs + group);                   \
                    sum[row] += (first[row] + second[row]) * scale;                                \
                    sum[row] += total(values[0] + values[1]) * least;                              \
                }                                                                                  \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }
/* The same for weights of eight bits in groups. */
#define BYTES_TILE(NAME, SIZE, R)                                                                  \
    static void NAME##_##R(const char *panel, const float *x, int64_t inputs, float *sums)         \
    {                                                                                              \
        for (int half = 0; half < 2; half++, sums += LANES) {                                      \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t group = 0; group < inputs; group += DEPTH) {                              \
                const vec scale = load_float16(panel);                                             \
                vec whole[R] = {{0}};                                                              \
                panel += 2 * LANES;                                                                \
                for (int64_t word = 0; word < DEPTH / 4; word++, panel += 4 * LANES) {             \
                    const uvec words = *(const uvec *)panel;                                       \
                    fetch_ahead(panel, R);                                                         \
                    _Pragma("GCC unroll 4") for (int byte = 0; byte < 4; byte++)                   \
                    {                                                                              \
                        const ivec bytes = (ivec)(words >> 8 * byte & 255) - ZERO;                 \
                        const vec weights = __builtin_convertvector(bytes, vec);                   \
                        _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) whole[row] +=   \
                            x[row * inputs + group + 4 * word + byte] * weights;                   \
                    }                                                                              \
                }                                                                                  \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++) sum[row] +=             \
                    whole[row] * scale;                                                            \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }
#define TILES(TILE, NAME, SIZE)                                                                    \
    TILE(NAME, SIZE, 1) TILE(NAME, SIZE, 2) TILE(NAME, SIZE, 3) TILE(NAME, SIZE, 4)                \
    TILE(NAME, SIZE, 5) TILE(NAME, SIZE, 6) TILE(NAME, SIZE, 7) TILE(NAME, SIZE, 8)                \
    TILE(NAME, SIZE, 9) TILE(NAME, SIZE, 10) TILE(NAME, SIZE, 11) TILE(NAME, SIZE, 12)             \
    static Tile *const NAME##_tiles[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4,  NAME##_5,        \
                                         NAME##_6, NAME##_7, NAME##_8, NAME##_9,  NAME##_10,       \
                                         NAME##_11, NAME##_12};

typedef void Tile(const char *panel, const float *x, int64_t inputs, float *sums);
TILES(TILE, float32, 4)
TILES(TILE, int8, 1)
TILES(PAIR_TILE, bfloat16, 2)
TILES(GROUP_TILE, int4, 0)
TILES(BYTES_TILE, grouped, 0)
static Tile *const *const TILES_OF[] = {float32_tiles, int8_tiles,    bfloat16_tiles,
                                        int4_tiles,    grouped_tiles, grouped_tiles};
static const int BYTES_OF[] = {128, 32, 64, 20, 34, 34}; /* of an input in a panel, with its part of a group's numbers */

/* A group of a row's inputs: each is about `step` times a whole number, which is a digit, or 128
   times a digit and another one.

   sum: of the inputs. whole: of the whole numbers. */
typedef struct {
    float step, sum;
    int32_t whole;
    int8_t digits[2][DEPTH];
} Group;

/* Some rows to multiply with matrices of one kind.

   tallest: how many rows to take at once.
   shortened: the rows in bfloat16, [TILED rows][DEPTH inputs][TILED][DEPTH], or none.
   groups: the rows as whole numbers, [rows][inputs / DEPTH], or none.
   digits: how many these have. */
typedef struct {
    const float *x;
    int64_t inputs;
    int rows, tallest;
    uint16_t *shortened;
    Group *groups;
    int digits;
} Rows;

static inline int64_t depth_of(int64_t inputs)
{
    return (inputs + DEPTH - 1) / DEPTH;
}

/* The products of some rows, from `first` on, with one panel, to sums[row][output]. */
typedef void TileOfRows(const char *panel, const Rows *rows, int first, float *sums);

#if defined(HAS_SHORT)
/* Rounds the rows of two tiles to bfloat16. */
static void shorten_chunk(const void *job, int group)
{
    const Rows *rows = job;
    const int first = group * TILED;
    const int64_t depth = depth_of(rows->inputs), inputs = rows->inputs;
    for (int row = first; row < first + TILED && row < rows->rows; row++) {
        const float *x = rows->x + row * inputs;
        uint16_t *to = rows->shortened + (group * depth * TILED + row - first) * DEPTH;
        for (int64_t at = 0; at < inputs; at += DEPTH, to += TILED * DEPTH)
            for (int half = 0; half < 2; half++) {
                const int64_t left = inputs - at - half * LANES;
                const __mmask16 given = left >= LANES ? 0xffff : left > 0 ? (1 << left) - 1 : 0;
                const __m512 numbers = _mm512_maskz_loadu_ps(given, x + at + half * LANES);
                _mm256_storeu_si256((__m256i *)to + half, (__m256i)_mm512_cvtneps_pbh(numbers));
            }
    }
}

/* The products of R shortened rows with one panel of bfloat16, to sums[row][output]. */
#define SHORT(R)                                                                                   \
    static void short_##R(const char *panel, const Rows *rows, int first, float *sums)             \
    {                                                                                              \
        const int64_t depth = depth_of(rows->inputs);                                              \
        const uint16_t *x = rows->shortened + (first / TILED * depth * TILED + first % TILED) * DEPTH; \
        vec sum[R][2] = {{{0}}};                                                                   \
        for (int64_t at = 0; at < depth; at++, x += TILED * DEPTH)                                 \
            for (int pair = 0; pair < DEPTH; pair += 2, panel += 4 * PANEL) {                      \
                const __m512bh weights[] = {(__m512bh)_mm512_loadu_si512(panel),                   \
                                            (__m512bh)_mm512_loadu_si512(panel + 4 * LANES)};      \
                fetch_ahead(panel, R);                                                             \
                fetch_ahead(panel + 4 * LANES, R);                                                 \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                {                                                                                  \
                    int32_t both;                                                                  \
                    memcpy(&both, x + row * DEPTH + pair, sizeof both);                            \
                    _Pragma("GCC unroll 2") for (int half = 0; half < 2; half++) sum[row][half] =  \
                        (vec)_mm512_dpbf16_ps((__m512)sum[row][half],                              \
                                              (__m512bh)_mm512_set1_epi32(both), weights[half]);   \
                }                                                                                  \
            }                                                                                      \
        STORE(sum, sums, R)                                                                        \
    }
SHORT(1) SHORT(2) SHORT(3) SHORT(4) SHORT(5) SHORT(6) SHORT(7) SHORT(8) SHORT(9) SHORT(10) SHORT(11) SHORT(12)
static TileOfRows *const short_tiles[] = {short_1, short_2, short_3, short_4,  short_5,  short_6,
                                          short_7, short_8, short_9, short_10, short_11, short_12};
#endif

#if defined(HAS_TILES)
static int has_tiles;

/* Asks the system for the tiles (AMX), since it saves them only for processes that did. */
__attribute__((constructor)) static void ask_for_tiles(void)
{
    has_tiles = !syscall(SYS_arch_prctl, 0x1023, 18);
}

/* The products of `tiles` tiles of rows with one panel, to sums[row][output]. Each tile's rows, and
   sums, are independent of each other. */
static inline __attribute__((always_inline)) void multiply_tiles(
    const char *panel, const uint16_t *rows, int64_t depth, const int tiles, float *sums)
{
    static const struct {
        uint8_t palette, start, unused[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    const int64_t line = PANEL * 4, step = DEPTH * PANEL * 2;
    char before[64];
    __asm__ volatile("" ::"r"(before) : "memory"); /* tiles read memory unseen by the compiler */
    _tile_storeconfig(before);
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (; depth--; panel += step, rows += TILED * DEPTH) {
        _tile_loadd(4, panel, line);
        _tile_loadd(5, panel + 64, line);
        _tile_loadd(6, rows, 2 * DEPTH);
        for (int64_t ahead = 0; ahead < step; ahead += 64)
            __builtin_prefetch(panel + 2 * step + ahead);
        _tile_dpbf16ps(0, 6, 4);
        _tile_dpbf16ps(1, 6, 5);
        if (tiles > 1) {
            _tile_loadd(7, rows + TILED / 2 * DEPTH, 2 * DEPTH);
            _tile_dpbf16ps(2, 7, 4);
            _tile_dpbf16ps(3, 7, 5);
        }
    }
    _tile_stored(0, sums, line);
    _tile_stored(1, sums + LANES, line);
    if (tiles > 1) {
        _tile_stored(2, sums + TILED / 2 * PANEL, line);
        _tile_stored(3, sums + TILED / 2 * PANEL + LANES, line);
    }
    _tile_loadconfig(before);
    __asm__ volatile("" ::"r"(before) : "memory");
}

/* The products of the rows from `first` on, a multiple of TILED, with one panel. */
static void multiply_shortened(const char *panel, const Rows *rows, int first, int count, float *sums)
{
    const int64_t depth = depth_of(rows->inputs);
    const uint16_t *shortened = rows->shortened + first * depth * DEPTH;
    float all[TILED * PANEL] __attribute__((aligned(64)));
    if (count > TILED / 2)
        multiply_tiles(panel, shortened, depth, 2, all);
    else
        multiply_tiles(panel, shortened, depth, 1, all);
    memcpy(sums, all, (size_t)(count * PANEL) * sizeof(float));
}
#endif

#if defined(HAS_BYTES)
/* Rounds one row's inputs to whole numbers. */
static void round_chunk(const void *job, int row)
{
    const Rows *rows = job;
    const float *x = rows->x + row * rows->inputs;
    Group *group = rows->groups + row * (rows->inputs / DEPTH);
    for (int64_t at = 0; at < rows->inputs; at += DEPTH, group++, x += DEPTH) {
        const __m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + LANES);
        const float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(first), _mm512_abs_ps(second)));
        const float largest = rows->digits > 1 ? 128 * LARGEST : LARGEST;
        const __m512 scale = _mm512_set1_ps(most > 0 ? largest / most : 0);
        group->step = most / largest;
        group->sum = total((vec)_mm512_add_ps(first, second));
        group->whole = 0;
        for (int half = 0; half < 2; half++) {
            const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(half ? second : first, scale));
            __m512i high = whole;
            if (rows->digits > 1)
                high = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(64)), 7);
            const __m512i low = _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 7));
            _mm_storeu_si128((__m128i *)group->digits[0] + half, _mm512_cvtepi32_epi8(high));
            _mm_storeu_si128((__m128i *)group->digits[1] + half, _mm512_cvtepi32_epi8(low));
            group->whole += _mm512_reduce_add_epi32(whole);
        }
    }
}

/* Adds the products of sixteen times four bytes of weights with each digit of four inputs. */
static inline __attribute__((always_inline)) void add_bytes(__m512i *sums, __m512i weights,
                                                            const Group *group, int input, const int digits)
{
    _Pragma("GCC unroll 2") for (int digit = 0; digit < digits; digit++)
    {
        int32_t four_inputs;
        memcpy(&four_inputs, group->digits[digit] + input, sizeof four_inputs);
        sums[digit] = _mm512_dpbusd_epi32(sums[digit], weights, _mm512_set1_epi32(four_inputs));
    }
}

/* What the sums of a row start from, since the byte of a weight of 0 is `zero`. */
static inline __attribute__((always_inline)) void start_sums(__m512i *sums, const Group *group, int zero,
                                                             const int digits)
{
    sums[0] = _mm512_setzero_si512();
    sums[digits - 1] = _mm512_set1_epi32(-zero * group->whole);
}

/* The sums of all digits, as numbers. */
static inline __attribute__((always_inline)) vec whole_sums(const __m512i *sums, const int digits)
{
    const __m512i whole =
        digits > 1 ? _mm512_add_epi32(_mm512_slli_epi32(sums[0], 7), sums[1]) : sums[0];
    return (vec)_mm512_cvtepi32_ps(whole);
}

/* The products of R rows of whole numbers of D digits with one panel of four bits, to
   sums[row][output]. The weights are taken from their middle, so that what the inputs lose in
   rounding counts less. */
#define BYTES4(NAME, R, D)                                                                         \
    static void NAME##_##R(const char *panel, const Rows *rows, int first, float *sums)            \
    {                                                                                              \
        const int64_t groups = rows->inputs / DEPTH;                                               \
        const __m512i lower = _mm512_set1_epi8(15);                                                \
        for (int half = 0; half < 2; half++, sums += LANES) {                                      \
            const Group *group = rows->groups + first * groups;                                    \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t at = 0; at < groups; at++, group++, panel += GROUP) {                     \
                __m512i whole[R][D];                                                               \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                    start_sums(whole[row], group + row * groups, MIDDLE, D);                       \
                _Pragma("GCC unroll 4") for (int word = 0; word < DEPTH / 8; word++)               \
                {                                                                                  \
                    const __m512i both = _mm512_loadu_si512(panel + 4 * LANES * (word + 1));       \
                    const __m512i even = _mm512_and_si512(both, lower);                            \
                    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(both, 4), lower);       \
                    fetch_ahead(panel + 4 * LANES * word, R);                                      \
                    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                     \
                    {                                                                              \
                        add_bytes(whole[row], even, group + row * groups, 8 * word, D);            \
                        add_bytes(whole[row], odd, group + row * groups, 8 * word + 4, D);         \
                    }                                                                              \
                }                                                                                  \
                const vec scale = load_float16(panel);                                             \
                const vec middle = scale * MIDDLE + load_float16(panel + 2 * LANES);               \
                fetch_ahead(panel + 4 * LANES * DEPTH / 8, R);                                     \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                {                                                                                  \
                    const Group *own = group + row * groups;                                       \
                    sum[row] += whole_sums(whole[row], D) * (scale * own->step);                   \
                    sum[row] += middle * own->sum;                                                 \
                }                                                                                  \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }

/* The same for a panel of eight bits. */
#define BYTES8(NAME, R, D)                                                                         \
    static void NAME##_##R(const char *panel, const Rows *rows, int first, float *sums)            \
    {                                                                                              \
        const int64_t groups = rows->inputs / DEPTH;                                               \
        for (int half = 0; half < 2; half++, sums += LANES) {                                      \
            const Group *group = rows->groups + first * groups;                                    \
            vec sum[R] = {{0}};                                                                    \
            for (int64_t at = 0; at < groups; at++, group++) {                                     \
                __m512i whole[R][D];                                                               \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                    start_sums(whole[row], group + row * groups, ZERO, D);                         \
                const vec scale = load_float16(panel);                                             \
                fetch_ahead(panel, R);                                                             \
                panel += 2 * LANES;                                                                \
                _Pragma("GCC unroll 8") for (int word = 0; word < DEPTH / 4; word++, panel += 64)  \
                {                                                                                  \
                    const __m512i weights = _mm512_loadu_si512(panel);                             \
                    fetch_ahead(panel, R);                                                         \
                    _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                     \
                        add_bytes(whole[row], weights, group + row * groups, 4 * word, D);         \
                }                                                                                  \
                _Pragma("GCC unroll 16") for (int row = 0; row < R; row++)                         \
                    sum[row] += whole_sums(whole[row], D) * (scale * group[row * groups].step);    \
            }                                                                                      \
            for (int row = 0; row < R; row++)                                                      \
                *(vec *)(sums + row * PANEL) = sum[row];                                           \
        }                                                                                          \
    }
#define OF_BYTES(TILE, NAME, D)                                                                    \
    TILE(NAME, 1, D) TILE(NAME, 2, D) TILE(NAME, 3, D) TILE(NAME, 4, D) TILE(NAME, 5, D)           \
    TILE(NAME, 6, D) TILE(NAME, 7, D) TILE(NAME, 8, D)                                             \
    static TileOfRows *const NAME##_tiles[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4,             \
                                                NAME##_5, NAME##_6, NAME##_7, NAME##_8};

OF_BYTES(BYTES4, bytes4, 2)
OF_BYTES(BYTES8, bytes8, 2)
OF_BYTES(BYTES8, bytes8_short, 1)
static TileOfRows *const *const BYTES_TILES_OF[] = {bytes4_tiles, bytes8_tiles, bytes8_short_tiles};

/* Rounds the rows to whole numbers. They hold until this thread's next ones. */
static void round_rows(Rows *rows, int alone)
{
    static _Thread_local Group *room;
    static _Thread_local size_t size;
    const size_t needed = (size_t)(rows->rows * (rows->inputs / DEPTH)) * sizeof(Group);
    if (needed > size) {
        free(room);
        room = malloc(needed);
        size = needed;
    }
    rows->groups = room;
    rows->tallest = TALLEST * 2 / 3; /* with two sums for each of the others' */
    run(round_chunk, rows, rows->rows, alone || rows->rows < TALLEST);
}
#endif

#if defined(HAS_SHORT)
/* Rounds the rows to bfloat16. They hold until this thread's next ones. */
static void shorten_rows(Rows *rows, int alone)
{
    static _Thread_local uint16_t *room;
    static _Thread_local size_t size;
    const int groups = (rows->rows + TILED - 1) / TILED;
    const size_t needed = (size_t)(groups * depth_of(rows->inputs) * TILED * DEPTH) * 2;
    if (needed > size) {
        free(room);
        room = aligned_alloc(64, needed);
        size = needed;
    }
    rows->shortened = room;
    run(shorten_chunk, rows, groups, alone);
}
#endif

/* Returns whether products with a matrix are those of bfloat16. */
static inline int is_shortened(const Matrix *matrix)
{
#if defined(HAS_SHORT)
    return matrix->kind == BFLOAT16;
#endif
    (void)matrix;
    return 0;
}

/* Returns rows to multiply, rounded for the matrix. They hold until this thread's next ones. */
static Rows prepare(const Matrix *matrix, const float *x, int rows, int alone)
{
    const int tallest = matrix->kind < FOUR_BITS ? TALLEST : TALLEST / 3; /* groups have more sums */
    Rows result = {x, matrix->inputs, rows, tallest, NULL, NULL, matrix->kind == SHORT_INPUTS ? 1 : 2};
#if defined(HAS_SHORT)
    if (matrix->kind == BFLOAT16)
        shorten_rows(&result, alone);
#endif
#if defined(HAS_BYTES)
    if (matrix->kind >= FOUR_BITS)
        round_rows(&result, alone);
#endif
    (void)alone;
    return result;
}

static inline int64_t panels(const Matrix *matrix)
{
    return (matrix->outputs + PANEL - 1) / PANEL;
}

/* The number of rows to take next, in as few and as equal parts as fit. */
static inline int next_rows(const Rows *rows, int row)
{
    int left = rows->rows - row;
    if (rows->shortened && left > TILED - row % TILED)
        left = TILED - row % TILED;
#if defined(HAS_TILES)
    if (rows->shortened && has_tiles)
        return left;
#endif
    const int parts = (left + rows->tallest - 1) / rows->tallest;
    return (left + parts - 1) / parts;
}

/* Returns up to TALLEST rows to multiply with panels of float32, or with some of bfloat16 if
   `is_short`. They hold until this thread's next ones. */
static Rows few_rows(const float *x, int64_t inputs, int count, int is_short)
{
    Rows rows = {x, inputs, count, TALLEST, NULL, NULL, 0};
#if defined(HAS_SHORT)
    static _Thread_local uint16_t *room;
    static _Thread_local size_t size;
    const size_t needed = (size_t)(depth_of(inputs) * TILED * DEPTH) * 2;
    if (is_short && needed > size) {
        free(room);
        room = aligned_alloc(64, 2 * needed);
        size = 2 * needed;
    }
    if (is_short) {
        rows.shortened = room;
        shorten_chunk(&rows, 0);
    }
#endif
    (void)is_short;
    return rows;
}

/* The products of few rows with one panel, to sums[row][output]. */
static void multiply_few(const char *panel, const Rows *rows, float *sums)
{
#if defined(HAS_TILES)
    if (rows->shortened && has_tiles) {
        multiply_shortened(panel, rows, 0, rows->rows, sums);
        return;
    }
#endif
#if defined(HAS_SHORT)
    if (rows->shortened) {
        short_tiles[rows->rows - 1](panel, rows, 0, sums);
        return;
    }
#endif
    float32_tiles[rows->rows - 1](panel, rows->x, rows->inputs, sums);
}

/* The products of `count` rows with one panel, to sums[row][output]. */
static void multiply(const Matrix *matrix, int64_t panel, const Rows *rows, int row, int count,
                     float *sums)
{
    const int64_t inputs = matrix->kind == BFLOAT16 ? depth_of(matrix->inputs) * DEPTH : matrix->inputs;
    const char *weights = (const char *)matrix->panels + panel * inputs * BYTES_OF[matrix->kind];
    for (int64_t at = 0; at < AHEAD && !row; at += 64) /* another thread may have fetched these */
        __builtin_prefetch(weights + at);
#if defined(HAS_TILES)
    if (rows->shortened && has_tiles)
        multiply_shortened(weights, rows, row, count, sums);
    else
#endif
#if defined(HAS_SHORT)
    if (rows->shortened)
        short_tiles[count - 1](weights, rows, row, sums);
    else
#endif
#if defined(HAS_BYTES)
    if (rows->groups && matrix->kind >= FOUR_BITS)
        BYTES_TILES_OF[matrix->kind - FOUR_BITS][count - 1](weights, rows, row, sums);
    else
#endif
        TILES_OF[matrix->kind][count - 1](weights, rows->x + row * rows->inputs, rows->inputs, sums);
    const int64_t first = panel * PANEL;
    const int64_t outputs = matrix->outputs - first < PANEL ? matrix->outputs - first : PANEL;
    if (matrix->scale)
        for (int next = 0; next < count; next++)
            for (int64_t output = 0; output < outputs; output++)
                sums[next * PANEL + output] *= matrix->scale[first + output];
    if (matrix->bias)
        for (int next = 0; next < count; next++)
            for (int64_t output = 0; output < outputs; output++)
                sums[next * PANEL + output] += matrix->bias[first + output];
}

/* How many panels a thread takes at once: memory is faster where it is read in one piece. */
static int grain(const Matrix *matrix)
{
    const int64_t bytes = matrix->inputs * BYTES_OF[matrix->kind];
    return bytes < PIECE ? (int)(PIECE / bytes) : 1;
}

/* The next outputs of several matrices side by side: out = x W^T + b, or added to what is there. */
typedef struct {
    const Matrix *matrices;
    int count, adds;
    Rows rows;
    float *out;
    int64_t stride; /* of a row of `out` */
    int panels;     /* in all; set by `run_product` */
} Product;

static void product_panel(const Product *product, int64_t panel)
{
    const Rows *rows = &product->rows;
    const Matrix *matrix = product->matrices;
    float *out = product->out, sums[TILED * PANEL];
    for (; panel >= panels(matrix); matrix++) {
        panel -= panels(matrix);
        out += matrix->outputs;
    }
    const int64_t first = panel * PANEL;
    const int64_t outputs = matrix->outputs - first < PANEL ? matrix->outputs - first : PANEL;
    for (int row = 0, count; row < rows->rows; row += count) {
        count = next_rows(rows, row);
        multiply(matrix, panel, rows, row, count, sums);
        for (int next = 0; next < count; next++) {
            float *to = out + (row + next) * product->stride + first;
            for (int64_t output = 0; output < outputs; output++)
                to[output] = sums[next * PANEL + output] + (product->adds ? to[output] : 0);
        }
    }
}

static void product_chunk(const void *job, int chunk)
{
    const Product *product = job;
    const int size = grain(product->matrices), first = chunk * size;
    for (int panel = first; panel < first + size && panel < product->panels; panel++)
        product_panel(product, panel);
}

static void run_product(Product product, int alone)
{
    const int size = grain(product.matrices);
    for (int index = 0; index < product.count; index++)
        product.panels += (int)panels(product.matrices + index);
    run(product_chunk, &product, (product.panels + size - 1) / size, alone);
}

void outrider_product(const Matrix *matrix, const float *x, float *out, int rows, int threads)
{
    const int alone = is_alone(threads);
    const Product product = {matrix, 1, 0, prepare(matrix, x, rows, alone), out, matrix->outputs, 0};
    run_product(product, alone);
    release(alone);
}

/* Returns whether the inputs of a product are rounded: to bfloat16, or of groups to whole numbers. */
int outrider_rounds_inputs(int64_t kind)
{
#if defined(HAS_SHORT)
    if (kind == BFLOAT16)
        return 1;
#endif
#if defined(HAS_BYTES)
    if (kind >= FOUR_BITS)
        return 1;
#endif
    (void)kind;
    return 0;
}

/* Returns whether products with bfloat16 run on tiles. */
int outrider_has_tiles(void)
{
#if defined(HAS_TILES)
    return has_tiles;
#else
    return 0;
#endif
}

/* ---- Layers -------------------------------------------------------------------------------- */

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
    int64_t rows, width, dim, heads, narrow; /* heads of queries, heads of keys */
    int64_t texts, threads;
    float *x, *normed, *qkv, *mixed, *active;
    const float *cosine, *sine; /* [rows, dim]; the first half of the sine is negative */
    const void *keys, *values; /* [texts, narrow, all, dim] */
    int64_t is_short; /* whether keys and values are of bfloat16, not of float32 */
    int64_t text_stride, head_stride, all; /* of keys and values, in numbers */
    const float *mask; /* [texts, count, all], added to the scores; none for a chain */
    int64_t mask_text_stride, mask_row_stride;
    const int64_t *owners, *slots; /* of rows side by side: the text of each, and its place there */
    const int64_t *origins, *counts; /* of texts: whose keys and values the first are, and how many */
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
    const int64_t heads = pass->heads + pass->narrow, stride = (heads + pass->narrow) * pass->dim;
    normalize_all(pass, entry->norm, entry->epsilon);
    const Rows normed = prepare(entry->matrices, pass->normed, (int)pass->rows, alone);
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
    if (is_shortened(entry->matrices))
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
    int64_t room;
} Scratch;

static _Thread_local Scratch scratch;

static void reserve(int64_t numbers)
{
    if (numbers + LANES <= scratch.room)
        return;
    scratch.room = 2 * numbers + LANES;
    scratch.scores = realloc(scratch.scores, (size_t)scratch.room * sizeof(float));
    scratch.seen = realloc(scratch.seen, (size_t)scratch.room * sizeof(int32_t));
}

/* The first tokens of a text that another one holds, and where they are, in tokens from its own. */
typedef struct {
    int64_t held, ahead;
} Origin;

static Origin origin_of(const Pass *pass, int64_t row)
{
    if (!pass->origins)
        return (Origin){0, 0};
    const int64_t text = pass->owners[row], tokens = pass->text_stride / pass->dim;
    return (Origin){pass->counts[text], (pass->origins[text] - text) * tokens};
}

/* Lists the tokens that a row sees, in the order of the text, so that a path of a tree adds up
   as a chain does. Returns how many they are. */
static int64_t list_seen(const Pass *pass, int64_t row)
{
    const int64_t count = pass->rows / pass->texts;
    const Origin origin = origin_of(pass, row);
    int64_t limit = pass->slots ? pass->slots[row] + 1 : pass->all - count + row % count + 1;
    const float *mask = NULL;
    int64_t seen = 0;
    if (pass->mask) {
        mask = pass->mask + row / count * pass->mask_text_stride + row % count * pass->mask_row_stride;
        limit = pass->all;
    }
    for (int64_t token = 0; token < limit; token++)
        if (!mask || mask[token] > HIDDEN)
            scratch.seen[seen++] = (int32_t)(token + (token < origin.held ? origin.ahead : 0));
    return seen;
}

/* Where a number of keys or values is. */
static inline const char *kept(const Pass *pass, const void *all, int64_t at)
{
    return (const char *)all + at * (pass->is_short ? 2 : 4);
}

static inline vec load_kept(const char *some, int64_t at, const int is_short)
{
    return is_short ? load_bfloat16(some + 2 * at) : load_float32(some + 4 * at);
}

/* The products of some queries with the keys of some tokens, each query's in a row of its own. */
static inline __attribute__((always_inline)) void score(
    const float *queries, int64_t count, const char *keys, int64_t tokens, const int64_t dim,
    float *scores, int64_t width, const int is_short)
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
                    sum += *(const vec *)(query + at) * load_kept(keys, key + at, is_short);
                sums[lane] = sum;
            }
            *(vec *)(scores + index * width + first) = totals(sums);
        }
}

/* Adds the weighted values of some tokens to the outputs of H heads. H is a constant, so that the
   sums stay in registers. */
static inline __attribute__((always_inline)) void mix(
    const float *weights, int64_t width, const int32_t *seen, int64_t tokens, const char *values,
    int64_t dim, float *out, const int H, const int is_short)
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
                const vec value = load_kept(values, seen[token] * dim + first + part * LANES, is_short);
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
                    weights[head * width + token] * load_kept(values, seen[token] * dim + first, is_short);
}

/* Adds the weighted values of all tokens to the outputs of some heads. */
static inline __attribute__((always_inline)) void mix_all(
    const float *weights, int64_t heads, int64_t width, int64_t tokens, const char *values,
    const int64_t dim, float *out, const int is_short)
{
    for (int64_t token = 0; token < tokens; token += FEW) {
        const int64_t count = tokens - token < FEW ? tokens - token : FEW;
        const int32_t *seen = scratch.seen + token;
        int64_t head = 0;
        for (; head + 3 <= heads; head += 3)
            mix(weights + head * width + token, width, seen, count, values, dim, out + head * dim, 3, is_short);
        for (; head < heads; head++)
            mix(weights + head * width + token, width, seen, count, values, dim, out + head * dim, 1, is_short);
    }
}

#if defined(HAS_SHORT)
/* What `score` does with keys of bfloat16, two numbers at once. */
static void score_pairs(const float *queries, int64_t count, const char *keys, int64_t tokens,
                        int64_t dim, float *scores, int64_t width)
{
    uint16_t short_queries[count * dim];
    for (int64_t at = 0; at < count * dim; at++)
        short_queries[at] = (uint16_t)(bits_of(queries[at]) >> 16);
    for (int64_t first = 0; first < tokens; first += LANES)
        for (int64_t index = 0; index < count; index++) {
            const uint16_t *query = short_queries + index * dim;
            vec sums[LANES];
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t token = first + lane < tokens ? first + lane : tokens - 1;
                const char *key = keys + 2 * scratch.seen[token] * dim;
                __m512 sum = _mm512_setzero_ps();
                for (int64_t at = 0; at < dim; at += DEPTH)
                    sum = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_loadu_si512(query + at),
                                           (__m512bh)_mm512_loadu_si512(key + 2 * at));
                sums[lane] = (vec)sum;
            }
            *(vec *)(scores + index * width + first) = totals(sums);
        }
}

/* Writes two weights of bfloat16 as one word, for each two tokens. Behind the last is a zero. */
static void pair_weights(float *weights, int64_t tokens)
{
    uint32_t *pairs = (uint32_t *)weights;
    for (int64_t token = 0; token < tokens; token += 2)
        pairs[token / 2] = bits_of(weights[token]) >> 16 | bits_of(weights[token + 1]);
}

/* What `mix` does with values of bfloat16, two tokens at once: N times 32 numbers of H heads. */
static inline __attribute__((always_inline)) void mix_pairs(
    const float *pairs, int64_t width, int64_t tokens, const char *values, int64_t dim, float *out,
    const int H, const int N)
{
    __m512 sum[H][2 * N];
    _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
        _Pragma("GCC unroll 4") for (int part = 0; part < 2 * N; part++)
            sum[head][part] = _mm512_setzero_ps();
    for (int64_t token = 0; token < tokens; token += 2) {
        const int32_t *seen = scratch.seen + token;
        const char *one = values + 2 * seen[0] * dim, *other = values + 2 * seen[token + 1 < tokens] * dim;
        _Pragma("GCC unroll 2") for (int part = 0; part < N; part++)
        {
            const __m512i first = _mm512_loadu_si512(one + 2 * DEPTH * part);
            const __m512i second = _mm512_loadu_si512(other + 2 * DEPTH * part);
            const __m512bh low = (__m512bh)_mm512_unpacklo_epi16(first, second);
            const __m512bh high = (__m512bh)_mm512_unpackhi_epi16(first, second);
            _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
            {
                const __m512bh pair = (__m512bh)_mm512_set1_ps(pairs[head * width + token / 2]);
                sum[head][2 * part] = _mm512_dpbf16_ps(sum[head][2 * part], pair, low);
                sum[head][2 * part + 1] = _mm512_dpbf16_ps(sum[head][2 * part + 1], pair, high);
            }
        }
    }
    _Pragma("GCC unroll 3") for (int head = 0; head < H; head++)
        _Pragma("GCC unroll 2") for (int part = 0; part < N; part++)
        {
            const vec low = (vec)sum[head][2 * part], high = (vec)sum[head][2 * part + 1];
            float *to = out + head * dim + DEPTH * part;
            *(vec *)to = PICK(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
            *(vec *)(to + LANES) = PICK(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        }
}

/* The weighted values of all tokens, of some heads. */
static void mix_all_pairs(float *weights, int64_t heads, int64_t width, int64_t tokens,
                          const char *values, int64_t dim, float *out)
{
    for (int64_t head = 0; head < heads; head++)
        pair_weights(weights + head * width, tokens);
    int64_t size;
    for (int64_t at = 0; at < dim; at += size) {
        size = at + 2 * DEPTH <= dim ? 2 * DEPTH : DEPTH;
        int64_t head = 0;
        for (; head + 3 <= heads && size > DEPTH; head += 3)
            mix_pairs(weights + head * width, width, tokens, values + 2 * at, dim, out + head * dim + at, 3, 2);
        for (; head < heads && size > DEPTH; head++)
            mix_pairs(weights + head * width, width, tokens, values + 2 * at, dim, out + head * dim + at, 1, 2);
        for (; head < heads; head++)
            mix_pairs(weights + head * width, width, tokens, values + 2 * at, dim, out + head * dim + at, 1, 1);
    }
}
#endif

/* Returns whether attention multiplies numbers of bfloat16. */
static inline int is_paired(const Pass *pass, int is_short)
{
#if defined(HAS_SHORT)
    return pass->is_short && is_short && pass->dim % DEPTH == 0;
#endif
    (void)pass;
    (void)is_short;
    return 0;
}

/* Replaces scores by e to their power, in relation to the largest, and returns the sum. */
static float soften(float *scores, int64_t count, float scaling, int is_short)
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
        *(vec *)(scores + at) = is_short ? rounded(weights) : weights;
        if (at + LANES > count)
            memset(scores + count, 0, (size_t)(at + LANES - count) * sizeof(float));
        sums += *(vec *)(scores + at);
    }
    return total(sums);
}

/* Attention of few rows, or of rows of several texts.

   together: how many heads that share keys are one chunk, so that keys and values are read once. */
typedef struct {
    const Pass *pass;
    int64_t together;
    int is_short;
} Few;

static void attend_few_chunk(const void *job, int chunk)
{
    const Few *few = job;
    const Pass *pass = few->pass;
    const int64_t together = few->together, groups = pass->heads / together, dim = pass->dim;
    const int64_t head = chunk % groups * together, row = chunk / groups;
    const int64_t shared = head / (pass->heads / pass->narrow);
    const int64_t text = pass->owners ? pass->owners[row] : row / (pass->rows / pass->texts);
    const int64_t offset = text * pass->text_stride + shared * pass->head_stride;
    const float *queries = pass->qkv + (row * (pass->heads + 2 * pass->narrow) + head) * dim;
    const int64_t width = pass->all + LANES;
    float *const out = pass->mixed + (row * pass->heads + head) * dim;
    reserve(together * width);
    int64_t seen = list_seen(pass, row);
    const float scaling = seen ? pass->scaling : 0; /* who sees nothing mixes all, as in PyTorch */
    for (; !scaling && seen < pass->all; seen++)
        scratch.seen[seen] = (int32_t)seen;
    float *const scores = scratch.scores;
    const char *keys = kept(pass, pass->keys, offset), *values = kept(pass, pass->values, offset);
#if defined(HAS_SHORT)
    if (is_paired(pass, few->is_short))
        score_pairs(queries, together, keys, seen, dim, scores, width);
    else
#endif
    if (pass->is_short)
        score(queries, together, keys, seen, dim, scores, width, 1);
    else
        score(queries, together, keys, seen, dim, scores, width, 0);
    float scale[together];
    for (int64_t index = 0; index < together; index++)
        scale[index] = 1.0f / soften(scores + index * width, seen, scaling, few->is_short);
    memset(out, 0, (size_t)(together * dim) * sizeof(float));
#if defined(HAS_SHORT)
    if (is_paired(pass, few->is_short))
        mix_all_pairs(scores, together, width, seen, values, dim, out);
    else
#endif
    if (pass->is_short)
        mix_all(scores, together, width, seen, values, dim, out, 1);
    else
        mix_all(scores, together, width, seen, values, dim, out, 0);
    for (int64_t index = 0; index < together; index++)
        for (int64_t at = 0; at < dim; at += LANES)
            *(vec *)(out + index * dim + at) *= scale[index];
}

static void attend_few(const Pass *pass, int is_short, int alone)
{
    /* A single row has too few groups of heads for all threads. */
    const Few few = {pass, pass->rows > 1 ? pass->heads / pass->narrow : 1, is_short};
    run(attend_few_chunk, &few, (int)(pass->rows * (pass->heads / few.together)), alone);
}

/* Attention of many rows of a chain: the products of queries with keys, and of weights with
   values, are those of matrices, in float32 or bfloat16.

   keys: [narrow][panels][dim][PANEL], with zeros behind the last token.
   values: [narrow][parts][panels][PANEL tokens][PANEL], likewise.
   key_bytes, value_bytes: of a panel. */
typedef struct {
    const Pass *pass;
    char *keys, *values;
    int64_t panels, parts, key_bytes, value_bytes;
    int is_short;
} Tall;

/* Where a panel has an input of an output: in bfloat16 two inputs are next to each other. */
static inline int64_t place(int64_t input, int64_t output, int is_short)
{
    return is_short ? (input / 2 * PANEL + output) * 2 + input % 2 : input * PANEL + output;
}

static inline void put(char *panel, int64_t at, float number, int is_short)
{
    if (is_short)
        ((uint16_t *)panel)[at] = (uint16_t)(bits_of(number) >> 16);
    else
        ((float *)panel)[at] = number;
}

/* A number of keys or values. */
static inline float take_kept(const char *some, int64_t at, int64_t is_short)
{
    if (is_short)
        return ((union { uint32_t bits; float number; }){(uint32_t)((const uint16_t *)some)[at] << 16}).number;
    return ((const float *)some)[at];
}

/* Packs the keys and values of 32 tokens. In bfloat16 they have been rounded before. */
static inline __attribute__((always_inline)) void pack(const Tall *tall, int chunk, const int is_short)
{
    const Pass *pass = tall->pass;
    const int64_t head = chunk / tall->panels, panel = chunk % tall->panels, dim = pass->dim;
    const int64_t first = panel * PANEL, left = pass->all - first;
    const int64_t tokens = left < PANEL ? left : PANEL, offset = head * pass->head_stride + first * dim;
    const Origin origin = origin_of(pass, 0);
    int64_t at_token[PANEL];
    for (int64_t token = 0; token < tokens; token++)
        at_token[token] = offset + (token + (first + token < origin.held ? origin.ahead : 0)) * dim;
    char *keys = tall->keys + (head * tall->panels + panel) * tall->key_bytes;
    memset(keys, 0, (size_t)tall->key_bytes);
    for (int64_t at = 0; at < dim; at++)
        for (int64_t token = 0; token < tokens; token++)
            put(keys, place(at, token, is_short), take_kept(pass->keys, at_token[token] + at, pass->is_short), is_short);
    for (int64_t part = 0; part < tall->parts; part++) {
        char *values = tall->values + ((head * tall->parts + part) * tall->panels + panel) * tall->value_bytes;
        const int64_t begin = part * PANEL, width = dim - begin < PANEL ? dim - begin : PANEL;
        memset(values, 0, (size_t)tall->value_bytes);
        for (int64_t token = 0; token < tokens; token++)
            for (int64_t at = 0; at < width; at++)
                put(values, place(token, at, is_short),
                    take_kept(pass->values, at_token[token] + begin + at, pass->is_short), is_short);
    }
}

static void pack_chunk(const void *job, int chunk)
{
    const Tall *tall = job;
    if (tall->is_short)
        pack(tall, chunk, 1);
    else
        pack(tall, chunk, 0);
}

/* Attention of some queries of the heads that share keys. The last come first: they take longest. */
static void attend_tall_chunk(const void *job, int chunk)
{
    const Tall *tall = job;
    const Pass *pass = tall->pass;
    const int64_t dim = pass->dim, shared = pass->heads / pass->narrow, queries = pass->rows * shared;
    const int64_t narrow = chunk % pass->narrow, known = pass->all - pass->rows;
    const int64_t end = queries - chunk / pass->narrow * TALLEST, first = end > TALLEST ? end - TALLEST : 0;
    const int64_t panels_seen = (known + (end - 1) / shared + PANEL) / PANEL, width = panels_seen * PANEL;
    const int count = (int)(end - first);
    reserve(TALLEST * (width + dim));
    float *const scores = scratch.scores, *const own = scores + TALLEST * width;
    float sums[TALLEST * PANEL], scale[TALLEST];
    float *out[TALLEST];
    for (int64_t index = 0; index < count; index++) {
        const int64_t row = (first + index) / shared, head = narrow * shared + (first + index) % shared;
        const float *query = pass->qkv + (row * (pass->heads + 2 * pass->narrow) + head) * dim;
        out[index] = pass->mixed + (row * pass->heads + head) * dim;
        memcpy(own + index * dim, query, (size_t)dim * sizeof(float));
    }
    const Rows own_rows = few_rows(own, dim, count, tall->is_short);
    for (int64_t panel = 0; panel < panels_seen; panel++) {
        multiply_few(tall->keys + (narrow * tall->panels + panel) * tall->key_bytes, &own_rows, sums);
        for (int index = 0; index < count; index++)
            memcpy(scores + index * width + panel * PANEL, sums + index * PANEL, PANEL * sizeof(float));
    }
    for (int index = 0; index < count; index++) {
        const int64_t seen = known + (first + index) / shared + 1;
        scale[index] = 1.0f / soften(scores + index * width, seen, pass->scaling, tall->is_short);
        memset(scores + index * width + seen, 0, (size_t)(width - seen) * sizeof(float));
    }
    const Rows weights = few_rows(scores, width, count, tall->is_short);
    for (int64_t part = 0; part < tall->parts; part++) {
        const int64_t left = dim - part * PANEL, size = left < PANEL ? left : PANEL;
        multiply_few(tall->values + (narrow * tall->parts + part) * tall->panels * tall->value_bytes, &weights, sums);
        for (int index = 0; index < count; index++)
            for (int64_t at = 0; at < size; at++)
                out[index][part * PANEL + at] = sums[index * PANEL + at] * scale[index];
    }
}

static void attend_tall(const Pass *pass, int is_short, int alone)
{
    static _Thread_local char *room;
    static _Thread_local int64_t size;
    const int64_t panels = (pass->all + PANEL - 1) / PANEL, parts = (pass->dim + PANEL - 1) / PANEL;
    const int64_t bytes = is_short ? 2 : 4, inputs = is_short ? depth_of(pass->dim) * DEPTH : pass->dim;
    const int64_t key_bytes = inputs * PANEL * bytes, value_bytes = PANEL * PANEL * bytes;
    const int64_t keys = pass->narrow * panels * key_bytes;
    const int64_t needed = keys + pass->narrow * panels * parts * value_bytes + AHEAD;
    if (needed > size) {
        free(room);
        size = (2 * needed + 63) / 64 * 64;
        room = aligned_alloc(64, (size_t)size);
    }
    const Tall tall = {pass, room, room + keys, panels, parts, key_bytes, value_bytes, is_short};
    const int64_t queries = pass->rows * (pass->heads / pass->narrow);
    run(pack_chunk, &tall, (int)(pass->narrow * panels), alone);
    run(attend_tall_chunk, &tall, (int)(pass->narrow * ((queries + TALLEST - 1) / TALLEST)), alone);
}

/* Some of the rows that lie side by side. */
static Pass some_rows(const Pass *pass, int64_t first, int64_t end)
{
    Pass some = *pass;
    some.rows = end - first;
    some.qkv += first * (pass->heads + 2 * pass->narrow) * pass->dim;
    some.mixed += first * pass->heads * pass->dim;
    some.owners += first;
    some.slots += first;
    if (pass->mask)
        some.mask += first * pass->mask_row_stride;
    return some;
}

/* Returns the end of a text's rows, of which `first` is the first one. */
static int64_t end_of_text(const Pass *pass, int64_t first)
{
    int64_t end = first + 1;
    while (end < pass->rows && pass->owners[end] == pass->owners[first])
        end++;
    return end;
}

/* Attention of rows side by side: many rows of one text are a chain, and the others few. */
static void attend_side_by_side(const Pass *pass, int is_short, int alone)
{
    for (int64_t first = 0, end; first < pass->rows; first = end) {
        int64_t next = first;
        do {
            end = next;
            next = end < pass->rows ? end_of_text(pass, end) : end;
        } while (next > end && (pass->mask || next - end <= FEW));
        if (end > first) {
            const Pass few = some_rows(pass, first, end);
            attend_few(&few, is_short, alone);
        } else {
            end = next;
            Pass chain = some_rows(pass, first, end);
            chain.keys = kept(pass, pass->keys, *chain.owners * pass->text_stride);
            chain.values = kept(pass, pass->values, *chain.owners * pass->text_stride);
            chain.all = chain.slots[chain.rows - 1] + 1;
            attend_tall(&chain, is_short, alone);
        }
    }
}

static void attend(const Pass *pass, const Exit *exit, int alone)
{
    const int is_short = is_shortened(&exit->output);
    if (pass->owners)
        attend_side_by_side(pass, is_short, alone);
    else if (pass->rows > FEW && pass->texts == 1 && !pass->mask)
        attend_tall(pass, is_short, alone);
    else
        attend_few(pass, is_short, alone);
}

/* Adds a matrix's products to the states. */
static void add(const Pass *pass, const Matrix *matrix, const float *x, int alone)
{
    const Rows rows = prepare(matrix, x, (int)pass->rows, alone);
    const Product product = {matrix, 1, 1, rows, pass->x, pass->width, 0};
    run_product(product, alone);
}

/* From a layer's attention to its output. */
static void leave(const Pass *pass, const Exit *exit, int alone)
{
    add(pass, &exit->output, pass->mixed, alone);
    normalize_all(pass, exit->norm, exit->epsilon);
    const Rows normed = prepare(&exit->up, pass->normed, (int)pass->rows, alone);
    const Gate gate = {exit, normed, pass->active};
    const int size = grain(&exit->up);
    run(gate_chunk, &gate, ((int)panels(&exit->up) + size - 1) / size, alone);
    add(pass, &exit->down, pass->active, alone);
}

/* Where a layer's keys and values lie: [texts, narrow, room, dim]. */
typedef struct {
    void *keys, *values;
    int64_t room;
} Store;

typedef struct {
    Entry entry;
    Exit exit;
} Layer;

/* Writes a head's keys or values. */
static void keep(void *to, int64_t at, const float *numbers, int64_t dim, int64_t is_short)
{
    if (!is_short)
        memcpy((float *)to + at, numbers, (size_t)dim * sizeof(float));
    else
        for (int64_t index = 0; index < dim; index++)
            put(to, at + index, nearest(numbers[index]), 1);
}

/* Appends the keys and values of a pass's rows to those of its texts. */
static void append(const Pass *pass, const Store *store)
{
    const int64_t dim = pass->dim, count = pass->rows / pass->texts;
    const int64_t stride = (pass->heads + 2 * pass->narrow) * dim;
    for (int64_t row = 0; row < pass->rows; row++) {
        const float *keys = pass->qkv + row * stride + pass->heads * dim;
        const int64_t text = pass->owners ? pass->owners[row] : row / count;
        const int64_t token = pass->slots ? pass->slots[row] : pass->all - count + row % count;
        for (int64_t head = 0; head < pass->narrow; head++, keys += dim) {
            const int64_t at = ((text * pass->narrow + head) * store->room + token) * dim;
            keep(store->keys, at, keys, dim, pass->is_short);
            keep(store->values, at, keys + pass->narrow * dim, dim, pass->is_short);
        }
    }
}

/* Runs whole layers, and appends to the keys and values of each. */
void outrider_layers(Pass *pass, const Layer *layers, const Store *stores, int count)
{
    const int alone = is_alone((int)pass->threads);
    for (int index = 0; index < count; index++) {
        const Store *store = stores + index;
        enter(pass, &layers[index].entry, alone);
        append(pass, store);
        pass->keys = store->keys;
        pass->values = store->values;
        pass->head_stride = store->room * pass->dim;
        pass->text_stride = pass->narrow * pass->head_stride;
        attend(pass, &layers[index].exit, alone);
        leave(pass, &layers[index].exit, alone);
    }
    release(alone);
}

/* The queries, keys and values of one layer. */
void outrider_enter(const Pass *pass, const Entry *entry)
{
    const int alone = is_alone((int)pass->threads);
    enter(pass, entry, alone);
    release(alone);
}

/* The rest of the layer. It attends first, if `keys` is set. */
void outrider_leave(const Pass *pass, const Exit *exit)
{
    const int alone = is_alone((int)pass->threads);
    if (pass->keys)
        attend(pass, exit, alone);
    leave(pass, exit, alone);
    release(alone);
}
