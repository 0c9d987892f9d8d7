"""Patches modules of timm and Hugging Face in place so that they prune tokens.

    raggedvit.patch.timm(model, Policy("evit", keep=0.7))  # a VisionTransformer or VisionTransformerDistilled
    raggedvit.patch.hf(model, "evit")  # a ViTForImageClassification or DeiTForImageClassification(WithTeacher)
    raggedvit.patch.undo(model)

In eval mode without gradients a call runs one recorded forward of the library, on the module's device: for CUDA
tensors on PyTorch's current stream, without waiting. Otherwise the same pruning runs in PyTorch, with autograd and the
module's dropout: in training (also if only one part with dropout is in training mode), where gradients are enabled, and
where PyTorch must see the operators (FlopCounterMode and other modes, torch.export, torch.jit.trace, torch.func). The
module keeps its parameters, its state_dict and its type (isinstance).

The recorded forward has a copy of the weights. Each call compares the whole module with its state at the recording:
parts, parameters, settings, hooks, classes and the functions that they run, and for each weight its memory and
PyTorch's count of in-place changes. A change is adopted, or refused if the library does not compute it. Values written
without PyTorch's knowledge (through .data, detach().numpy() or a pointer, or into tensors created in inference mode)
cannot be detected. Call refresh(model) after such a change; training mode and a call with gradients enabled do so too.
The old weights are kept until the next call. Threads may call a patched module while no thread changes it.

These are refused with a RaggedVitError: modules that the library does not compute exactly, modules that are more than a
plain Vision Transformer (their pruned training is not implemented; Model.from_module runs them in eval mode), modules
without a head, forward hooks inside the module, replaced forwards and functions of PyTorch, methods that a patched
module does not prune (forward_features and the like), torch.fx, nn.DataParallel. Where the pruning runs in PyTorch, all
parts except the blocks and their attention may be of any kind, for example an adapter. torch.compile breaks the graph
at a patched module. Copies (deepcopy, pickle) record their own forwards.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Callable

from ._c.errors import RaggedVitError, Status, invalid
from ._c.process import renews
from ._modules import modules, reader
from ._session.policy import Policy
from ._session.prepared import Prepared

if TYPE_CHECKING:
    import torch

    from .model import Model

_classes: dict[Any, Any] = {}
_NAMES = {f"Ragged{name}": (home, name) for name, home in reader.TIMM.items()}
_NAMES.update(
    {f"Ragged{name}": (f"transformers.models.{kind}.modeling_{kind}", name) for name, kind in reader.HF.items()}
)
# Methods that would not prune because they do not call forward.
_UNPRUNED = ("forward_features", "forward_intermediates", "get_intermediate_layers")


def timm(
    model: torch.nn.Module,
    policy: str | Policy = "evit",
    *,
    dtype: str | None = None,
    max_batch: int | None = None,
    n_threads: int = 0,
) -> torch.nn.Module:
    """Patches a timm model in place. A patched model may be patched again, with another policy.

    Args:
        model: A VisionTransformer or VisionTransformerDistilled.
        policy: As for Model.classify, but not "mask".
        dtype: Type of the recorded forward: "f32", "f16" or "bf16", or a torch.dtype; None: as for Model.from_module.
        max_batch: As for Model.
        n_threads: As for Model.

    Returns:
        The same model.

    Raises:
        RaggedVitError: UNSUPPORTED names the part, or the policy, that is not supported.
    """
    _patch(model, "timm", State(Policy.of(policy), dtype, max_batch, n_threads))
    return model


def hf(
    model: torch.nn.Module,
    policy: str | Policy = "evit",
    *,
    dtype: str | None = None,
    max_batch: int | None = None,
    n_threads: int = 0,
) -> torch.nn.Module:
    """Patches a classifier of Hugging Face in place.

    Its output has logits, and a loss if there are labels. A model with a teacher returns the logits of its two heads
    only if gradients are enabled.

    Args:
        model: A ViTForImageClassification or DeiTForImageClassification(WithTeacher).
        policy, dtype, max_batch, n_threads: As for timm.

    Returns:
        The same model.

    Raises:
        RaggedVitError: As timm.
    """
    _patch(model, "hf", State(Policy.of(policy), dtype, max_batch, n_threads))
    return model


def undo(model: torch.nn.Module) -> torch.nn.Module:
    """Removes the patch of a model, and frees its recorded forward. Returns the same model."""
    _state(model)
    model.__class__ = reader.original_class(model)
    del model.__dict__["_raggedvit"]
    return model


def refresh(model: torch.nn.Module) -> None:
    """Makes the next call read the weights again. Needed after writes that PyTorch does not see (.data, numpy)."""
    _state(model).dirty = True


def _state(model: Any) -> State:
    state = getattr(model, "_raggedvit", None)
    if not isinstance(state, State):
        raise invalid(f"model is a {type(model).__name__} that is not patched")
    return state


def _patch(model: Any, kind: str, state: State) -> None:
    found = reader.kind_of(model)
    from ._modules import pruned, watch

    if found != kind:
        raise invalid(f"model is a {type(model).__name__}; use raggedvit.patch.{found}")
    state.build(model)  # before anything is changed
    pruned.check(state.policy)
    if "_raggedvit_original" not in vars(type(model)):
        model.__class__ = _class_of(type(model))
    model.__dict__["_raggedvit"] = state
    state.structure = watch.of_structure(model)  # again, because it now includes the patch


class State:
    """The patch of a module: the policy and the recorded forward. Copies have the same settings."""

    def __init__(self, policy: Policy, dtype: str | None, max_batch: int | None, n_threads: int) -> None:
        self.settings = (policy, dtype, max_batch, n_threads)
        self.policy = policy
        self.lock = threading.RLock()
        self.dirty = True
        self.quick = False  # on CUDA, and the logits need no conversion to the module's type
        self.drops = False  # a part with dropout is in training mode, though the module is not
        self.model: Model | None = None
        self.forward: Prepared | None = None
        self.home: Any = None  # device and type of the weights that the model was created from
        self.facts: Any = None
        self.names: list[str] = []
        self.structure: Any = None  # the module's state when the forward was recorded: see _modules/watch.py
        self.weights: Any = None
        self.in_torch: Any = None  # the structure that was last checked for running in PyTorch
        self.own: Any = None  # the first weight
        renews(self)

    def _forked(self) -> None:
        self.lock = threading.RLock()

    def __getstate__(self) -> Any:
        return self.settings

    def __setstate__(self, settings: Any) -> None:
        State.__init__(self, *settings)

    def __deepcopy__(self, memo: Any) -> State:
        return State(*self.settings)

    def build(self, module: Any) -> None:
        """Records a forward for the module as it is now, or updates the weights of the existing one if possible."""
        from ._modules import watch
        from .model import Model

        with self.lock:
            facts = modules.read(module, inside_only=True)
            modules.refuse_odd(facts)
            policy, dtype, max_batch, n_threads = self.settings
            home = (modules.device_of(module), dtype or modules.storage_of(module))
            found = modules.weights(module)
            names, tensors = list(found), tuple(found.values())
            structure, weights = watch.of_structure(module), watch.of_weights(tensors)
            known = (
                not self.dirty
                and self.model is not None
                and (self.home, self.facts, self.names) == (home, facts, names)
                and all(one is other for one, other in zip(tensors, self.weights[1][3]))
                and watch.same_weights(self.weights)
            )
            if not known and (self.model is None or self.home != home or not self._updated(module, facts)):
                model = Model.from_module(
                    module, dtype=home[1], max_batch=max_batch, n_threads=n_threads, _inside_only=True
                )
                forward = Prepared(model, policy)
                model._check_policy(policy)
                self.model, self.forward, self.home = model, forward, home
            self.facts, self.names, self.own, self.drops = facts, names, tensors[0], modules.drops(module)
            self.structure, self.weights, self.dirty = structure, weights, False
            self.quick = self.own.is_cuda and self.own.dtype is sys.modules["torch"].float32 and not self.drops

    def _updated(self, module: Any, facts: Any) -> bool:
        assert self.model is not None
        try:
            self.model._update(modules.checkpoint(self.model._lib, module, facts))
        except RaggedVitError as error:
            if error.status != Status.INVALID_ARGUMENT:
                raise
            return False  # of another geometry
        return True

    def renew(self, module: Any) -> None:
        """Rebuilds the recorded forward if the module has changed."""
        from ._modules import watch

        if self.dirty or not (watch.same_structure(self.structure, module) and watch.same_weights(self.weights)):
            self.build(module)

    def check_in_torch(self, module: Any) -> None:
        """Refuses a module that the pruned forward in PyTorch does not support."""
        from ._modules import pruned, watch

        if self.in_torch is None or not watch.same_structure(self.in_torch, module):
            structure = watch.of_structure(module)
            pruned.check_module(module)
            self.in_torch = structure


def _recorded(module: Any, images: Any) -> Any:
    """Returns a module's logits from its recorded forward."""
    state = module._raggedvit
    forward, own = state.forward, state.own
    if images.device != own.device:
        raise invalid(f"images are on {images.device}, the module on {own.device}; move one of them")
    logits = forward(images)
    return logits if logits.dtype is own.dtype else logits.to(own.dtype)


