"""Ragged attention on the caller's arrays: copied through the library's memory on the CPU, in place on CUDA."""

from __future__ import annotations

import collections
import ctypes
import math
import sys
import threading
from typing import Any

import numpy as np

from ._arrays import ELEMENTS, DeviceArray, device_array, host_array, is_torch, on_cuda
from ._checks import INT32_MAX, UINT64_MAX, float32, integer, optional, shown
from ._constants import CONSTANTS
from ._errors import invalid
from ._layouts import new
from ._library import Handle, library
from ._structs import fill

DTYPES = {"float32": CONSTANTS["RVIT_F32"], "float16": CONSTANTS["RVIT_F16"], "bfloat16": CONSTANTS["RVIT_BF16"]}
MAX_STREAMS = 64

_devices: dict[Any, Handle] = {}
_devices_lock = threading.Lock()
_local = threading.local()


def attention(qkv: Any, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: Any = None, *,
              stream: int | None = None) -> Any:
    """Bidirectional attention of every sequence of a ragged batch with itself.

    qkv: float32, float16 or bfloat16 (CUDA) [rows, 3, heads, head_dim], head_dim a multiple of 8 up to 128; sequence i is rows
    cu_seqlens[i] .. cu_seqlens[i + 1] - 1. Rows may be further apart than they are long; within a row all is contiguous. cu_seqlens: int32
    [n + 1], from 0, not decreasing. scale: of the logits; None: 1 / sqrt(head_dim). max_len: no sequence is longer. out: [rows, heads,
    head_dim] of qkv's type, which is then returned; None: a new one. Rows past cu_seqlens[n] are not written: undefined in a new one. On
    CUDA it must not overlap qkv.

    numpy arrays and CPU tensors of PyTorch are computed on the library's CPU device before it returns; max_len defaults to the longest.

    CUDA arrays (PyTorch tensors, and whatever has __cuda_array_interface__ or DLPack) are used where they lie: the call enqueues one
    kernel or two and returns. Nothing is read back, so cu_seqlens is not checked and max_len defaults to rows: give it, since work that no
    sequence has is skipped but not free. stream: a CUstream as an int; None: PyTorch's current stream for its tensors, else the stream that
    __cuda_array_interface__ names, else the legacy default stream. Other arrays than PyTorch's need an out, and their device's context
    current in the thread. Memory must be 16-byte aligned, cu_seqlens 4-byte.

    There is no gradient. Any thread may call; each has streams and working memory of its own. Raises RaggedVitError.
    """
    scale, max_len = optional(float32, "scale", scale), optional(integer, "max_len", max_len, 0, INT32_MAX - 1)
    stream = optional(integer, "stream", stream, 0, UINT64_MAX)
    if scale is not None and (not scale or math.isinf(scale)):
        raise invalid(f"scale is {scale:g}; expected another number, or None for 1 / sqrt(head_dim)")
    if on_cuda(qkv):
        return _on_cuda(qkv, cu_seqlens, scale, max_len, out, stream)
    if stream is not None:
        raise invalid("a stream is given, but qkv is not on a CUDA device")
    if on_cuda(cu_seqlens) or on_cuda(out):
        raise invalid("cu_seqlens or out is on a CUDA device, qkv is not")
    if is_torch(qkv):
        torch = sys.modules["torch"]
        if qkv.device.type != "cpu":
            raise invalid(f"qkv is on {qkv.device}; expected a CPU or a CUDA device")
        if out is None:
            _check_qkv(tuple(qkv.shape), str(qkv.dtype)[6:])
            out = torch.empty((qkv.shape[0], *qkv.shape[2:]), dtype=qkv.dtype)
        elif not is_torch(out) or out.dtype != qkv.dtype or out.device != qkv.device:
            raise invalid("out is not a CPU tensor of qkv's type")
        # numpy has no bfloat16: its bits travel as int16.
        bits = [t.detach().view(torch.int16) if t.dtype == torch.bfloat16 else t.detach() for t in (qkv, out)]
        arrays = [host_array(name, t) for name, t in zip(("qkv", "out"), bits)]
        _on_cpu(arrays[0], str(qkv.dtype)[6:], host_array("cu_seqlens", cu_seqlens), scale, max_len, arrays[1])
        return out
    qkv = host_array("qkv", qkv)
    _check_qkv(qkv.shape, str(qkv.dtype))
    if out is None:
        out = np.empty((qkv.shape[0], *qkv.shape[2:]), qkv.dtype)
    elif not isinstance(out, np.ndarray) or out.dtype != qkv.dtype:
        raise invalid(f"out is not a numpy array of qkv's type: it is {out.dtype if isinstance(out, np.ndarray) else shown(out)}")
    _on_cpu(qkv, str(qkv.dtype), host_array("cu_seqlens", cu_seqlens), scale, max_len, host_array("out", out))
    return out


