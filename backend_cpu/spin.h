/* How long a thread that waits looks for work before it sleeps.

   To sleep and be woken costs tens of microseconds, as much as many of a forward's hundred regions take: a thread that spins instead finds
   its next chunk at once, if the thread it waits for has a processor, too. Where that one is queued behind another process, or behind the
   spinning thread itself, spinning is in vain and takes the time of those who have work. A thread cannot see the others' queues, but it
   sees whether its waits end while it spins: so these earn a credit, those that did not end are paid from it, and a thread that cannot pay
   sleeps at once for a while, which doubles if the next attempts fail as well. A wait in vain now and then, as between two forwards, is
   paid for. */
#ifndef RVIT_CPU_SPIN_H
#define RVIT_CPU_SPIN_H

#include <stdint.h>

enum {
    RVIT_CPU_SPIN_TIME = 200 * 1000,       /* ns; longer than the gap between two regions */
    RVIT_CPU_SPIN_PRICE = 5,               /* of a wait in vain; one that ended in time earns 1 */
    RVIT_CPU_SPIN_CREDIT = 100,            /* at most */
    RVIT_CPU_SPIN_REST = 50 * 1000 * 1000, /* ns */
    RVIT_CPU_SPIN_LONGEST_REST = 16 * RVIT_CPU_SPIN_REST
};

/* One for each thread. Times are of a clock that is never negative, in ns. */
typedef struct rvit_cpu_spin {
    int64_t start;  /* of this wait; -1: the thread does not spin */
    int64_t resume; /* sleeps at once before that; INT64_MAX: always */
    int64_t rest;   /* how long the last rest was */
    int credit;
} rvit_cpu_spin;

/* Threads that cannot all run at once never spin. usable: processors. */
void rvit_cpu_spin_init(rvit_cpu_spin *spin, int n_threads, int usable);
/* There is work again. */
void rvit_cpu_spin_found(rvit_cpu_spin *spin);
/* There is none: whether to look once more, else to sleep. */
int rvit_cpu_spin_goes_on(rvit_cpu_spin *spin, int64_t now);

#endif
