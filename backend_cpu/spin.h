/* How long a waiting thread spins before it sleeps. Sleeping and waking costs tens of microseconds. A forward has about a hundred
   regions, and many of them take no longer. A spinning thread finds its next chunk immediately, provided that the thread it waits for is
   running. If that thread is queued behind another process, or behind the spinning thread itself, spinning only takes time from threads
   that have work.

   A thread cannot see the run queues, but it can see whether its waits end while it spins. Such waits earn credit; failed ones cost
   credit. A thread without credit stops spinning for a while, which doubles if the next attempts fail as well. Credit covers occasional
   failures, such as the wait between two forwards. */
#ifndef RVIT_CPU_SPIN_H
#define RVIT_CPU_SPIN_H

#include <stdint.h>

enum {
    RVIT_CPU_SPIN_TIME = 200 * 1000,       /* ns; longer than the gap between two regions */
    RVIT_CPU_SPIN_PRICE = 5,               /* cost of a failed wait; a successful one earns 1 */
    RVIT_CPU_SPIN_CREDIT = 100,            /* maximum credit */
    RVIT_CPU_SPIN_REST = 50 * 1000 * 1000, /* ns */
    RVIT_CPU_SPIN_LONGEST_REST = 16 * RVIT_CPU_SPIN_REST
};

/* One per thread. Times are in ns, from a clock that is never negative. */
typedef struct rvit_cpu_spin {
    int64_t start;  /* start of this wait; -1: the thread does not spin */
    int64_t resume; /* sleeps without spinning until then; INT64_MAX: always */
    int64_t rest;   /* length of the last back-off */
    int credit;
} rvit_cpu_spin;

/* If there are more threads than usable processors, they never spin. */
void rvit_cpu_spin_init(rvit_cpu_spin *spin, int n_threads, int usable);
/* Call when work was found. */
void rvit_cpu_spin_found(rvit_cpu_spin *spin);
/* Call when there is no work. Returns 1 to check again, 0 to sleep. */
int rvit_cpu_spin_goes_on(rvit_cpu_spin *spin, int64_t now);

#endif
