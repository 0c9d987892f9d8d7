/* One CUDA thread's stack, and the switch from one to another. */
#ifndef EMU_FIBER_H
#define EMU_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(EMU_UCONTEXT)
#define EMU_UCONTEXT
#endif

#if defined(EMU_UCONTEXT)
#include <ucontext.h>
#endif

namespace emu
{
/* A stopped line of execution. */
struct context {
#if defined(EMU_UCONTEXT)
    ucontext_t state;
#else
    void *stack_pointer;
#endif
    void *stack_low; /* of the stack it runs on, for AddressSanitizer */
    size_t stack_size;
    void *fake_stack;
};

/* Prepares a context that starts entry(), which must not return, on the stack [low, low + size); colour moves the start a little so that
   the busy ends of many stacks do not share cache sets. */
void context_prepare(context &to, void *low, size_t size, size_t colour, void (*entry)());
/* Stops the present line of execution in `from` and continues `to`. from_ends: `from` is never continued. */
void context_switch(context &from, context &to, bool from_ends = false);
/* To be called first thing on a fresh context. */
void context_started(context &self);
/* Notes the stack that the caller runs on, for switches back to it. */
void context_of_caller(context &self);

/* Makes a signal handler return into `to` instead of the interrupted context, or goes there itself. */
void context_abandon(context &to, void *interrupted);
} // namespace emu

#endif