def _check_qkv(shape: tuple[int, ...], dtype: str) -> None:
    if len(shape) != 4 or shape[1] != 3:
        raise invalid(f"qkv is {list(shape)}; expected [rows, 3, heads, head_dim]")
    if dtype not in DTYPES:
        raise invalid(f"qkv is {dtype}; expected one of {', '.join(DTYPES)}")


def _check_out(shape: tuple[int, ...], qkv: tuple[int, ...]) -> None:
    if tuple(shape) != (qkv[0], qkv[2], qkv[3]):
        raise invalid(f"out is {list(shape)}; expected {[qkv[0], qkv[2], qkv[3]]}")


def _device(key: Any, create: Any) -> Handle:
    with _devices_lock:
        if key not in _devices:
            _devices[key] = create()
        return _devices[key]


class _CpuPlace:
    """A thread's stream on the CPU device, and mapped buffers that grow to the largest call."""

    def __init__(self) -> None:
        self.lib = library()
        desc = new("rvit_device_desc", backend=CONSTANTS["RVIT_BACKEND_CPU"])
        self.device = _device("cpu", lambda: self.lib.own("device", ctypes.byref(desc)))
        self.stream = self.lib.own("stream", self.device)
        self.buffers: dict[str, tuple[Handle, int]] = {}

    def array(self, name: str, kind: str, shape: tuple[int, ...], dtype: Any) -> tuple[Handle, np.ndarray]:
        n = math.prod(shape)
        size = max(16, n * np.dtype(dtype).itemsize)
        buffer, capacity = self.buffers.get(name, (None, 0))
        if buffer is None or capacity < size:
            buffer = self.lib.own("buffer", self.device, size, CONSTANTS[kind])
            self.buffers[name] = (buffer, size)
        memory = (ctypes.c_char * size).from_address(self.lib.rvit_buffer_host(buffer))
        return buffer, np.frombuffer(memory, dtype, n).reshape(shape)


def _on_cpu(qkv: np.ndarray, dtype: str, cu_seqlens: np.ndarray, scale: float | None, max_len: int | None, out: np.ndarray) -> None:
    _check_qkv(qkv.shape, dtype)
    _check_out(out.shape, qkv.shape)
    if not out.flags.writeable:
        raise invalid("out is read-only")
    if out.size and any(step == 0 and length > 1 for step, length in zip(out.strides, out.shape)):
        raise invalid("out has rows, heads or numbers that share their memory; expected an array of its own memory")
    if cu_seqlens.ndim != 1 or not len(cu_seqlens) or cu_seqlens.dtype.kind not in "iu":
        raise invalid(f"cu_seqlens is {cu_seqlens.dtype} {list(cu_seqlens.shape)}; expected int32 [n + 1]")
    if int(cu_seqlens.max()) > 2**31 - 1 or int(cu_seqlens.min()) < -(2**31):
        raise invalid("cu_seqlens has an entry that is no int32")
    place = getattr(_local, "cpu", None)
    if place is None:
        place = _local.cpu = _CpuPlace()
    lib, (rows, _, heads, head_dim), n = place.lib, qkv.shape, len(cu_seqlens) - 1
    cu_buffer, cu = place.array("cu_seqlens", "RVIT_BUFFER_UPLOAD", (n + 1,), np.int32)
    cu[:] = cu_seqlens
    if max_len is None:
        max_len = max(0, int(np.diff(cu.astype(np.int64)).max(initial=0)))
    lib.rvit_cu_seqlens_check(cu.ctypes.data, n, max_len, rows)
    live = int(cu[n])
    qkv_buffer, staged = place.array("qkv", "RVIT_BUFFER_UPLOAD", qkv.shape, qkv.dtype)
    staged[:live] = qkv[:live]
    out_buffer, result = place.array("out", "RVIT_BUFFER_READBACK", out.shape, out.dtype)
    args = new("rvit_attention_args", dtype=DTYPES[dtype], n_images=n, n_heads=heads, head_dim=head_dim, max_len=max_len, rows=rows,
               scale=scale or 0.0)
    size = heads * head_dim
    for i, view in enumerate((args.q, args.k, args.v)):
        view.buffer, view.offset = qkv_buffer.pointer, i * size * qkv.itemsize
    args.q_stride = args.k_stride = args.v_stride = 3 * size
    args.cu_seqlens.buffer, args.out.buffer = cu_buffer.pointer, out_buffer.pointer
    lib.rvit_attention(place.stream, ctypes.byref(args))
    lib.rvit_stream_synchronize(place.stream)
    out[:live] = result[:live]


