"""What a forward was made of, and whether it is still as it was: each call of a patched module compares, a few nanoseconds a value
(core/watch.c)."""

from __future__ import annotations

import sys
from typing import Any, Iterable

import torch

from .._arrays.core_loader import ready
from .reader import original_class
from .shipped import functions_of
from .._torch.eager import READS_TENSORS

# What the core compares with (without a core that reads tensors: their facts), and the tuples that hold it.
Watch = tuple[Any, tuple[tuple[Any, ...], ...]]


def of_structure(module: Any) -> Watch:
    """Which parts, parameters, settings and hooks a module has, at any depth, of which classes, and the functions that these run. Hooks of
    the module itself are left out: they run all the same. The module itself is not held, nor its patch."""
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
    # All of one kind after another: a processor predicts how many entries the next one has, and half of the time goes.
    for name, those in (("_parameters", parts), ("_buffers", parts), ("_modules", parts), ("_forward_hooks", inner), ("_forward_pre_hooks", inner)):
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
    """Which memory tensors have, how it is read, and PyTorch's count of changes in place. The memory is held: freed, its address could come
    back with other weights."""
    tensors = tuple(tensors)
    held = (), (), (), tensors, tuple(tensor.detach() for tensor in tensors)
    return ready().watch(*held[:4]) if READS_TENSORS else _facts(tensors), held


def same_structure(watch: Watch, module: Any) -> bool:
    return bool(unchanged(watch, vars(module)))


def same_weights(watch: Watch) -> bool:
    return bool(unchanged(watch, {})) if READS_TENSORS else watch[0] == _facts(watch[1][3])


def _facts(tensors: tuple[Any, ...]) -> list[Any]:
    return [(t.data_ptr(), -1 if t.is_inference() else t._version, t.shape, t.stride(), t.dtype, t.device) for t in tensors]


unchanged: Any = ready().unchanged
