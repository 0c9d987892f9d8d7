/* Decides whether a waiting thread spins or sleeps. */
#include "backend_cpu/spin.h"

void rvit_cpu_spin_init(rvit_cpu_spin *spin, int n_threads, int usable)
{
    *spin = (rvit_cpu_spin){.start = -1, .resume = n_threads > usable ? INT64_MAX : 0};
}

void rvit_cpu_spin_found(rvit_cpu_spin *spin)
{
    if (spin->start >= 0 && spin->credit < RVIT_CPU_SPIN_CREDIT)
        spin->credit++;
    spin->start = -1;
}

/* Backs off for the minimum time, or for twice the previous time if spinning fails again within that time. */
static void back_off(rvit_cpu_spin *spin, int64_t now)
{
    const int recurs = spin->rest > 0 && now - spin->resume <= spin->rest;
    spin->rest = recurs ? 2 * spin->rest : RVIT_CPU_SPIN_REST;
    if (spin->rest > RVIT_CPU_SPIN_LONGEST_REST)
        spin->rest = RVIT_CPU_SPIN_LONGEST_REST;
    spin->resume = now + spin->rest;
    spin->credit = 0;
}

int rvit_cpu_spin_goes_on(rvit_cpu_spin *spin, int64_t now)
{
    if (spin->start < 0) {
        if (now < spin->resume)
            return 0;
        spin->start = now;
    }
    if (now - spin->start < RVIT_CPU_SPIN_TIME)
        return 1;
    spin->start = -1;
    spin->credit -= RVIT_CPU_SPIN_PRICE;
    if (spin->credit < 0)
        back_off(spin, now);
    return 0;
}
