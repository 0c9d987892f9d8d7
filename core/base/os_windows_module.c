#include "core/base/os_module.h"

#include "core/base/os_windows.h"

int rvit_thread_value_create(rvit_thread_value *out_value, void (*ends)(void *pointer))
{
    *out_value = FlsAlloc(ends); /* of fibers, but only these values call a function at the end of a thread */
    return *out_value == FLS_OUT_OF_INDEXES ? (int)GetLastError() : 0;
}

void rvit_thread_value_set(rvit_thread_value value, void *pointer)
{
    (void)FlsSetValue(value, pointer);
}

void rvit_fork_watch(void (*forked)(void))
{
    (void)forked;
}

void *rvit_library_loaded(const char *name)
{
    return (void *)GetModuleHandleA(name);
}

void *rvit_library_symbol(void *library, const char *symbol)
{
    union {
        FARPROC function;
        void *pointer;
    } found = {.function = GetProcAddress((HMODULE)library, symbol)};
    return found.pointer;
}
