#include "failing_allocator.h"

#include "allocation_sites.h"

static void *allocate(void *user, size_t size, size_t alignment)
{
    failing_allocator *f = user;
    if (atomic_fetch_add(&f->requests, 1) == atomic_load(&f->fail_at)) {
        atomic_store(&f->failed, 1);
        allocation_failed();
        return NULL;
    }
    void *pointer = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (pointer) {
        /* A read of uninitialised memory shows up as wrong results. */
        memset(pointer, POISON, size);
        atomic_fetch_add(&f->live, 1);
    }
    return pointer;
}

static void release(void *user, void *pointer)
{
    failing_allocator *f = user;
    if (pointer)
        atomic_fetch_sub(&f->live, 1);
    free(pointer);
}

void failing_allocator_init(failing_allocator *f)
{
    f->allocator.user = f;
    f->allocator.allocate = allocate;
    f->allocator.release = release;
    atomic_init(&f->requests, 0);
    atomic_init(&f->live, 0);
    atomic_init(&f->fail_at, -1);
    atomic_init(&f->failed, 0);
}

static void expect_balance(const failing_allocator *f, long long live, const allocation_trial *trial, long long site)
{
    if (atomic_load(&f->live) != live)
        fail_msg("%s, allocation %lld failing: %lld allocations leaked", trial->what, site, (long long)atomic_load(&f->live) - live);
}

void fail_every_allocation(failing_allocator *f, const allocation_trial *trial)
{
    expect_ok(trial->attempt(trial->context)); /* creates everything that is created on first use */
    trial->undo(trial->context);
    const long long live = atomic_load(&f->live);
    long long start = atomic_load(&f->requests);
    expect_ok(trial->attempt(trial->context));
    const long long n_sites = atomic_load(&f->requests) - start;
    trial->undo(trial->context);
    expect_balance(f, live, trial, -1);
    if (n_sites == 0)
        fail_msg("%s makes no allocation", trial->what);
    for (long long i = 0; i < n_sites; i++) {
        start = atomic_load(&f->requests);
        atomic_store(&f->failed, 0);
        atomic_store(&f->fail_at, start + i);
        const rvit_status status = trial->attempt(trial->context);
        atomic_store(&f->fail_at, -1);
        if (status == RVIT_OK) {
            trial->undo(trial->context);
            expect_balance(f, live, trial, i);
            if (atomic_load(&f->failed))
                fail_msg("%s: allocation %lld of %lld failed, but the call succeeded", trial->what, i, n_sites);
            continue;
        }
        if (status != RVIT_OUT_OF_HOST_MEMORY && status != RVIT_OUT_OF_DEVICE_MEMORY)
            fail_msg("%s, allocation %lld of %lld failing: %s: %s", trial->what, i, n_sites, rvit_status_name(status),
                     rvit_status_detail());
        if (!rvit_status_detail()[0])
            fail_msg("%s, allocation %lld of %lld failing: no detail", trial->what, i, n_sites);
        expect_balance(f, live, trial, i);
    }
    expect_ok(trial->attempt(trial->context));
    trial->undo(trial->context);
    expect_balance(f, live, trial, n_sites);
    print_message("%s: %lld allocations\n", trial->what, n_sites);
}
