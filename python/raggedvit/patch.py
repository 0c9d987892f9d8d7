"""Prunes modules of timm and Hugging Face in place, in the manner of ToMe's patch.

    raggedvit.patch.timm(model, policy="evit", keep=0.7)       # a VisionTransformer or VisionTransformerDistilled
    raggedvit.patch.hf(model, policy="evit", keep=0.7)         # a ViTForImageClassification or DeiTForImageClassification(WithTeacher)
    raggedvit.patch.undo(model)

In eval mode without gradients a call runs one recorded forward of the library, on the module's device: for CUDA tensors on PyTorch's
current stream, without waiting. Otherwise (training, or gradients enabled) the same pruning runs in PyTorch, with autograd and the module's
dropout. The module keeps its parameters, its state_dict and its type in isinstance.

The recorded forward has a copy of the weights. It is refreshed at the next call after load_state_dict, .to(), .half() and the like, an
assignment to the module, training mode, and a call with gradients enabled. On the CPU any other change in place is seen too; on CUDA it is
not: call refresh(model) after one. Threads may call a patched module while nobody changes it.

Refused with a RaggedVitError: modules that the library does not compute exactly, modules that are more than a plain Vision Transformer
(their pruned training is not written: Model.from_module runs them in eval mode), forward hooks inside the module, methods that a patched
module does not prune (forward_features and the like), nn.DataParallel. torch.compile breaks the graph at a patched module. Copies (deepcopy,
pickle) record forwards of their own.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import _modules
from ._errors import RaggedVitError, Status, invalid
from ._forward import Forward
from ._sessions import Prune

if TYPE_CHECKING:
    import torch

    from ._model import Model

_classes: dict[Any, Any] = {}
_NAMES = {f"Ragged{name}": (home, name) for name, home in _modules.TIMM.items()}
_NAMES.update({f"Ragged{name}": (f"transformers.models.{kind}.modeling_{kind}", name) for name, kind in _modules.HF.items()})
# What would run without pruning, or by other means than forward.
_UNPRUNED = ("forward_features", "forward_intermediates", "get_intermediate_layers")


def timm(model: torch.nn.Module, policy: str = "evit", keep: float | None = None, blocks: Sequence[int] | None = None, *,
         threshold: float | None = None, mass: float | None = None, n_samples: int | None = None, merges: int | None = None,
         seed: int | None = None, dtype: str | None = None, max_batch: int | None = None, n_threads: int = 0) -> torch.nn.Module:
    """Patches a model of timm in place, and returns it. policy, keep, blocks ...: as Model.classify documents them, but for "mask". dtype:
    of the recorded forward, "f32", "f16" or "bf16"; None: as Model.from_module chooses. max_batch: as Model documents it. A patched model
    may be patched again, with another policy."""
    prune = Prune.of(policy, keep, blocks, threshold, mass, n_samples, merges, seed)
    _patch(model, "timm", State(prune, dtype, max_batch, n_threads))
    return model


def hf(model: torch.nn.Module, policy: str = "evit", keep: float | None = None, blocks: Sequence[int] | None = None, *,
       threshold: float | None = None, mass: float | None = None, n_samples: int | None = None, merges: int | None = None,
       seed: int | None = None, dtype: str | None = None, max_batch: int | None = None, n_threads: int = 0) -> torch.nn.Module:
    """Patches a classifier of Hugging Face; the rest as timm. Its output has logits, and a loss if labels are given; of a model with a
    teacher the two heads' own logits only where gradients are enabled."""
    prune = Prune.of(policy, keep, blocks, threshold, mass, n_samples, merges, seed)
    _patch(model, "hf", State(prune, dtype, max_batch, n_threads))
    return model


def undo(model: torch.nn.Module) -> torch.nn.Module:
    """Gives a patched model its own forward back, and frees what was recorded."""
    _state(model)
    model.__class__ = _modules.original_class(model)
    del model.__dict__["_raggedvit"]
    return model


def refresh(model: torch.nn.Module) -> None:
    """Makes the next call take the weights as they are then."""
    _state(model).dirty = True


def _state(model: Any) -> State:
    state = getattr(model, "_raggedvit", None)
    if not isinstance(state, State):
        raise invalid(f"model is a {type(model).__name__} that is not patched")
    return state


def _patch(model: Any, kind: str, state: State) -> None:
    from . import _pruned

    found = _modules.kind_of(model)
    if found != kind:
        raise invalid(f"model is a {type(model).__name__}; use raggedvit.patch.{found}")
    state.build(model)  # before anything is changed
    _pruned.check(state.prune)
    if "_raggedvit_original" not in vars(type(model)):
        model.__class__ = _class_of(type(model))
    model.__dict__["_raggedvit"] = state


