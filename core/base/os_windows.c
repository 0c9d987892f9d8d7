#include "core/base/os.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <locale.h>
#include <process.h>
#include <stdlib.h>

_Static_assert(sizeof(rvit_mutex) == sizeof(SRWLOCK) && sizeof(rvit_condition) == sizeof(CONDITION_VARIABLE) &&
                   sizeof(rvit_once) == sizeof(INIT_ONCE) && sizeof(rvit_thread) == sizeof(HANDLE),
               "os.h has other sizes");

static SRWLOCK *lock_of(rvit_mutex *mutex)
{
    return (SRWLOCK *)(void *)mutex;
}

void rvit_mutex_init(rvit_mutex *mutex)
{
    InitializeSRWLock(lock_of(mutex));
}

void rvit_mutex_lock(rvit_mutex *mutex)
{
    AcquireSRWLockExclusive(lock_of(mutex));
}

void rvit_mutex_unlock(rvit_mutex *mutex)
{
    ReleaseSRWLockExclusive(lock_of(mutex));
}

void rvit_mutex_destroy(rvit_mutex *mutex)
{
    (void)mutex;
}

void rvit_condition_init(rvit_condition *condition)
{
    InitializeConditionVariable((CONDITION_VARIABLE *)(void *)condition);
}

void rvit_condition_wait(rvit_condition *condition, rvit_mutex *mutex)
{
    (void)SleepConditionVariableSRW((CONDITION_VARIABLE *)(void *)condition, lock_of(mutex), INFINITE, 0);
}

void rvit_condition_signal(rvit_condition *condition)
{
    WakeConditionVariable((CONDITION_VARIABLE *)(void *)condition);
}

void rvit_condition_broadcast(rvit_condition *condition)
{
    WakeAllConditionVariable((CONDITION_VARIABLE *)(void *)condition);
}

void rvit_condition_destroy(rvit_condition *condition)
{
    (void)condition;
}

typedef struct once_call {
    void (*run)(void);
} once_call;

static BOOL CALLBACK call_once(PINIT_ONCE once, PVOID argument, PVOID *context)
{
    (void)once;
    (void)context;
    ((const once_call *)argument)->run();
    return TRUE;
}

void rvit_once_run(rvit_once *once, void (*run)(void))
{
    once_call call = {run};
    (void)InitOnceExecuteOnce((INIT_ONCE *)(void *)once, call_once, &call, NULL);
}

rvit_signals rvit_signals_block(void)
{
    return 0;
}

void rvit_signals_restore(const rvit_signals *before)
{
    (void)before;
}

/* The DLL that contains the library, or the program. */
static void stay_loaded(void)
{
    HMODULE own;
    (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, (LPCWSTR)(void *)&stay_loaded, &own);
}

typedef struct thread_call {
    void *(*run)(void *argument);
    void *argument;
} thread_call;

static unsigned __stdcall run_thread(void *argument)
{
    const thread_call call = *(const thread_call *)argument;
    free(argument);
    (void)call.run(call.argument);
    return 0;
}

int rvit_thread_start(rvit_thread *out_thread, void *(*run)(void *argument), void *argument)
{
    static rvit_once once = RVIT_ONCE_INIT;
    rvit_once_run(&once, stay_loaded);
    thread_call *call = malloc(sizeof *call);
    if (call == NULL)
        return ERROR_NOT_ENOUGH_MEMORY;
    *call = (thread_call){run, argument};
    *out_thread = (void *)_beginthreadex(NULL, 0, run_thread, call, 0, NULL);
    if (*out_thread != NULL)
        return 0;
    free(call);
    return ERROR_MAX_THRDS_REACHED;
}

void rvit_thread_join(rvit_thread thread)
{
    (void)WaitForSingleObject(thread, INFINITE);
    (void)CloseHandle(thread);
}

void rvit_thread_yield(void)
{
    (void)SwitchToThread();
}

int64_t rvit_process_id(void)
{
    return GetCurrentProcessId();
}

int64_t rvit_nanoseconds(void)
{
    LARGE_INTEGER frequency, count;
    (void)QueryPerformanceFrequency(&frequency);
    (void)QueryPerformanceCounter(&count);
    const int64_t second = frequency.QuadPart;
    return count.QuadPart / second * 1000000000 + count.QuadPart % second * 1000000000 / second;
}

void *rvit_aligned_alloc(size_t size, size_t alignment)
{
    return _aligned_malloc(size, alignment);
}

void rvit_aligned_free(void *pointer)
{
    _aligned_free(pointer);
}

void rvit_stderr_write(const char *text, size_t size)
{
    DWORD written;
    (void)WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, (DWORD)size, &written, NULL);
}

static _locale_t c_locale;

static void create_c_locale(void)
{
    c_locale = _create_locale(LC_ALL, "C");
}

double rvit_strtod(const char *text)
{
    static rvit_once once = RVIT_ONCE_INIT;
    rvit_once_run(&once, create_c_locale);
    return c_locale != NULL ? _strtod_l(text, NULL, c_locale) : strtod(text, NULL);
}

/* Handles of external memory: NT handles of this process. */
int rvit_os_handle_copy(intptr_t handle, intptr_t *out_copy)
{
    HANDLE copy = NULL;
    const HANDLE process = GetCurrentProcess();
    const BOOL ok = DuplicateHandle(process, (HANDLE)handle, process, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS);
    *out_copy = (intptr_t)copy;
    return ok != 0;
}

void rvit_os_handle_close(intptr_t handle)
{
    (void)CloseHandle((HANDLE)handle);
}
