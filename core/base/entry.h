/* Every public function begins with RVIT_ENTRY. It saves the caller's floating-point environment and
   sets the default one, because an application may have changed how its threads round, treat
   subnormals or trap. The default also holds for everything that the function calls, including
   drivers, and for the threads that these create. At the end of the scope it restores the caller's
   environment, including its flags. It costs about 10 ns if the caller's environment is the default. */
#ifndef RVIT_CORE_BASE_ENTRY_H
#define RVIT_CORE_BASE_ENTRY_H

/* 16 concerns only _Float16. */
_Static_assert(__FLT_EVAL_METHOD__ == 0 || __FLT_EVAL_METHOD__ == 16,
               "raggedvit needs float arithmetic without excess precision, because scores have the same bits on every machine: on i686 "
               "compile with -msse2 -mfpmath=sse, on s390x with -std=gnu11");

#if defined(__x86_64__) && defined(__SSE__)

#include <stdint.h>
#include <xmmintrin.h>

#define RVIT_MXCSR_DEFAULT 0x1f80u
#define RVIT_FLAGS 0x3fu /* exception flags in mxcsr and in the x87 status word */
#define RVIT_X87_DEFAULT 0x37fu

/* Not fenv.h: its functions take about 100 ns and do not change the processor's flushing of subnormals. */
typedef struct rvit_floats {
    uint32_t mxcsr;
    uint16_t x87_control, x87_status;
    uint32_t x87_environment[7]; /* set if x87_control is not the default */
} rvit_floats;

static inline uint16_t rvit_x87_status(void)
{
    uint16_t status;
    __asm__ volatile("fnstsw %0" : "=am"(status));
    return status;
}

static inline rvit_floats rvit_floats_take(void)
{
    rvit_floats before;
    before.mxcsr = _mm_getcsr();
    __asm__ volatile("fnstcw %0" : "=m"(before.x87_control));
    before.x87_status = rvit_x87_status();
    if ((before.mxcsr & ~RVIT_FLAGS) != RVIT_MXCSR_DEFAULT)
        _mm_setcsr(RVIT_MXCSR_DEFAULT);
    if (before.x87_control != RVIT_X87_DEFAULT) {
        const uint16_t control = RVIT_X87_DEFAULT;
        __asm__ volatile("fnstenv %0" : "=m"(before.x87_environment));
        __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(control));
    }
    return before;
}

static inline void rvit_floats_restore(const rvit_floats *before)
{
    if (_mm_getcsr() != before->mxcsr)
        _mm_setcsr(before->mxcsr);
    if (before->x87_control != RVIT_X87_DEFAULT) {
        __asm__ volatile("fldenv %0" : : "m"(before->x87_environment));
    } else if (((rvit_x87_status() ^ before->x87_status) & RVIT_FLAGS) != 0) {
        uint32_t environment[7];
        __asm__ volatile("fnstenv %0" : "=m"(environment));
        environment[1] = (environment[1] & ~RVIT_FLAGS) | (before->x87_status & RVIT_FLAGS);
        __asm__ volatile("fldenv %0" : : "m"(environment));
    }
}

#elif defined(__aarch64__)

#include <stdint.h>

/* fenv.h does not change the flushing of subnormals, nor the format of float16. In the default environment fpcr is 0. */
typedef struct rvit_floats {
    uint64_t fpcr, fpsr;
} rvit_floats;

static inline rvit_floats rvit_floats_take(void)
{
    rvit_floats before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before.fpcr));
    __asm__ volatile("mrs %0, fpsr" : "=r"(before.fpsr));
    if (before.fpcr != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return before;
}

static inline void rvit_floats_restore(const rvit_floats *before)
{
    if (before->fpcr != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"(before->fpcr) : "memory");
    __asm__ volatile("msr fpsr, %0" : : "r"(before->fpsr) : "memory");
}

#else

#include <fenv.h>

typedef fenv_t rvit_floats;

static inline rvit_floats rvit_floats_take(void)
{
    fenv_t before;
    (void)feholdexcept(&before);
    (void)fesetenv(FE_DFL_ENV);
    return before;
}

static inline void rvit_floats_restore(const rvit_floats *before)
{
    (void)fesetenv(before);
}

#endif

#define RVIT_ENTRY __attribute__((cleanup(rvit_floats_restore), unused)) const rvit_floats rvit_floats_before = rvit_floats_take()

#endif
