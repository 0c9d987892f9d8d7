"""The operators of torch.ops.raggedvit: schemas, kernels, shapes and gradients.

Each differentiable operator has a twin with a name that begins with _. The twin computes without a gradient; compiled
graphs contain it. The twins of attention are in C (core/torch_ops.c) if PyTorch has its stable shim (2.10 and later),
else in Python. The operator itself is a Python function that checks, at little cost, whether a gradient is needed."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .._arrays.arrays import tensor_array
from .._arrays.core_loader import core, ready
from .._c.errors import RaggedVitError, Status, invalid
from . import eager
from .tracing import refuse_tangent

ready()  # raises without a library, before anything is registered
_library = torch.library.Library("raggedvit", "DEF")  # the registrations last as long as this object
_FORWARD = (
    "(Tensor {}, Tensor? k, Tensor? v, Tensor cu_seqlens, Tensor? key_bias=None, float? scale=None, SymInt?"
    " max_len=None, bool cls_probs=False{}) -> (Tensor out, Tensor lse, Tensor cls_probs)"
)
_BACKWARD = (
    "(Tensor d_out, Tensor q, Tensor? k, Tensor? v, Tensor out, Tensor lse, Tensor cu_seqlens, Tensor? key_bias=None, "
    "Tensor? cls_probs=None, Tensor? d_lse=None, Tensor? d_cls_probs=None, float? scale=None, SymInt? max_len=None, "
    "bool key_bias_grad=False) -> (Tensor d_q, Tensor d_k, Tensor d_v, Tensor d_key_bias)"
)
_ATTENTION = "(Tensor qkv, Tensor cu_seqlens, float? scale=None, SymInt? max_len=None) -> Tensor"
for _schema in (
    "attention" + _ATTENTION,
    "_attention" + _ATTENTION,
    "attention_forward" + _FORWARD.format("q", ""),
    "_attention_forward" + _FORWARD.format("q", ", bool zero=False"),
    "attention_backward" + _BACKWARD,
    "_attention_backward" + _BACKWARD,
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
IN_C: bool = core.torch_ops()

OPERATOR, FORWARD_OPERATOR = torch.ops.raggedvit.attention, torch.ops.raggedvit.attention_forward
_attention = torch.ops.raggedvit._attention.default._op
_forward = torch.ops.raggedvit._attention_forward.default._op
_backward = torch.ops.raggedvit._attention_backward.default._op
_try = core.try_attention
_backward_public = torch.ops.raggedvit.attention_backward.default


def _attention_python(
    qkv: Tensor, cu_seqlens: Tensor, scale: Optional[float] = None, max_len: Optional[int] = None
) -> Tensor:
    return eager.attention(_named(qkv, None, None, cu_seqlens, None), scale, max_len)


def _named(
    q: Tensor,
    k: Optional[Tensor],
    v: Optional[Tensor],
    cu_seqlens: Tensor,
    key_bias: Optional[Tensor],
    lse: Any = None,
    cls_probs: Any = None,
) -> dict[str, Any]:
    return {
        "qkv" if k is None else "q": q,
        "cu_seqlens": cu_seqlens,
        "out": None,
        "k": k,
        "v": v,
        "key_bias": key_bias,
        "lse": lse,
        "cls_probs": cls_probs,
    }


def _forward_python(
    q: Tensor,
    k: Optional[Tensor],
    v: Optional[Tensor],
    cu_seqlens: Tensor,
    key_bias: Optional[Tensor] = None,
    scale: Optional[float] = None,
    max_len: Optional[int] = None,
    cls_probs: bool = False,
    zero: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    named, make = _named(q, k, v, cu_seqlens, key_bias), torch.zeros if zero else torch.empty
    named["out"] = make((q.shape[0], *q.shape[-2:]), dtype=q.dtype, device=q.device)
    named["lse"] = make((q.shape[0], q.shape[-2]), dtype=torch.float32, device=q.device)
    named["cls_probs"] = make((q.shape[0], q.shape[-2]), dtype=torch.float32, device=q.device) if cls_probs else None
    eager.attention(named, scale, max_len)
    return named["out"], named["lse"], named["cls_probs"] if cls_probs else q.new_empty(0, dtype=torch.float32)


def _backward_python(
    d_out: Tensor,
    q: Tensor,
    k: Optional[Tensor],
    v: Optional[Tensor],
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    key_bias: Optional[Tensor] = None,
    cls_probs: Optional[Tensor] = None,
    d_lse: Optional[Tensor] = None,
    d_cls_probs: Optional[Tensor] = None,
    scale: Optional[float] = None,
    max_len: Optional[int] = None,
    key_bias_grad: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    results = [
        torch.zeros(t.shape, dtype=t.dtype, device=q.device) if t is not None else q.new_empty(0) for t in (q, k, v)
    ]
    results.append(torch.zeros(q.shape[0] if key_bias_grad else 0, dtype=torch.float32, device=q.device))
    size = core.backward_workspace(q.shape[0], q.shape[-2], key_bias_grad)
    workspace = torch.empty(size, dtype=torch.uint8, device=q.device)
    made = (
        results[0],
        results[1] if k is not None else None,
        results[2] if v is not None else None,
        results[3] if key_bias_grad else None,
    )
    given = (d_out, q, k, v, out, lse, cu_seqlens, key_bias, cls_probs, d_lse, d_cls_probs, *made, workspace)
    arrays = [None if tensor is None else tensor_array(tensor) for tensor in given]
    if q.is_cuda:
        assert arrays[0] is not None
        arrays[0].stream = torch.cuda.current_stream(q.device).cuda_stream
    core.strict_attention_backward(*arrays, scale, max_len)
    return results[0], results[1], results[2], results[3]


def _attention_shape(
    qkv: Tensor, cu_seqlens: Tensor, scale: Optional[float] = None, max_len: Optional[int] = None
) -> Tensor:
    if qkv.dim() != 4:
        raise invalid(f"qkv is {list(qkv.shape)}; expected [rows, 3, heads, head_dim]")
    return qkv.new_empty((qkv.shape[0], qkv.shape[2], qkv.shape[3]))


def _forward_shape(
    q: Tensor,
    k: Optional[Tensor],
    v: Optional[Tensor],
    cu_seqlens: Tensor,
    key_bias: Optional[Tensor] = None,
    scale: Optional[float] = None,
    max_len: Optional[int] = None,
    cls_probs: bool = False,
    zero: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    rows, heads, dim = q.shape[0], q.shape[-2], q.shape[-1]
    probs = q.new_empty((rows, heads), dtype=torch.float32)
    return (
        q.new_empty((rows, heads, dim)),
        probs,
        torch.empty_like(probs) if cls_probs else q.new_empty(0, dtype=torch.float32),
    )


def _backward_shape(
    d_out: Tensor,
    q: Tensor,
    k: Optional[Tensor],
    v: Optional[Tensor],
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    key_bias: Optional[Tensor] = None,
    cls_probs: Optional[Tensor] = None,
    d_lse: Optional[Tensor] = None,
    d_cls_probs: Optional[Tensor] = None,
    scale: Optional[float] = None,
    max_len: Optional[int] = None,
    key_bias_grad: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    d_q, d_k, d_v = (q.new_empty(t.shape) if t is not None else q.new_empty(0) for t in (q, k, v))
    return d_q, d_k, d_v, q.new_empty(q.shape[0] if key_bias_grad else 0, dtype=torch.float32)


def failed(error: RuntimeError) -> Exception:
    """Converts an exception of a kernel in C, or of PyTorch, to an error of this package."""
    if "functorch transforms" in str(error):
        return RaggedVitError(
            Status.UNSUPPORTED,
            "torch.func (grad, vjp, jacrev, ...) does not reach the gradients of attention, pack, gather "
            "and unpack: use torch.autograd",
        )
    found = core.take_error()
    return error if found is None or found[1] not in str(error) else RaggedVitError(*found)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Optional[Tensor],
        v: Optional[Tensor],
        cu_seqlens: Tensor,
        key_bias: Optional[Tensor],
        scale: Optional[float],
        max_len: Optional[int],
        wants_cls: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        out, lse, cls_probs = _forward(q, k, v, cu_seqlens, key_bias, scale, max_len, wants_cls, True)
        ctx.save_for_backward(q, k, v, cu_seqlens, key_bias, out, lse, cls_probs if wants_cls else None)
        ctx.scale, ctx.max_len = scale, max_len
        ctx.set_materialize_grads(False)
        if not wants_cls:
            ctx.mark_non_differentiable(cls_probs)
        return out, lse, cls_probs

    @staticmethod
    def backward(ctx: Any, d_out: Optional[Tensor], d_lse: Optional[Tensor], d_cls: Optional[Tensor]) -> Any:
        q, k, v, cu_seqlens, key_bias, out, lse, cls_probs = ctx.saved_tensors
        d_out = torch.zeros_like(out) if d_out is None else d_out.contiguous()
        d_lse = None if d_lse is None else d_lse.contiguous()
        d_cls = None if d_cls is None or cls_probs is None else d_cls.contiguous()
        wants_bias = bool(ctx.needs_input_grad[4])
        d_q, d_k, d_v, d_bias = _backward_public(
            d_out,
            q,
            k,
            v,
            out,
            lse,
            cu_seqlens,
            key_bias,
            cls_probs if d_cls is not None else None,
            d_lse,
            d_cls,
            ctx.scale,
            ctx.max_len,
            wants_bias,
        )
        return (
            d_q,
            None if k is None else d_k,
            None if v is None else d_v,
            None,
            d_bias if wants_bias else None,
            None,
            None,
            None,
        )


class _Once(torch.autograd.Function):
    """The backward, which refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        return _backward(*arguments)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RaggedVitError(
            Status.UNSUPPORTED, "attention has no second derivative: a gradient of its gradient is asked for"
        )