class _CudaPlace:
    """A thread's view of one CUDA stream: a wrapped stream, and wrapped buffers that each call points at its arrays."""

    def __init__(self, device: Handle, stream: int) -> None:
        self.lib = library()
        self.device = device
        self.stream = self.lib.own("stream", device, stream or None, create="rvit_cuda_stream_wrap")
        self.buffers: dict[str, Handle] = {}
        self.args = new("rvit_attention_args")
        self.fields: dict[str, Any] | None = {}

    def store(self, fields: dict[str, Any]) -> None:
        """Sets fields of args, each checked; those of the last call need no second check."""
        if fields != self.fields:
            self.fields = None  # until all are stored
            fill(self.args, fields)
            self.fields = fields

    def point(self, views: tuple[str, ...], address: int, size: int) -> int:
        """Points the views' buffer at an array. Returns where the array begins in it: a buffer begins at a multiple of 16."""
        offset = address % 16 if views == ("cu_seqlens",) else 0
        buffer = self.buffers.get(views[0])
        if buffer is None:
            buffer = self.lib.own("buffer", self.device, address - offset, size + offset, create="rvit_cuda_buffer_wrap")
            self.buffers[views[0]] = buffer
            fill(self.args, {view: {"buffer": buffer.pointer} for view in views})
        else:
            self.lib.rvit_cuda_buffer_set(buffer, address - offset, size + offset)
        return offset


def _current_context() -> int:
    """The CUcontext of this thread, for arrays that do not say on which device they are."""
    context = ctypes.c_void_p()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context))
    except OSError:
        failed = 1
    if failed or not context.value:
        raise invalid("no CUDA context is current in this thread; make that of the arrays' device current")
    return context.value


def _cuda_place(key: Any, context: int | None, stream: int) -> _CudaPlace:
    places = getattr(_local, "cuda", None)
    if places is None:
        places = _local.cuda = collections.OrderedDict()
    place = places.get((key, stream))
    if place is None:
        lib = library()
        device = _device(key, lambda: lib.own("device", context, None, create="rvit_cuda_device_create"))
        place = places[(key, stream)] = _CudaPlace(device, stream)
        if len(places) > MAX_STREAMS:
            places.popitem(last=False)
    places.move_to_end((key, stream))
    return place


def _on_cuda(qkv: Any, cu_seqlens: Any, scale: float | None, max_len: int | None, out: Any, stream: int | None) -> Any:
    if is_torch(qkv):
        torch, index = sys.modules["torch"], qkv.device.index
        if torch.cuda.current_device() != index:
            with torch.cuda.device(index):
                return _on_cuda(qkv, cu_seqlens, scale, max_len, out, stream)
        for name, other in (("cu_seqlens", cu_seqlens), ("out", out)):
            if is_torch(other) and other.device != qkv.device:
                raise invalid(f"{name} is on {other.device}, qkv on {qkv.device}")
        if stream is None:
            stream = torch.cuda.current_stream(index).cuda_stream
        key, context = ("torch", index), None
        if key not in _devices:
            torch.zeros(1, device=qkv.device)  # makes PyTorch's context the thread's current one, which a device is made on
        _check_qkv(tuple(qkv.shape), str(qkv.dtype)[6:])
        if out is None:
            out = torch.empty((qkv.shape[0], *qkv.shape[2:]), dtype=qkv.dtype, device=qkv.device)
    else:
        if out is None:
            raise invalid("out is not given; qkv is no PyTorch tensor, so there is nothing to make one with")
        key = context = None
    first = device_array(qkv, "qkv", stream)
    if stream is None:
        stream = first.stream or 0
    lengths, result = device_array(cu_seqlens, "cu_seqlens", stream), device_array(out, "out", stream)
    _check_cuda(first, lengths, result)
    if key is None:
        context = _current_context()
        key = ("context", context)
    _enqueue(_cuda_place(key, context, stream), first, lengths, result, scale, max_len)
    return out


