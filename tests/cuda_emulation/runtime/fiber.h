/* The stack of a CUDA thread, and switches between stacks. */
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
/* A suspended execution. */
struct context {
#if defined(EMU_UCONTEXT)
    ucontext_t state;
#else
    void *stack_pointer;
#endif
    void *stack_low; /* of its stack, for AddressSanitizer */
    size_t stack_size;
    void *fake_stack;
};

/* Prepares a context that starts entry(), which must not return, on the stack [low, low + size). colour shifts the start, so that the
   busy ends of many stacks do not share cache sets. */
void context_prepare(context &to, void *low, size_t size, size_t colour, void (*entry)());
/* Suspends the current execution in `from` and resumes `to`. from_ends: `from` will not be resumed. */
void context_switch(context &from, context &to, bool from_ends = false);
/* A new context must call this first. */
void context_started(context &self);
/* Notes the caller's stack, for switches back to it. */
void context_of_caller(context &self);

/* Makes a signal handler return into `to` instead of the interrupted context, or goes there directly. */
void context_abandon(context &to, void *interrupted);
} // namespace emu

#endif
