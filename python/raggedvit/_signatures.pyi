"""What type checkers know of the functions that the compiled core holds. _attention.py and _rows.py document them."""

from typing import Any, Literal, overload

from ._typing import Array, ArrayT

@overload
def attention(qkv: ArrayT, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: ArrayT | None = None, *,
              stream: int | None = None, k: ArrayT | None = None, v: ArrayT | None = None, key_bias: Array | None = None,
              lse: Literal[False] = False, cls_probs: Literal[False] = False) -> ArrayT: ...
@overload
def attention(qkv: ArrayT, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: ArrayT | None = None, *,
              stream: int | None = None, k: ArrayT | None = None, v: ArrayT | None = None, key_bias: Array | None = None,
              lse: Literal[True] | Array, cls_probs: bool | Array = False) -> tuple[ArrayT, Any, Any]: ...
@overload
def attention(qkv: ArrayT, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: ArrayT | None = None, *,
              stream: int | None = None, k: ArrayT | None = None, v: ArrayT | None = None, key_bias: Array | None = None,
              lse: bool | Array = False, cls_probs: Literal[True] | Array) -> tuple[ArrayT, Any, Any]: ...

def pack(x: ArrayT, src_rows: Any, cu_seqlens: Any = None, out: ArrayT | None = None, *, stream: int | None = None) -> ArrayT: ...
def unpack(x: ArrayT, src_rows: Any, cu_seqlens: Any = None, rows: int | None = None, fill: float = 0.0, base: ArrayT | None = None,
           out: ArrayT | None = None, *, stream: int | None = None) -> ArrayT: ...
def gather(x: ArrayT, src_rows: Any, cu_seqlens: Any = None, out: ArrayT | None = None, *, stream: int | None = None) -> ArrayT: ...
