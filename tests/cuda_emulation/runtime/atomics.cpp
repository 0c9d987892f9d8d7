/* Atomics and ordered accesses to global memory. */
#include "machine.h"

namespace emu
{
namespace
{
/* Loads after which a spinning thread lets others run, and after which the spin is considered endless. */
const unsigned SPIN_YIELD = 16, SPIN_LIMIT = 1u << 28;

template <typename T> fiber &checked(const T *p)
{
    if ((uintptr_t)p % sizeof(T))
        fail("atomic access of %zu bytes at %p", sizeof(T), static_cast<const void *>(p));
    return *this_worker()->current;
}
} // namespace

int atomic_add(int *p, int value)
{
    checked(p).spins = 0;
    return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}

int atomic_max(int *p, int value)
{
    checked(p).spins = 0;
    int old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, old > value ? old : value, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return old;
}

unsigned long long load_relaxed(const unsigned long long *p)
{
    fiber &f = checked(p);
    if (++f.spins % SPIN_YIELD == 0)
        let_others_run(*this_worker(), f);
    if (f.spins > SPIN_LIMIT)
        fail("spins endlessly on %p", static_cast<const void *>(p));
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

void store_relaxed(unsigned long long *p, unsigned long long value)
{
    checked(p).spins = 0;
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}
} // namespace emu