def _runs_recorded(module: Any, images: Any) -> bool:
    """Updates the recorded forward and returns whether the call can use it; else checks the module for PyTorch."""
    state = module._raggedvit
    if module.training or sys.modules["torch"].is_grad_enabled():
        state.dirty = True  # the weights may change
    elif not _looked_at(images):
        state.renew(module)
        if not state.drops:
            return True
    state.check_in_torch(module)
    return False


def _looked_at(images: Any) -> bool:
    """Whether PyTorch must see the operators of a call: under modes, torch.export, torch.jit.trace and torch.func."""
    import torch

    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._is_tracing()
        or torch.autograd.forward_ad._current_level >= 0
        or type(images).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    )


def _expect_tensor(images: Any) -> None:
    torch = sys.modules["torch"]
    if isinstance(images, torch.Tensor):
        return
    if type(images).__module__.startswith("torch.fx."):
        raise reader.unsupported(
            "images are a torch.fx.Proxy: torch.fx (create_feature_extractor) cannot trace a patched module. Trace "
            "the module before it is patched; raggedvit.Model.from_module gives the pruned rows after a block "
            "(classify, block_features)"
        )
    raise invalid(f"images are a {type(images).__name__}; expected a tensor on the module's device")


def _timm(self: Any, x: Any, attn_mask: Any = None, is_causal: bool = False) -> Any:
    _expect_tensor(x)
    if attn_mask is not None or is_causal:
        raise reader.unsupported("attn_mask or is_causal is given; a patched model has no attention mask")
    return _recorded(self, x) if _runs_recorded(self, x) else _in_torch(self, x)


