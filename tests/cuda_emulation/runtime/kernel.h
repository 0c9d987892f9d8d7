/* The kernels that can be launched, and how to call them. */
#ifndef EMU_KERNEL_H
#define EMU_KERNEL_H

#include <stddef.h>

#include <type_traits>
#include <utility>

namespace emu
{
struct kernel {
    const char *name;
    void (*function)();
    void (*invoke)(void (*function)(), const void *const *arguments);
    int n_parameters;
    const size_t *sizes, *alignments;
    unsigned cluster; /* blocks per cluster; 1 unless the launch sets it */
};

void kernel_register(const kernel &k);
const kernel *kernel_find(const char *name);

template <typename... P> struct kernel_call {
    static constexpr size_t sizes[sizeof...(P) + 1] = {sizeof(P)..., 0};
    static constexpr size_t alignments[sizeof...(P) + 1] = {alignof(P)..., 0};

    template <size_t... I> static void unpack(void (*function)(), const void *const *arguments, std::index_sequence<I...>)
    {
        (void)arguments;
        reinterpret_cast<void (*)(P...)>(function)(*static_cast<const P *>(arguments[I])...);
    }
    static void invoke(void (*function)(), const void *const *arguments)
    {
        unpack(function, arguments, std::index_sequence_for<P...>());
    }
};

template <typename... P> kernel kernel_of(const char *name, void (*function)(P...), unsigned cluster)
{
    static_assert((std::is_trivially_copyable<P>::value && ...), "parameters are copied as bytes");
    return {name,
            reinterpret_cast<void (*)()>(function),
            kernel_call<P...>::invoke,
            (int)sizeof...(P),
            kernel_call<P...>::sizes,
            kernel_call<P...>::alignments,
            cluster};
}

struct kernel_registration {
    template <typename F> kernel_registration(const char *name, F *function, unsigned cluster = 1)
    {
        kernel_register(kernel_of(name, function, cluster));
    }
};
} // namespace emu

/* At file scope, once per kernel. */
#define EMU_KERNEL(name) static const ::emu::kernel_registration emu_registration_##name(#name, name);
/* For a kernel with __cluster_dims__. */
#define EMU_KERNEL_OF_CLUSTERS(name, cluster) static const ::emu::kernel_registration emu_registration_##name(#name, name, cluster);

#endif
