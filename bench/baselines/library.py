"""The shared library through ctypes, with tensors for it: in PyTorch's memory on the GPU and with PyTorch's stream, or without a GPU in the
library's own mapped buffers."""

import ctypes

import torch

from raggedvit._c import layouts
from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import new
from raggedvit._c.library import Library

DTYPES = {torch.float32: "RVIT_F32", torch.float16: "RVIT_F16", torch.bfloat16: "RVIT_BF16"}


def wrapped(library, device, address, size):
    """Returns a buffer on caller-owned CUDA memory."""
    memory = new("rvit_memory_desc", type=CONSTANTS["RVIT_MEMORY_CUDA"], address=address, size=size)
    return library.make("rvit_buffer_wrap", device, ctypes.byref(memory))


class Context:
    """A device and a stream of the library, and tensors that both sides can use."""

    def __init__(self, library):
        self.library, self._buffers = library, {}

    def view(self, tensor):
        """The rvit_view of a contiguous tensor from empty(), or of a slice of it that starts at a multiple of 16 bytes."""
        address = tensor.data_ptr()
        storage = tensor.untyped_storage()
        buffer = self._buffer(storage)
        return layouts.rvit_view(buffer, address - storage.data_ptr())

    def info(self):
        info = new("rvit_device_info")
        self.library.rvit_device_get_info(self.device, ctypes.byref(info))
        return info

    def stats(self, stream=None):
        stats = new("rvit_stats")
        self.library.rvit_stream_get_stats(stream or self.stream, ctypes.byref(stats))
        return {name: getattr(stats, name) for name, _ in stats._fields_[1:]}


class GpuContext(Context):
    """Uses PyTorch's CUDA context, memory and stream."""

    def __init__(self, library, torch_stream):
        super().__init__(library)
        torch.cuda.init()
        self.torch_device, self.torch_stream = torch.device("cuda"), torch_stream
        torch.zeros(1, device="cuda")  # makes the context current in this thread
        self.device = library.make("rvit_cuda_device_create", None, None)
        self.stream = library.make("rvit_stream_wrap", self.device, torch_stream.cuda_stream)

    def _buffer(self, storage):
        key = (storage.data_ptr(), storage.nbytes())
        if key not in self._buffers:
            self._buffers[key] = wrapped(self.library, self.device, *key)
        return self._buffers[key]

    def empty(self, *shape, dtype):
        return torch.empty(*shape, dtype=dtype, device="cuda")

    def forget(self):
        """Destroys the wrapped buffers; their memory belongs to PyTorch."""
        for buffer in self._buffers.values():
            self.library.rvit_buffer_destroy(buffer)
        self._buffers.clear()


class HostContext(Context):
    """For a run without a GPU: uses the library's CPU device, or its CUDA backend on an emulated driver. The latter is created by the
    functions of cuda.h, so that a dry run makes the same calls as a run on a GPU."""

    def __init__(self, library, backend):
        super().__init__(library)
        self.torch_device, self.torch_stream, self.wrap = torch.device("cpu"), None, backend == "cuda"
        desc = new("rvit_device_desc", backend=CONSTANTS[f"RVIT_BACKEND_{backend.upper()}"])
        self.device = library.make("rvit_device_create", ctypes.byref(desc))
        self.stream = library.make("rvit_stream_create", self.device)
        if self.wrap:
            own_stream = self.stream
            self.device = library.make("rvit_cuda_device_create", library.make("rvit_cuda_device_context", self.device), None)
            self.stream = library.make("rvit_stream_wrap", self.device, library.make("rvit_stream_handle", own_stream))

    def empty(self, *shape, dtype):
        size = max(1, torch.Size(shape).numel()) * torch.empty(0, dtype=dtype).element_size()
        size = (size + 63) // 64 * 64
        buffer = self.library.make("rvit_buffer_create", self.device, size, CONSTANTS["RVIT_BUFFER_UPLOAD"])
        memory = (ctypes.c_char * size).from_address(self.library.rvit_buffer_host(buffer))
        tensor = torch.frombuffer(memory, dtype=torch.uint8)
        handle = buffer
        if self.wrap:
            handle = wrapped(self.library, self.device, self.library.address(buffer), size)
        self._buffers[tensor.untyped_storage().data_ptr()] = handle
        return tensor.view(dtype)[: torch.Size(shape).numel()].view(*shape)

    def _buffer(self, storage):
        return self._buffers[storage.data_ptr()]

    def synchronize(self):
        self.library.rvit_stream_synchronize(self.stream)

    def forget(self):
        pass