def _in_torch(self: Any, images: Any) -> Any:
    from ._modules import pruned

    return pruned.forward(self, images, self._raggedvit.policy)


def _hf(
    self: Any,
    pixel_values: Any = None,
    labels: Any = None,
    interpolate_pos_encoding: Any = None,
    attention_mask: Any = None,
    output_attentions: Any = None,
    output_hidden_states: Any = None,
    return_dict: Any = None,
    **more: Any,
) -> Any:
    from transformers.modeling_outputs import ImageClassifierOutput

    if pixel_values is None:
        raise invalid("pixel_values is None; expected images")
    _expect_tensor(pixel_values)
    for name, value in (
        ("interpolate_pos_encoding", interpolate_pos_encoding),
        ("output_attentions", output_attentions),
        ("output_hidden_states", output_hidden_states),
    ):
        if value or (
            value is None
            and name in ("output_attentions", "output_hidden_states")
            and getattr(self.config, name, False)
        ):
            raise reader.unsupported(f"{name} is set, which a patched model does not give")
    if attention_mask is not None:
        raise reader.unsupported("attention_mask is given; a patched model has no attention mask")
    teacher = hasattr(self, "cls_classifier")
    own: tuple[Any, Any] = (None, None)
    if _runs_recorded(self, pixel_values):
        logits = _recorded(self, pixel_values)
    else:
        logits, *own = _in_torch(self, pixel_values.to(next(self.parameters()).dtype))
    loss = None if labels is None else self.loss_function(labels, logits, self.config, **more)
    if teacher:
        if labels is not None:
            raise invalid("labels are given; a model with a teacher has no loss of its own")
        output_class = sys.modules[reader.original_class(self).__module__].DeiTForImageClassificationWithTeacherOutput
        output = output_class(logits=logits, cls_logits=own[0], distillation_logits=own[1])
    else:
        output = ImageClassifierOutput(loss=loss, logits=logits)
    as_dict = getattr(self.config, "return_dict", True) if return_dict is None else return_dict
    return output if as_dict else output.to_tuple()


