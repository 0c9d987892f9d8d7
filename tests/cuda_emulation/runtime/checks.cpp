/* Handlers of the checks that -fsanitize=alignment,bounds compiles into the kernels: misaligned vector loads, and indices outside arrays
   of known size (registers, static shared memory). No sanitizer library is linked. */
#include "machine.h"

namespace emu
{
namespace
{
struct location {
    const char *file;
    uint32_t line, column;
};

struct type_description {
    uint16_t kind, information;
    char name[1];
};

struct mismatch {
    location at;
    const type_description *type;
    unsigned char log_alignment, kind;
};

struct out_of_bounds {
    location at;
    const type_description *array, *index;
};
} // namespace
} // namespace emu

#pragma GCC visibility push(hidden)
extern "C" [[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(void *data, void *address)
{
    const emu::mismatch *const what = static_cast<const emu::mismatch *>(data);
    emu::fail("%s:%u: access to %s at %p, which is not a multiple of %u", what->at.file, what->at.line, what->type->name, address,
              1u << what->log_alignment);
}

extern "C" [[noreturn]] void __ubsan_handle_out_of_bounds_abort(void *data, void *index)
{
    const emu::out_of_bounds *const what = static_cast<const emu::out_of_bounds *>(data);
    emu::fail("%s:%u: index %lld of %s", what->at.file, what->at.line, (long long)(intptr_t)index, what->array->name);
}
#pragma GCC visibility pop
