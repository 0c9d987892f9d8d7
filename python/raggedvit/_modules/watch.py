"""Saves the state of a module when its forward is recorded; each call of a patched module compares with it.

The comparison takes a few nanoseconds per value (core/watch.c)."""

from __future__ import annotations

import sys
from typing import Any, Iterable

import torch

from .._arrays.core_loader import ready
from .._torch.eager import READS_TENSORS
from .reader import original_class
from .shipped import functions_of

# The core's data for the comparison (tensor properties if the core cannot read tensors), and the tuples that own it.
Watch = tuple[Any, tuple[tuple[Any, ...], ...]]


def of_structure(module: Any) -> Watch:
    """Saves the parts, parameters, settings, hooks and classes of a module, at any depth, and the functions that these
    run.

    Hooks of the module itself are left out, because they still run. The module and its patch are not kept alive.
    """
    items: list[Any] = []
    kinds: list[Any] = []
    attributes: list[Any] = []
    watched: set[int] = set()

    def add(values: dict[str, Any], held: bool = True) -> None:
        if id(values) not in watched:
            watched.add(id(values))
            items.append(values if held else None)
            for key, value in values.items():
                items.extend((key, ... if key == "_raggedvit" else value))
            items.append(None)

    everywhere = torch.nn.modules.module
    add(everywhere._global_forward_hooks)
    add(everywhere._global_forward_pre_hooks)
    inner = [part for part in module.modules() if part is not module]
    parts = [module, *inner]
    add(vars(module), held=False)
    for part in inner:
        add(vars(part))
        kinds.extend((part, type(part)))
    # Grouped by kind: branch prediction then knows the number of entries, which halves the time.
    for name, those in (
        ("_parameters", parts),
        ("_buffers", parts),
        ("_modules", parts),
        ("_forward_hooks", inner),
        ("_forward_pre_hooks", inner),
    ):
        for part in those:
            add(vars(part)[name])
    functions = {}
    for part in parts:
        cls = original_class(part)
        if "config" in vars(part):  # of transformers
            add(vars(part.config))
        attentions = getattr(sys.modules[cls.__module__], "ALL_ATTENTION_FUNCTIONS", None)
        if attentions is not None:
            add(attentions._local_mapping)
            add(type(attentions)._global_mapping)
        functions.update(functions_of(cls))
    for function in functions.values():
        attributes.extend((function.owner, function.name, function.value))
    held = tuple(items), tuple(kinds), tuple(attributes), ()
    return ready().watch(*held), held


def of_weights(tensors: Iterable[Any]) -> Watch:
    """Saves the memory of tensors, their layout, and PyTorch's count of in-place changes.

    The memory is kept alive, because other weights could get the same address once it is freed.
    """
    tensors = tuple(tensors)
    held = (), (), (), tensors, tuple(tensor.detach() for tensor in tensors)
    return ready().watch(*held[:4]) if READS_TENSORS else _facts(tensors), held


def same_structure(watch: Watch, module: Any) -> bool:
    return bool(unchanged(watch, vars(module)))


def same_weights(watch: Watch) -> bool:
    return bool(unchanged(watch, {})) if READS_TENSORS else watch[0] == _facts(watch[1][3])


def _facts(tensors: tuple[Any, ...]) -> list[Any]:
    return [
        (t.data_ptr(), -1 if t.is_inference() else t._version, t.shape, t.stride(), t.dtype, t.device) for t in tensors
    ]


unchanged: Any = ready().unchanged