def _forward_of(kind: str) -> Callable[..., Any]:
    """Returns the forward of patched modules, which torch.compile does not trace."""
    import torch

    from ._modules.watch import same_structure, same_weights

    general = _timm if kind == "timm" else _hf
    compiler: Any = torch.compiler
    outside = compiler.disable(general)
    compiling, grad_enabled, tensor = compiler.is_compiling, torch.is_grad_enabled, torch.Tensor

    def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        return (outside if compiling() else general)(self, *arguments, **named)

    def timm_forward(self: Any, x: Any, attn_mask: Any = None, is_causal: bool = False) -> Any:
        if compiling():
            return outside(self, x, attn_mask, is_causal)
        state = self._raggedvit
        if (
            state.quick
            and type(x) is tensor
            and x.is_cuda
            and attn_mask is None
            and not is_causal
            and not self.training
            and not grad_enabled()
            and not state.dirty
            and not _looked_at(x)
            and same_structure(state.structure, self)
            and same_weights(state.weights)
        ):
            return state.forward(x)
        return general(self, x, attn_mask, is_causal)

    return timm_forward if kind == "timm" else forward


def _train(self: Any, mode: bool = True) -> Any:
    if mode:
        self._raggedvit.dirty = True
    return reader.original_class(self).train(self, mode)


def _replicate(self: Any) -> Any:
    raise reader.unsupported(
        "nn.DataParallel cannot replicate a patched model; use one process a device, or one patched copy a device"
    )


def _unpruned(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        raise reader.unsupported(
            f"{name} of a patched model would not prune; call the model, or undo the patch (raggedvit.patch.undo)"
        )

    return method


def _class_of(original: Any) -> Any:
    """Returns the class of patched modules, which has another forward and the name of the original.

    pickle finds it in this module by its qualified name.
    """
    if original not in _classes:
        kind = "timm" if original.__module__.startswith("timm.") else "hf"
        methods: dict[str, Any] = {name: _unpruned(name) for name in _UNPRUNED if hasattr(original, name)}
        methods.update(
            forward=_forward_of(kind),
            train=_train,
            _replicate_for_data_parallel=_replicate,
            __module__=__name__,
            __qualname__=f"Ragged{original.__name__}",
            __doc__=original.__doc__,
            _raggedvit_original=original,
        )
        _classes[original] = type(original.__name__, (original,), methods)
    return _classes[original]


def __getattr__(name: str) -> Any:
    """Provides the classes of patched modules to pickle."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    home, original = _NAMES[name]
    return _class_of(getattr(importlib.import_module(home), original))