class State:
    """What a patched module has besides its own: the policy, and the recorded forward, which a copy makes anew."""

    def __init__(self, prune: Prune, dtype: str | None, max_batch: int | None, n_threads: int) -> None:
        self.settings = (prune, dtype, max_batch, n_threads)
        self.prune = prune
        self.lock = threading.RLock()
        self.dirty = True
        self.quick = False  # on CUDA, and the logits are of the module's type as they come
        self.model: Model | None = None
        self.forward: Forward | None = None
        self.place: Any = None  # of the weights that the model was made of, and what tells them from others
        self.seen: list[tuple[int, int]] = []
        self.parameters: list[Any] = []
        self.hooks = -1

    def __getstate__(self) -> Any:
        return self.settings

    def __setstate__(self, settings: Any) -> None:
        State.__init__(self, *settings)

    def __deepcopy__(self, memo: Any) -> State:
        return State(*self.settings)

    def prints(self) -> list[tuple[int, int]]:
        return [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in self.parameters]

    def build(self, module: Any) -> None:
        """The recorded forward for the module as it is; the one there is, with its weights, where that can be."""
        from ._model import Model

        with self.lock:
            torch = sys.modules["torch"]
            facts = _modules.read(module, inside_only=True)
            _modules.refuse_odd(facts)
            prune, dtype, max_batch, n_threads = self.settings
            place = (_modules.place_of(module), dtype or _modules.storage_of(module))
            self.hooks = _hook_count(torch)
            self.parameters = [*module.parameters(), *module.buffers()]
            seen = self.prints()
            if self.model is None or self.place != place or not self._updated(module, facts):
                model = Model.from_module(module, dtype=place[1], max_batch=max_batch, n_threads=n_threads, _inside_only=True)
                forward = Forward(model, prune)
                model._check_prune(prune)
                self.model, self.forward, self.place = model, forward, place
            self.seen, self.dirty = seen, False
            first = self.parameters[0]
            self.quick = first.is_cuda and first.dtype is torch.float32

    def _updated(self, module: Any, facts: Any) -> bool:
        assert self.model is not None
        try:
            self.model._update(_modules.checkpoint(self.model._lib, module, facts))
        except RaggedVitError as error:
            if error.status != Status.INVALID_ARGUMENT:
                raise
            return False  # of another geometry
        return True

    def current(self, module: Any, images: Any) -> Forward:
        """The recorded forward, with the module's weights."""
        torch = sys.modules["torch"]
        if self.dirty or (not images.is_cuda and self.prints() != self.seen):
            self.build(module)
        elif self.hooks != _hook_count(torch):
            count = _hook_count(torch)
            _modules.refuse_hooks(module, inside_only=True)
            self.hooks = count
        assert self.forward is not None
        return self.forward


def _hook_count(torch: Any) -> int:
    """A number that grows when a hook is registered on any module."""
    return int(torch.utils.hooks.RemovableHandle.next_id)


def _logits(module: Any, state: State, images: Any) -> Any:
    """A module's logits by its recorded forward."""
    torch = sys.modules["torch"]
    if not isinstance(images, torch.Tensor):
        raise invalid(f"images are a {type(images).__name__}; expected a tensor on the module's device")
    forward, own = state.current(module, images), state.parameters[0]
    if images.device != own.device:
        raise invalid(f"images are on {images.device}, the module on {own.device}; move one of them")
    logits = forward(images)
    return logits if logits.dtype is own.dtype else logits.to(own.dtype)


def _runs_recorded(module: Any, images: Any) -> bool:
    if module.training or sys.modules["torch"].is_grad_enabled():
        module._raggedvit.dirty = True  # weights are about to change, for all that is known
        return False
    return True


def _timm(self: Any, x: Any, attn_mask: Any = None, is_causal: bool = False) -> Any:
    if attn_mask is not None or is_causal:
        raise _modules.unsupported("attn_mask or is_causal is given; a patched model has no attention mask")
    if _runs_recorded(self, x):
        return _logits(self, self._raggedvit, x)
    return _in_torch(self, x)


def _in_torch(self: Any, images: Any) -> Any:
    from . import _pruned

    return _pruned.forward(self, _modules.original_class(self), images, self._raggedvit.prune)


