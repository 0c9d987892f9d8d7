"""Describes the caller's arrays without importing other libraries.

Host arrays are read as numpy arrays; CUDA arrays are PyTorch tensors, or have __cuda_array_interface__ or DLPack."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any, Iterable

import numpy as np

from .._c import checks
from .._c.checks import INT32_MAX, UINT64_MAX, integer, optional, shown
from .._c.errors import invalid
from .._c.library import cuda_driver

ELEMENTS = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "uint8": 1, "bool": 1}
TYPESTRS = {"<f4": "float32", "<f2": "float16", "<i4": "int32", "|u1": "uint8", "|b1": "bool"}
DLPACK_CUDA, DLPACK_CUDA_MANAGED = 2, 13
DLPACK_KINDS = {
    (2, 32): "float32",
    (2, 16): "float16",
    (4, 16): "bfloat16",
    (0, 32): "int32",
    (1, 8): "uint8",
    (6, 8): "bool",
}


@dataclass
class DeviceArray:
    """The memory and layout of an array. strides are in elements; `owner` keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    stream: int | None
    owner: Any
    device: int | None = None  # None: unknown
    read_only: bool = False
    context: int = 0  # CUcontext; 0: PyTorch's of the device
    host: bool = False  # in host memory


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def host_array(argument: str, value: Any) -> np.ndarray:
    """Returns a value as a numpy array, in place if possible."""
    if isinstance(value, np.ma.MaskedArray):
        raise invalid(f"{argument}: a masked array is not supported")
    try:
        array = value.numpy() if is_torch(value) else np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # including errors of the value's own __array__
        raise invalid(f"{argument} cannot be read as an array: {reason(error)}") from error
    if array.ndim == 0 and array.dtype.kind not in "biuf":
        raise invalid(f"{argument}: {shown(value)} is given; expected an array")
    return array


def number_array(argument: str, value: Any) -> np.ndarray:
    """As host_array, but refuses items of 0 bytes, objects and records."""
    array = host_array(argument, value)
    if array.dtype.itemsize == 0 or array.dtype.hasobject or array.dtype.names is not None:
        raise invalid(f"{argument} is {array.dtype} {list(array.shape)}; expected numbers")
    return array


def integers(argument: str, value: Any) -> np.ndarray:
    """Returns a contiguous int32 array of any integers."""
    array = number_array(argument, value)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise invalid(f"{argument} is {array.dtype} {list(array.shape)}; expected int32 in one dimension")
    if array.size and (int(array.max()) > INT32_MAX or int(array.min()) < -INT32_MAX - 1):
        raise invalid(f"{argument} has an entry that is not an int32")
    return np.require(array, np.int32, "CA")


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_symbol(array: Any) -> bool:
    """Whether a value is a proxy for a tensor in a trace of torch.fx."""
    return (
        "torch" in sys.modules
        and not is_torch(array)
        and not isinstance(array, type)
        and hasattr(type(array), "__torch_function__")
    )


def _memory(array: Any) -> np.ndarray:
    """Returns the elements of a numpy array or a CPU tensor as a numpy array."""
    if not is_torch(array):
        return array  # type: ignore[no-any-return]
    torch, array = sys.modules["torch"], array.detach()
    size = array.element_size()  # numpy has no bfloat16 or float8
    return array.numpy() if size > 2 else array.view(torch.int16 if size == 2 else torch.uint8).numpy()  # type: ignore[no-any-return]


def may_share(array: Any, others: Iterable[Any]) -> bool:
    """Whether an output may share memory with other arrays of the host."""
    return any(np.may_share_memory(_memory(array), _memory(other)) for other in others)


def refuse_shared(outputs: dict[str, Any]) -> None:
    """Refuses outputs in host memory that overlap themselves or one another."""
    found = [(name, _memory(array)) for name, array in outputs.items() if array is not None]
    for i, (name, array) in enumerate(found):
        if array.size and any(step == 0 and length > 1 for step, length in zip(array.strides, array.shape)):
            raise invalid(
                f"{name} has rows, heads or numbers that share their memory; expected an array of its own memory"
            )
        for other, written in found[:i]:
            if _shares(array, written):
                raise invalid(f"{name} overlaps {other}; expected an array of its own memory")


def _shares(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=10000))
    except Exception:  # numpy gives up after so many steps
        return True


def on_cuda(array: Any) -> bool:
    """Whether an array is in the memory of a CUDA device."""
    if is_torch(array):
        return bool(array.is_cuda)
    if isinstance(array, type):
        return False
    try:
        if hasattr(array, "__cuda_array_interface__"):
            return True
        device = getattr(array, "__dlpack_device__", None)
        return device is not None and int(device()[0]) in (DLPACK_CUDA, DLPACK_CUDA_MANAGED)
    except Exception as error:  # raised by the array's own code
        raise invalid(f"a {type(array).__name__} does not give its address: {reason(error)}") from error


