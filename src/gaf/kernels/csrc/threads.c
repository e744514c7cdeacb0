/* A small pool of threads that sleep between calls.
 *
 * It is not OpenMP, whose second copy in a process would compete with torch's and hang after fork(). After a
 * fork the child starts with an empty pool. A call that finds the pool at work (from another Python thread)
 * does its work alone.
 */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "gaf.h"

#define MAX_WORKERS 255

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    int workers;          /* threads that exist */
    int wanted;           /* threads of them that take part in this job */
    int running;          /* threads of them that have not finished it */
    unsigned long job;    /* its number */
    void (*work)(void *, ptrdiff_t);
    void *context;
    ptrdiff_t count;
    fenv_t modes; /* the caller's, torch.set_flush_denormal among them */
    atomic_ptrdiff_t next;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;

static void take_part(void) {
    for (ptrdiff_t i; (i = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed)) < pool.count;)
        pool.work(pool.context, i);
}

static void *worker(void *number_) {
    int number = (int)(intptr_t)number_;
    unsigned long seen = 0;
    pthread_mutex_lock(&pool.mutex);
    for (;;) {
        while (pool.job == seen || number >= pool.wanted) {
            if (pool.job != seen) seen = pool.job; /* a job for fewer threads */
            pthread_cond_wait(&pool.wake, &pool.mutex);
        }
        seen = pool.job;
        pthread_mutex_unlock(&pool.mutex);
        fesetenv(&pool.modes);
        take_part();
        pthread_mutex_lock(&pool.mutex);
        if (--pool.running == 0) pthread_cond_signal(&pool.done);
    }
    return NULL;
}

static void after_fork_in_child(void) {
    pthread_mutex_init(&pool.mutex, NULL);
    pthread_mutex_init(&in_use, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.workers = 0;
    pool.running = 0;
}

static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL}; /* a thread's own, for faulthandler */

static void grow(int workers) {
    static int registered;
    if (!registered) registered = pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
    sigset_t all, before; /* signals are the business of Python's threads */
    sigfillset(&all);
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++) sigdelset(&all, FAULTS[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool.workers < workers) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, worker, (void *)(intptr_t)pool.workers) != 0) break;
        pool.workers++;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void gaf_parallel(void (*work)(void *, ptrdiff_t), void *context, ptrdiff_t count, int threads) {
    if (threads < 1) threads = 1;
    int helpers = (threads > count ? (int)count : threads) - 1;
    if (helpers > MAX_WORKERS) helpers = MAX_WORKERS;
    if (helpers < 1 || pthread_mutex_trylock(&in_use) != 0) {
        for (ptrdiff_t i = 0; i < count; i++) work(context, i);
        return;
    }
    pthread_mutex_lock(&pool.mutex);
    if (pool.workers < helpers) grow(helpers);
    pool.work = work;
    pool.context = context;
    pool.count = count;
    fegetenv(&pool.modes);
    atomic_store(&pool.next, 0);
    pool.wanted = pool.workers < helpers ? pool.workers : helpers;
    pool.running = pool.wanted;
    pool.job++;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.mutex);
    take_part();
    pthread_mutex_lock(&pool.mutex);
    while (pool.running > 0) pthread_cond_wait(&pool.done, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
    pthread_mutex_unlock(&in_use);
}
