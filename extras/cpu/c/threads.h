/* Threads that share the chunks of a pass.

   The calling thread publishes a phase of numbered chunks and takes part in it. Whoever is free
   takes the next chunk, and nobody waits for a thread that has none: one that the system holds up
   delays a pass only if it holds a chunk. If such delays take up much of the time, since another
   program needs the cores, the others stay out for a while. */

#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "sizes.h"

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
