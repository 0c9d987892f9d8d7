#include "core/base/os_module.h"

#include <dlfcn.h>

int rvit_thread_value_create(rvit_thread_value *out_value, void (*ends)(void *pointer))
{
    return pthread_key_create(out_value, ends);
}

void rvit_thread_value_set(rvit_thread_value value, void *pointer)
{
    (void)pthread_setspecific(value, pointer);
}

void rvit_fork_watch(void (*forked)(void))
{
    (void)pthread_atfork(NULL, NULL, forked);
}

void *rvit_library_loaded(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}

void *rvit_library_symbol(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}
