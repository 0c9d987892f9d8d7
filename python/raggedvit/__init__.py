"""Token-pruned Vision Transformers, run ragged: a thin layer over the C library raggedvit.

    model = raggedvit.Model("deit_tiny.safetensors")
    result = model.classify(images, Policy("l2", keep=0.5))      # images: float32 [B, 3, H, W], normalised; or files and uint8 arrays

Every failure of the library is a RaggedVitError with its sentence and its status. The library is opened on first use: the file that the
environment variable RAGGEDVIT_LIBRARY names, else the one inside this package, else the system's libraggedvit.so.0.4. The child of a fork may
use it too, with models of its own, or those of its parent's that are on the CPU.
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
    "DeviceInfo", "InputSlot", "Model", "ModelInfo", "Policy", "PolicyInfo", "Prepared", "RaggedVitError", "Result", "Selection", "Status",
    "VariableResolution", "attention", "devices", "double_buffer", "gather", "images", "pack", "patch", "policies", "save", "select",
    "unpack", "version",
]

if core_loader.core is not None:
    compile_hook.watch()

#: The version of this package, as "0.4.0". The library need not be there.
__version__: str = ".".join(str(_CONSTANTS[f"RVIT_VERSION_{part}"]) for part in ("MAJOR", "MINOR", "PATCH"))


def version() -> str:
    """The version of the library that is in use, as "0.4.0"."""
    return library().version()
