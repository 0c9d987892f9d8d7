#include "fiber.h"

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(EMU_UCONTEXT)
/* Only callee-saved registers are saved. The kernels do not change rounding modes. */
__asm__(".text\n"
        ".globl emu_switch\n"
        ".hidden emu_switch\n"
        ".type emu_switch, @function\n"
        "emu_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        ".globl emu_resume\n"
        ".hidden emu_resume\n"
        "emu_resume:\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emu_switch, .-emu_switch\n");
extern "C" void emu_switch(void **save, void *load);
extern "C" void emu_resume();
#endif

namespace emu
{
void context_prepare(context &to, void *low, size_t size, size_t colour, void (*entry)())
{
    to.stack_low = low;
    to.stack_size = size;
    to.fake_stack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(low, size); /* frames of an aborted block */
#endif
#if defined(EMU_UCONTEXT)
    getcontext(&to.state);
    to.state.uc_stack.ss_sp = low;
    to.state.uc_stack.ss_size = size - colour;
    to.state.uc_link = nullptr;
    makecontext(&to.state, entry, 0);
#else
    uintptr_t top = ((uintptr_t)low + size - colour) & ~(uintptr_t)63;
    void **frame = (void **)top - 8; /* six registers, the entry, and a null return address: rsp = 8 mod 16 at the entry */
    memset(frame, 0, 8 * sizeof(void *));
    frame[6] = (void *)entry;
    to.stack_pointer = frame;
#endif
}

void context_switch(context &from, context &to, bool from_ends)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.fake_stack, to.stack_low, to.stack_size);
#else
    (void)from_ends;
#endif
#if defined(EMU_UCONTEXT)
    swapcontext(&from.state, &to.state);
#else
    emu_switch(&from.stack_pointer, to.stack_pointer);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void context_started(context &self)
{
    (void)self;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void context_of_caller(context &self)
{
    self.stack_low = nullptr;
    self.stack_size = 0;
    self.fake_stack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &self.stack_low, &self.stack_size);
        pthread_attr_destroy(&attributes);
    }
#endif
}

void context_abandon(context &to, void *machine_context)
{
#if defined(EMU_UCONTEXT)
    (void)machine_context;
    setcontext(&to.state);
#else
    ucontext_t *interrupted = (ucontext_t *)machine_context;
    interrupted->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)emu_resume;
    interrupted->uc_mcontext.gregs[REG_RSI] = (greg_t)(uintptr_t)to.stack_pointer;
#endif
}
} // namespace emu