def _hf(self: Any, pixel_values: Any = None, labels: Any = None, interpolate_pos_encoding: Any = None, attention_mask: Any = None,
                output_attentions: Any = None, output_hidden_states: Any = None, return_dict: Any = None, **more: Any) -> Any:
    from transformers.modeling_outputs import ImageClassifierOutput

    for name, value in (("interpolate_pos_encoding", interpolate_pos_encoding), ("output_attentions", output_attentions),
                        ("output_hidden_states", output_hidden_states)):
        if value or (value is None and name in ("output_attentions", "output_hidden_states") and getattr(self.config, name, False)):
            raise _modules.unsupported(f"{name} is set, which a patched model does not give")
    if attention_mask is not None:
        raise _modules.unsupported("attention_mask is given; a patched model has no attention mask")
    if pixel_values is None:
        raise invalid("pixel_values is None; expected images")
    teacher = hasattr(self, "cls_classifier")
    own: tuple[Any, Any] = (None, None)
    if _runs_recorded(self, pixel_values):
        logits = _logits(self, self._raggedvit, pixel_values)
    else:
        logits, *own = _in_torch(self, pixel_values.to(next(self.parameters()).dtype))
    loss = None if labels is None else self.loss_function(labels, logits, self.config, **more)
    if teacher:
        if labels is not None:
            raise invalid("labels are given; a model with a teacher has no loss of its own")
        output_class = sys.modules[_modules.original_class(self).__module__].DeiTForImageClassificationWithTeacherOutput
        output = output_class(logits=logits, cls_logits=own[0], distillation_logits=own[1])
    else:
        output = ImageClassifierOutput(loss=loss, logits=logits)
    as_dict = getattr(self.config, "return_dict", True) if return_dict is None else return_dict
    return output if as_dict else output.to_tuple()


def _forward_of(kind: str) -> Callable[..., Any]:
    """The forward of patched modules. torch.compile does not look into it; the first lines are for what is hot: a module of timm on CUDA."""
    import torch

    general = _timm if kind == "timm" else _hf
    compiler: Any = torch.compiler
    outside = compiler.disable(general)
    compiling, grad_enabled = compiler.is_compiling, torch.is_grad_enabled
    tensor, handles = torch.Tensor, torch.utils.hooks.RemovableHandle

    def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        return (outside if compiling() else general)(self, *arguments, **named)

    def timm_forward(self: Any, x: Any, attn_mask: Any = None, is_causal: bool = False) -> Any:
        if compiling():
            return outside(self, x, attn_mask, is_causal)
        state = self._raggedvit
        if (state.quick and type(x) is tensor and x.is_cuda and attn_mask is None and not is_causal and not self.training
                and not grad_enabled() and not state.dirty and state.hooks == handles.next_id):
            return state.forward(x)
        return general(self, x, attn_mask, is_causal)

    return timm_forward if kind == "timm" else forward


def _marking(name: str) -> Callable[..., Any]:
    """A method that also says that the weights may have changed."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return getattr(_modules.original_class(self), name)(self, *arguments, **named)
        finally:
            self._raggedvit.dirty = True

    return method


def _set(self: Any, name: str, value: Any) -> None:
    _modules.original_class(self).__setattr__(self, name, value)
    if isinstance(value, (sys.modules["torch"].nn.Module, sys.modules["torch"].Tensor)) and "_raggedvit" in self.__dict__:
        self._raggedvit.dirty = True


def _train(self: Any, mode: bool = True) -> Any:
    if mode:
        self._raggedvit.dirty = True
    return _modules.original_class(self).train(self, mode)


def _replicate(self: Any) -> Any:
    raise _modules.unsupported("nn.DataParallel cannot replicate a patched model; use one process a device, or one patched copy a device")


def _unpruned(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        raise _modules.unsupported(f"{name} of a patched model would not prune; call the model, or undo the patch (raggedvit.patch.undo)")

    return method


def _class_of(original: Any) -> Any:
    """The class of patched modules: the same but for forward. Its name is the original's, for those who look at that; pickle finds it here
    by its qualified name."""
    if original not in _classes:
        kind = "timm" if original.__module__.startswith("timm.") else "hf"
        methods: dict[str, Any] = {name: _unpruned(name) for name in _UNPRUNED if hasattr(original, name)}
        methods.update({name: _marking(name) for name in ("_apply", "_load_from_state_dict")})
        methods.update(forward=_forward_of(kind), train=_train, __setattr__=_set, _replicate_for_data_parallel=_replicate,
                       __module__=__name__, __qualname__=f"Ragged{original.__name__}", __doc__=original.__doc__,
                       _raggedvit_original=original)
        _classes[original] = type(original.__name__, (original,), methods)
    return _classes[original]


def __getattr__(name: str) -> Any:
    """The classes of patched modules, for pickle."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    home, original = _NAMES[name]
    return _class_of(getattr(importlib.import_module(home), original))