def _check_cuda(qkv: DeviceArray, cu_seqlens: DeviceArray, out: DeviceArray) -> None:
    _check_qkv(qkv.shape, qkv.dtype)
    _check_out(out.shape, qkv.shape)
    (rows, _, heads, head_dim), width = qkv.shape, qkv.shape[2] * qkv.shape[3]
    for name, other in (("cu_seqlens", cu_seqlens), ("out", out)):
        if None not in (qkv.device, other.device) and other.device != qkv.device:
            raise invalid(f"{name} is on CUDA device {other.device}, qkv on {qkv.device}")
    if out.read_only:
        raise invalid("out is read-only")
    if out.dtype != qkv.dtype:
        raise invalid(f"out is {out.dtype}, qkv {qkv.dtype}")
    if cu_seqlens.dtype != "int32" or len(cu_seqlens.shape) != 1 or not cu_seqlens.shape[0] or cu_seqlens.strides[0] != 1:
        raise invalid(f"cu_seqlens is {cu_seqlens.dtype} {list(cu_seqlens.shape)}; expected contiguous int32 [n + 1]")
    if qkv.strides[1:] != (width, head_dim, 1) or out.strides[1:] != (head_dim, 1):
        raise invalid("qkv or out is not contiguous within a row")
    for name, array, length in (("qkv", qkv, 3 * width), ("out", out, width)):
        if rows > 1 and array.strides[0] < length:
            raise invalid(f"the rows of {name} are {array.strides[0]} elements apart; expected {length}, their length, or more")
    if rows and width and _overlap(qkv, out, rows, width):
        raise invalid("out overlaps qkv")


def _overlap(qkv: DeviceArray, out: DeviceArray, rows: int, width: int) -> bool:
    """Whether the kernel would write what it has yet to read."""
    size, step = ELEMENTS[qkv.dtype], qkv.strides[0]
    ahead = out.address - qkv.address
    if ahead >= ((rows - 1) * step + 3 * width) * size or -ahead >= ((rows - 1) * out.strides[0] + width) * size:
        return False
    if rows == 1 or out.strides[0] != step:
        return True
    column = ahead // size % step  # of out within the rows of qkv
    return column < 3 * width or column + width > step


def _enqueue(place: _CudaPlace, qkv: DeviceArray, cu_seqlens: DeviceArray, out: DeviceArray, scale: float | None,
             max_len: int | None) -> None:
    (rows, _, heads, head_dim), width = qkv.shape, qkv.shape[2] * qkv.shape[3]
    n, size = cu_seqlens.shape[0] - 1, ELEMENTS[qkv.dtype]
    if rows == 0 or n == 0:
        return
    step, out_step = (qkv.strides[0], out.strides[0]) if rows > 1 else (3 * width, width)
    place.point(("q", "k", "v"), qkv.address, ((rows - 1) * step + 3 * width) * size)
    place.point(("out",), out.address, ((rows - 1) * out_step + width) * size)
    begin = place.point(("cu_seqlens",), cu_seqlens.address, 4 * (n + 1))
    place.store({"dtype": DTYPES[qkv.dtype], "n_images": n, "n_heads": heads, "head_dim": head_dim,
                 "max_len": rows if max_len is None else max_len, "rows": rows, "scale": scale or 0.0,
                 "q_stride": step, "k_stride": step, "v_stride": step, "out_stride": out_step,
                 "k": {"offset": width * size}, "v": {"offset": 2 * width * size}, "cu_seqlens": {"offset": begin}})
    place.lib.check(place.lib.raw.rvit_attention(place.stream, ctypes.byref(place.args)))