def device_array(array: Any, argument: str, stream: int | None = None) -> DeviceArray:
    """Describes a CUDA array. stream: the stream that will use it, which a DLPack exporter makes wait for its work."""
    found = _device_array(array, argument, stream)
    if found.dtype not in ELEMENTS:
        raise invalid(f"{argument} is {found.dtype}; expected one of {', '.join(ELEMENTS)}")
    return found


def _device_array(array: Any, argument: str, stream: int | None) -> DeviceArray:
    if not on_cuda(array):
        raise invalid(f"{argument} is a {type(array).__name__} in host memory; expected a CUDA array, as qkv is")
    if is_torch(array):
        return tensor_array(array)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return from_interface(interface, array, argument)
    try:
        capsule = array.__dlpack__(stream=stream or 1)
    except Exception as error:  # raised by the exporter's code
        raise invalid(f"{argument} gives no DLPack capsule: {reason(error)}") from error
    return from_dlpack(capsule, argument)


def tensor_array(tensor: Any) -> DeviceArray:
    """Describes a PyTorch tensor."""
    return DeviceArray(
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        str(tensor.dtype)[6:],
        0,
        tensor,
        tensor.device.index or 0,
        host=tensor.device.type == "cpu",
    )


def on_stream(arrays: list[DeviceArray], stream: int | None) -> None:
    """Sets the stream and this thread's context on the first array, for arrays that are not PyTorch's."""
    arrays[0].stream = arrays[0].stream or 0 if stream is None else stream
    arrays[0].context = current_context()


def current_context() -> int:
    """Returns the CUcontext of this thread, for arrays that do not name their device."""
    context = ctypes.c_void_p()
    try:
        failed = cuda_driver().cuCtxGetCurrent(ctypes.byref(context))
    except OSError:
        failed = 1
    if failed or not context.value:
        raise invalid("no CUDA context is current in this thread; make that of the arrays' device current")
    return context.value


def from_interface(interface: dict[str, Any], owner: Any, argument: str) -> DeviceArray:
    try:
        typestr, (address, read_only) = str(interface["typestr"]), interface["data"]
        shape, strides, mask, stream = (
            interface["shape"],
            interface.get("strides"),
            interface.get("mask"),
            interface.get("stream"),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise invalid(f"the __cuda_array_interface__ of {argument} is malformed: {reason(error)}") from error
    if mask is not None:
        raise invalid(f"{argument} has a mask, which is not supported")
    dtype = TYPESTRS.get(typestr, typestr)
    shape = checks.integers(f"{argument}.shape", shape, 64, 0, 2**63 - 1)
    return DeviceArray(
        optional(integer, f"the address of {argument}", address, 0, UINT64_MAX) or 0,
        shape,
        contiguous(shape) if strides is None else _steps(argument, strides, ELEMENTS.get(dtype, 1), len(shape)),
        dtype,
        optional(integer, f"the stream of {argument}", stream, 0, UINT64_MAX),
        owner,
        read_only=bool(read_only),
    )


def _steps(argument: str, strides: Any, size: int, rank: int) -> tuple[int, ...]:
    """Converts strides from bytes to elements."""
    found = checks.integers(f"{argument}.strides", strides, rank, -(2**63), 2**63 - 1)
    if len(found) != rank or any(stride % size for stride in found):
        raise invalid(
            f"the strides of {argument} are {shown(strides)}; expected {rank} multiples of its element size, {size}"
        )
    return tuple(stride // size for stride in found)


def from_dlpack(capsule: Any, argument: str) -> DeviceArray:
    """Reads a capsule without consuming it. The capsule frees the exporter's tensor when it is destroyed."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    except ValueError as error:
        raise invalid(f"what {argument} gives is not a DLPack capsule: {reason(error)}") from error
    kind = (tensor.dtype.code, tensor.dtype.bits)
    if tensor.dtype.lanes != 1:
        raise invalid(f"{argument} has vectors for elements, which is not supported")
    if not 0 <= tensor.ndim <= 64 or (tensor.ndim and not tensor.shape):
        raise invalid(f"{argument} has {tensor.ndim} dimensions, or none of the sizes that a DLPack tensor has")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else contiguous(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    if any(size < 0 for size in shape) or address > UINT64_MAX:
        raise invalid(f"{argument} is {list(shape)} at address {address}, which no memory is")
    return DeviceArray(
        address, shape, strides, DLPACK_KINDS.get(kind, f"DLPack type {kind}"), None, capsule, tensor.device.device_id
    )
