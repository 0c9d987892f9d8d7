/* Shared libraries on POSIX systems, and threads, whose code must stay loaded. */
#include "core/base/os.h"

#include <dlfcn.h>
#include <stdio.h>
#if defined(__linux__)
#include <link.h>
#endif

#if defined(__linux__)
static int check_dynamic(struct dl_phdr_info *program, size_t size, void *is_dynamic)
{
    (void)size;
    for (int i = 0; i < program->dlpi_phnum; i++)
        if (program->dlpi_phdr[i].p_type == PT_INTERP)
            *(int *)is_dynamic = 1;
    return 1; /* only look at the first object, the program */
}

/* In a program linked with -static, shared libraries crash, because they need another C library. */
static int is_static(void)
{
    int is_dynamic = 0;
    dl_iterate_phdr(check_dynamic, &is_dynamic);
    return !is_dynamic;
}
#else
static int is_static(void)
{
    return 0;
}
#endif

static pthread_once_t stay_once = PTHREAD_ONCE_INIT;

/* -z nodelete is not enough: the static library may be part of any plugin. */
static void stay_loaded(void)
{
    Dl_info own;
    if (!is_static() && dladdr(&stay_once, &own) != 0 && own.dli_fname != NULL)
        (void)dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

int rvit_thread_start(rvit_thread *out_thread, void *(*run)(void *argument), void *argument)
{
    RVIT_SIGNALS_BLOCKED;
    pthread_once(&stay_once, stay_loaded);
    return pthread_create(out_thread, NULL, run, argument);
}

const char *rvit_library_open(const char *const *files, const char *const *symbols, int needed, int n, void **functions, char *why_not,
                              size_t size)
{
    RVIT_SIGNALS_BLOCKED; /* some libraries start threads when they are loaded */
    if (is_static()) {
        (void)snprintf(why_not, size, "a program linked with -static cannot open %s: link it dynamically, or use the CPU", files[0]);
        return NULL;
    }
    void *library = NULL;
    const char *const *file = files;
    while (*file != NULL && (library = dlopen(*file, RTLD_NOW | RTLD_LOCAL)) == NULL)
        file++;
    if (library == NULL) {
        const char *reason = dlerror();
        (void)snprintf(why_not, size, "%s", reason != NULL ? reason : "it cannot be opened");
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        functions[i] = dlsym(library, symbols[i]);
        if (functions[i] == NULL && i < needed) {
            (void)snprintf(why_not, size, "%s has no symbol %s: it is too old, or another library of that name", *file, symbols[i]);
            dlclose(library);
            return NULL;
        }
    }
    return *file;
}
