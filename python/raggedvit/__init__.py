"""Token-pruned Vision Transformers on ragged batches: a thin layer over the C library raggedvit.

    model = raggedvit.Model("deit_tiny.safetensors")
    logits = model(images)  # float32 [B, 3, H, W], normalised; or files and uint8 arrays
    result = model.classify(images, raggedvit.Policy("l2", keep=0.5))

Every failure of the library raises RaggedVitError with a message and a status. The library is opened on first use: the
file that the environment variable RAGGEDVIT_LIBRARY names, else the one inside this package, else the system's
libraggedvit.so.0.4. A forked child may use it too, with its own models or with its parent's CPU models.
"""

from . import images, patch
from ._arrays import core_loader
from ._arrays.plain import Selection
from ._c.constants import CONSTANTS as _CONSTANTS
from ._c.errors import RaggedVitError, Status
from ._c.info import DeviceInfo, ModelInfo, PolicyInfo, devices, policies
from ._c.library import library
from ._modules.save import save
from ._session.patches import VariableResolution
from ._session.policy import Policy
from ._session.prepared import Prepared
from ._session.result import Result
from ._session.slots import InputSlot, double_buffer
from ._torch import compile as compile_hook
from .model import Model
from .ops import attention, gather, pack, select, unpack

__all__ = [
    "DeviceInfo",
    "InputSlot",
    "Model",
    "ModelInfo",
    "Policy",
    "PolicyInfo",
    "Prepared",
    "RaggedVitError",
    "Result",
    "Selection",
    "Status",
    "VariableResolution",
    "attention",
    "devices",
    "double_buffer",
    "gather",
    "images",
    "pack",
    "patch",
    "policies",
    "save",
    "select",
    "unpack",
    "version",
]

if core_loader.core is not None:
    compile_hook.watch()

#: The version of this package, such as "0.3.0". It needs no library.
__version__: str = ".".join(str(_CONSTANTS[f"RVIT_VERSION_{part}"]) for part in ("MAJOR", "MINOR", "PATCH"))


def version() -> str:
    """Returns the version of the library in use, such as "0.3.0"."""
    return library().version()
