/* Copies a caller's args struct of any library version. */
#ifndef RVIT_CORE_BASE_ARGS_H
#define RVIT_CORE_BASE_ARGS_H

#include <stddef.h>

#include <raggedvit/device.h>

/* Copies the struct at source, which begins with its size_t struct_size, to destination (size bytes). Fields that the caller's version
   lacks become zero. INVALID_ARGUMENT: source is NULL, its struct_size is below sizeof(size_t) + 1, or a field that this version lacks
   is not zero. name: the struct's name in messages ("attention args"). */
rvit_status rvit_args_copy(void *destination, size_t size, const void *source, const char *name);

/* The reverse: fills the caller's struct at destination up to its struct_size, which does not change. */
rvit_status rvit_args_return(void *destination, const void *source, size_t size, const char *name);

#endif
