"""select on tensors, and as an operator."""

from __future__ import annotations

import functools
from typing import Any, Optional

import torch
from torch import Tensor

from .._arrays import plain
from .._arrays.arrays import is_symbol, is_torch, refuse_shared
from .._c.errors import RaggedVitError, Status, invalid
from . import eager, operators  # noqa: F401 (operators defines the namespace)
from .tracing import has_tangent, in_memory, is_direct, is_wrapped, no_modes, wants_grad

_library = torch.library.Library("raggedvit", "FRAGMENT")  # the registrations last as long as this object
_library.define(
    "select(Tensor cu_seqlens, SymInt rows, int choice, int score, SymInt max_len, int n_prefix=1, bool competes=False,"
    " float threshold=0., int k_min=0, int n_samples=1, float mass=0., Tensor? x=None, Tensor? cls_probs=None, Tensor?"
    " weight=None, Tensor? bias=None, Tensor? position_scores=None, Tensor? counts=None, Tensor? scores=None, Tensor?"
    " mask=None, Tensor(a!)? fuse_x=None) -> (Tensor cu_seqlens, Tensor src_rows, Tensor keep, Tensor scores, Tensor"
    " error)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


@functools.lru_cache(maxsize=64)
def _counts_of(device: torch.device, rule: int, keep: float, k_min: int, max_len: int) -> Tensor:
    return torch.from_numpy(plain.count_table(rule, keep, k_min, max_len)).to(device)


def counts(device: torch.device, rule: int, keep: float, k_min: int, max_len: int) -> Tensor:
    """Returns the table of rvit_count_table on the device."""
    if (
        type(max_len) is int
        and not torch.compiler.is_compiling()
        and no_modes()
        and torch._C._functorch.peek_interpreter_stack() is None
    ):
        # otherwise the table may be a fake tensor or belong to a transform, and must not be cached
        return _counts_of(device, rule, keep, k_min, max_len)
    n = torch.arange(max_len + 1, device=device)
    table = torch.ceil(keep * n.double()) if rule == plain.RULES["ceil"] else torch.trunc(n.double() * keep)
    return torch.minimum(torch.maximum(table.to(torch.int64), n.clamp(max=k_min)), n).to(torch.int32)


def select(
    cu_seqlens: Tensor,
    rows: Any,
    mode: int,
    score: int,
    max_len: Any,
    numbers: dict[str, Any],
    arrays: dict[str, Any],
    out: Optional[plain.Selection],
    stream: Optional[int],
) -> plain.Selection:
    if torch.compiler.is_compiling() or any(map(is_symbol, (cu_seqlens, *arrays.values()))):
        if out is not None or stream is not None:
            raise invalid("out or stream is given, which a compiled graph and a trace of torch.fx do not take")
        return _by_operator(cu_seqlens, rows, mode, score, max_len, numbers, arrays)
    arrays = in_memory(arrays, ("fuse_x",))
    cu_seqlens = in_memory({"cu_seqlens": cu_seqlens})["cu_seqlens"]
    if cu_seqlens.device.type not in ("cpu", "cuda", "meta"):
        raise invalid(f"cu_seqlens is on {cu_seqlens.device}; expected a CPU or a CUDA device")
    outputs = {} if out is None else {"out." + name: array for name, array in zip(out._fields, out)}
    given = {**arrays, **in_memory(outputs, outputs)}
    for name, array in given.items():
        if array is None:
            continue
        if not is_torch(array):
            raise invalid(f"{name} is a {type(array).__name__}; expected a tensor, as cu_seqlens is")
        if array.device != cu_seqlens.device:
            raise invalid(f"{name} is on {array.device}, cu_seqlens on {cu_seqlens.device}")
    _refuse_grad(**arrays)
    tensors = [cu_seqlens, *(array for array in given.values() if array is not None)]
    if is_direct(tensors):
        if cu_seqlens.device.type == "cpu":
            refuse_shared({**outputs, "fuse_x": arrays["fuse_x"]})
        return eager.select(cu_seqlens, rows, mode, score, max_len, numbers, arrays, out, stream)
    if any(map(is_wrapped, tensors)):
        raise RaggedVitError(
            Status.UNSUPPORTED,
            "select takes no tensors of a transform of torch.func's (vmap, functionalize, ...): give a whole "
            "ragged batch, outside the transform",
        )
    if out is not None or stream is not None:
        raise invalid(
            "out or stream is given, which a subclass of Tensor, a mode or a trace of PyTorch's or torch.func does not"
            " take"
        )
    return _by_operator(cu_seqlens, rows, mode, score, max_len, numbers, arrays)


def _refuse_grad(**arrays: Any) -> None:
    for name, array in arrays.items():
        if wants_grad(array) or has_tangent(array):
            kind = "requires grad" if wants_grad(array) else "has a tangent"
            raise invalid(
                f"{name} {kind}, but a selection has no gradient: give {name}.detach(), or call under torch.no_grad()"
            )


def _by_operator(
    cu_seqlens: Tensor, rows: Any, mode: int, score: int, max_len: Any, numbers: dict[str, Any], arrays: dict[str, Any]
) -> plain.Selection:
    result = torch.ops.raggedvit.select(
        cu_seqlens,
        rows,
        mode,
        score,
        max_len,
        numbers["n_prefix"],
        bool(numbers["competes"]),
        numbers["threshold"] or 0.0,
        numbers["k_min"],
        numbers["n_samples"] or 1,
        numbers["mass"] or 0.0,
        *[arrays[name] for name in plain.INPUTS],
    )
    return _finished(mode, score, arrays, result)


def _finished(mode: int, score: int, arrays: dict[str, Any], result: Any) -> plain.Selection:
    scores = None if mode == plain.MODES["MASK"] else arrays["scores"] if score == plain.SCORES["GIVEN"] else result[3]
    return plain.Selection(result[0], result[1], result[2], scores, result[4])


def _kernel(
    cu_seqlens: Tensor,
    rows: int,
    choice: int,
    score: int,
    max_len: int,
    n_prefix: int = 1,
    competes: bool = False,
    threshold: float = 0.0,
    k_min: int = 0,
    n_samples: int = 1,
    mass: float = 0.0,
    *arrays: Optional[Tensor],
) -> Any:
    numbers = {
        "n_prefix": n_prefix,
        "competes": int(competes),
        "threshold": threshold,
        "k_min": k_min,
        "n_samples": n_samples,
        "mass": mass,
    }
    named = dict(zip(plain.INPUTS, arrays + (None,) * (len(plain.INPUTS) - len(arrays))))
    found = eager.select(cu_seqlens, rows, choice, score, max_len, numbers, named)
    return (
        found.cu_seqlens,
        found.src_rows,
        found.keep,
        _own_scores(cu_seqlens, found.scores, choice, score),
        found.error,
    )


def _own_scores(cu_seqlens: Tensor, scores: Optional[Tensor], mode: int, score: int) -> Tensor:
    """Returns the scores, or an empty tensor if they are an argument, which an operator must not return."""
    if scores is None or score == plain.SCORES["GIVEN"]:
        return cu_seqlens.new_empty(0, dtype=torch.float32)
    return scores


def _shape(
    cu_seqlens: Tensor,
    rows: int,
    choice: int,
    score: int,
    max_len: int,
    n_prefix: int = 1,
    competes: bool = False,
    threshold: float = 0.0,
    k_min: int = 0,
    n_samples: int = 1,
    mass: float = 0.0,
    *arrays: Optional[Tensor],
) -> Any:
    has_scores = choice != plain.MODES["MASK"] and score != plain.SCORES["GIVEN"]
    return (
        torch.empty_like(cu_seqlens),
        cu_seqlens.new_empty(rows),
        cu_seqlens.new_empty(rows, dtype=torch.bool),
        cu_seqlens.new_empty(rows if has_scores else 0, dtype=torch.float32),
        cu_seqlens.new_empty(1),
    )


def _autograd(*arguments: Any, **named: Any) -> Any:
    _refuse_grad(
        **dict(zip(plain.INPUTS, arguments[11:])),
        **{name: value for name, value in named.items() if name in plain.INPUTS},
    )
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.raggedvit.select(*arguments, **named)


_library.impl("select", _autograd, "Autograd")
for _key in ("CPU", "CUDA"):
    _library.impl("select", _kernel, _key)
torch.library.register_fake("raggedvit::select", _shape, lib=_library)
