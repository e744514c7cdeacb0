/* The work of a call on several threads.
 *
 * Where torch runs on OpenMP (GNU's, or one that has its entry, as Intel's does) the threads are torch's own: they
 * are awake right after a backward pass, and a second set would fight them for the cores while they spin. The entry
 * is looked up in the process; linking OpenMP could bring a second copy of it, with threads of its own.
 *
 * Elsewhere, and after a fork, which OpenMP's threads do not survive, a small pool serves that sleeps between calls. It
 * starts empty in the child. A call that finds it at work (from another Python thread) does its work alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "gaf.h"

#define MAX_WORKERS 255

typedef struct {
    void (*work)(void *, ptrdiff_t);
    void *context;
    ptrdiff_t count;
    fenv_t modes; /* the caller's, torch.set_flush_denormal among them */
    atomic_ptrdiff_t next;
} job;

static void take_part(void *job_) {
    job *j = job_;
    fesetenv(&j->modes);
    for (ptrdiff_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->count;)
        j->work(j->context, i);
}

/* OpenMP's: runs part(data) on so many threads, this one among them. */
static void (*openmp)(void (*part)(void *), void *data, unsigned threads, unsigned flags);

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    int workers;          /* threads that exist */
    int wanted;           /* threads of them that take part in this job */
    int running;          /* threads of them that have not finished it */
    unsigned long number; /* of the job */
    job *now;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *number_) {
    int number = (int)(intptr_t)number_;
    unsigned long seen = 0;
    pthread_mutex_lock(&pool.mutex);
    for (;;) {
        while (pool.number == seen || number >= pool.wanted) {
            if (pool.number != seen) seen = pool.number; /* a job for fewer threads */
            pthread_cond_wait(&pool.wake, &pool.mutex);
        }
        seen = pool.number;
        job *now = pool.now;
        pthread_mutex_unlock(&pool.mutex);
        take_part(now);
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
    openmp = NULL;
}

void gaf_parallel_begin(void) {
    pthread_atfork(NULL, NULL, after_fork_in_child);
    *(void **)&openmp = dlsym(RTLD_DEFAULT, "GOMP_parallel");
}

static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL}; /* a thread's own, for faulthandler */

static void grow(int workers) {
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

static void in_the_pool(job *j, int helpers) {
    if (pthread_mutex_trylock(&in_use) != 0) {
        take_part(j);
        return;
    }
    pthread_mutex_lock(&pool.mutex);
    if (pool.workers < helpers) grow(helpers);
    pool.now = j;
    pool.wanted = pool.workers < helpers ? pool.workers : helpers;
    pool.running = pool.wanted;
    pool.number++;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.mutex);
    take_part(j);
    pthread_mutex_lock(&pool.mutex);
    while (pool.running > 0) pthread_cond_wait(&pool.done, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
    pthread_mutex_unlock(&in_use);
}

void gaf_parallel(void (*work)(void *, ptrdiff_t), void *context, ptrdiff_t count, int threads) {
    if (threads > MAX_WORKERS + 1) threads = MAX_WORKERS + 1;
    if (threads > count) threads = (int)count;
    job j = {.work = work, .context = context, .count = count};
    fegetenv(&j.modes);
    if (threads < 2) {
        take_part(&j);
    } else if (openmp) {
        openmp(take_part, &j, (unsigned)threads, 0);
    } else {
        in_the_pool(&j, threads - 1);
    }
}
