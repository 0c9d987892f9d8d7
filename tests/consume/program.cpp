// Uses the library from C++17: converts a mask to a layout, and gathers the kept rows with pack on the CPU.
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include <raggedvit/cuda.h>
#include <raggedvit/raggedvit.h>
#include <raggedvit/vulkan.h>

namespace
{

template <auto destroy> struct destroyer {
    template <class T> void operator()(T *object) const
    {
        destroy(object);
    }
};
using device_ptr = std::unique_ptr<rvit_device, destroyer<rvit_device_destroy>>;
using stream_ptr = std::unique_ptr<rvit_stream, destroyer<rvit_stream_destroy>>;
using buffer_ptr = std::unique_ptr<rvit_buffer, destroyer<rvit_buffer_destroy>>;

void need(rvit_status status)
{
    if (status != RVIT_OK)
        throw std::runtime_error(std::string(rvit_status_name(status)) + ": " + rvit_status_detail());
}

void run()
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    if (desc.struct_size != sizeof desc || desc.index != RVIT_INDEX_AUTO)
        throw std::runtime_error("an initialiser does not set all fields");
    desc.backend = RVIT_BACKEND_CPU;
    desc.n_threads = 1;
    rvit_device *device = nullptr;
    need(rvit_device_create(&desc, &device));
    const device_ptr owned_device(device);
    rvit_stream *stream = nullptr;
    need(rvit_stream_create(device, &stream));
    const stream_ptr owned_stream(stream);
    rvit_buffer *buffer = nullptr;
    need(rvit_buffer_create(device, 4096, RVIT_BUFFER_UPLOAD, &buffer));
    const buffer_ptr owned_buffer(buffer);

    const std::array<std::uint8_t, 6> keep{1, 0, 1, 1, 0, 0};
    std::array<std::int32_t, 3> cu_seqlens{};
    std::array<std::int32_t, 6> src_rows{};
    need(rvit_layout_from_mask(keep.data(), 2, 3, 1, cu_seqlens.data(), src_rows.data()));
    if (cu_seqlens != std::array<std::int32_t, 3>{0, 2, 3} || src_rows[0] != 0 || src_rows[1] != 2 || src_rows[2] != 3)
        throw std::runtime_error("the layout of the mask is wrong");

    auto *memory = static_cast<char *>(rvit_buffer_host(buffer));
    std::array<float, 24> rows{};
    for (std::size_t i = 0; i < rows.size(); i++)
        rows[i] = static_cast<float>(i);
    std::memcpy(memory, rows.data(), sizeof rows);
    std::memcpy(memory + 1024, src_rows.data(), sizeof src_rows);
    rvit_pack_args args = RVIT_PACK_ARGS_INIT;
    args.rows.capacity = 3;
    args.source_rows = 6;
    args.row_size = 4 * sizeof(float);
    args.source = {buffer, 0};
    args.src_rows = {buffer, 1024};
    args.destination = {buffer, 2048};
    need(rvit_pack(stream, &args));
    need(rvit_stream_synchronize(stream));
    for (std::size_t r = 0; r < 3; r++)
        if (std::memcmp(memory + 2048 + 16 * r, &rows[4 * static_cast<std::size_t>(src_rows[r])], 16) != 0)
            throw std::runtime_error("a packed row is wrong");

    void *context = nullptr;
    if (rvit_cuda_device_context(device, &context) == RVIT_OK)
        throw std::runtime_error("a CPU device has a CUDA context");
}

} // namespace

int main()
{
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    std::printf("C++ works with raggedvit %s\n", rvit_version());
    return 0;
}