def _any_grad(*tensors: Any) -> bool:
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return torch.is_grad_enabled()
    return False


def _attention_autograd(
    qkv: Tensor, cu_seqlens: Tensor, scale: Optional[float] = None, max_len: Optional[int] = None
) -> Tensor:
    try:
        # Plain tensors without a gradient or a tracer need no second dispatch.
        found = _try(qkv, cu_seqlens, scale, max_len)
        if found is not NotImplemented:
            return found  # type: ignore[no-any-return]
        refuse_tangent("attention", qkv)
        if qkv.requires_grad and torch.is_grad_enabled():
            return _Attention.apply(qkv, None, None, cu_seqlens, None, scale, max_len, False)[0]  # type: ignore[no-any-return]
        return _attention(qkv, cu_seqlens, scale, max_len)  # type: ignore[no-any-return]
    except RuntimeError as error:
        raise failed(error) from None


def _forward_autograd(
    q: Tensor,
    k: Optional[Tensor],
    v: Optional[Tensor],
    cu_seqlens: Tensor,
    key_bias: Optional[Tensor] = None,
    scale: Optional[float] = None,
    max_len: Optional[int] = None,
    cls_probs: bool = False,
) -> Any:
    refuse_tangent("attention", q, k, v, key_bias)
    try:
        if _any_grad(q, k, v, key_bias):
            return _Attention.apply(q, k, v, cu_seqlens, key_bias, scale, max_len, cls_probs)
        return _forward(q, k, v, cu_seqlens, key_bias, scale, max_len, cls_probs)
    except RuntimeError as error:
        raise failed(error) from None


