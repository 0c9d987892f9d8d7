/* Taking in a caller's args struct of any version. */
#ifndef RVIT_CORE_ARGS_H
#define RVIT_CORE_ARGS_H

#include <stddef.h>

#include <raggedvit/status.h>

/* Copies the struct at source, which begins with its size_t struct_size, into destination of size bytes: what the caller's version lacks
   is zero. INVALID_ARGUMENT if source is NULL, its struct_size is below sizeof(size_t) + 1, or it has a field that this version does not
   know and that is not zero. name: how the message calls it ("attention args"). */
rvit_status rvit_args_copy(void *destination, size_t size, const void *source, const char *name);

/* The way back: fills the caller's struct at destination, up to the struct_size it holds, which stays. */
rvit_status rvit_args_return(void *destination, const void *source, size_t size, const char *name);

#endif