def _backward_autograd(
    d_out: Tensor,
    q: Tensor,
    k: Optional[Tensor],
    v: Optional[Tensor],
    out: Tensor,
    lse: Tensor,
    cu_seqlens: Tensor,
    key_bias: Optional[Tensor] = None,
    cls_probs: Optional[Tensor] = None,
    d_lse: Optional[Tensor] = None,
    d_cls_probs: Optional[Tensor] = None,
    scale: Optional[float] = None,
    max_len: Optional[int] = None,
    key_bias_grad: bool = False,
) -> Any:
    arguments = (
        d_out,
        q,
        k,
        v,
        out,
        lse,
        cu_seqlens,
        key_bias,
        cls_probs,
        d_lse,
        d_cls_probs,
        scale,
        max_len,
        key_bias_grad,
    )
    refuse_tangent("the gradient of attention", *arguments[:11])
    try:
        return _Once.apply(*arguments) if _any_grad(*arguments[:11]) else _backward(*arguments)
    except RuntimeError as error:
        raise failed(error) from None


for _name, _python, _shape, _autograd in (
    ("attention", _attention_python, _attention_shape, _attention_autograd),
    ("attention_forward", _forward_python, _forward_shape, _forward_autograd),
    ("attention_backward", _backward_python, _backward_shape, _backward_autograd),
):
    # inference_mode skips Autograd. The same function is its kernel too, so that errors are this package's.
    for _key in ("Autograd", "CPU", "CUDA"):
        _library.impl(_name, _autograd, _key)
    if not IN_C:
        for _key in ("CPU", "CUDA"):
            _library.impl("_" + _name, _python, _key)
    for _twin in (_name, "_" + _name):
        torch.library.register_fake("raggedvit::" + _twin, _shape, lib=_library)
