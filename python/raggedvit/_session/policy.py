"""A pruning policy and its parameters as one value."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from dataclasses import KW_ONLY, dataclass
from typing import Any, Sequence

from .._c import checks
from .._c.constants import CONSTANTS
from .._c.errors import invalid
from .._c.info import PARAMETERS
from .._c.layouts import new
from .._c.library import Library


@dataclass(frozen=True, repr=False)
class Policy:
    """A pruning policy with its parameters: `Policy("evit", keep=0.7)`.

    It is immutable: it can be compared, hashed, pickled, and shared by models, threads and processes. Every
    function that takes a policy also takes a name, which means the policy with its defaults. The library checks
    the name and the parameters when a model first uses them; `raggedvit.policies()` lists the names, and the
    parameters of each with their defaults.

    Args:
        name: The policy's name; "none" prunes nothing.
        keep: Fraction of the tokens to keep, 0 to 1.
        blocks: Blocks that prune, counted from 0, ascending. Each is one prune stage.
        threshold: Lowest score of a kept token.
        mass: Fraction of the sum of the scores to keep, 0 to 1.
        n_samples: Number of samples that ATS draws.
        merges: Tokens that ToMe merges into others at each stage.
        seed: Seed of the policy "random".
        alpha: Fraction of the kept tokens that HiPrune chooses in `object_block`, 0 to 1.
        object_block: The block where HiPrune chooses them, counted from 0.
        tau: Largest difference of a pixel from its prediction for PixelPrune, 0 to 1.

    Raises:
        RaggedVitError: INVALID_ARGUMENT if a parameter has the wrong type or is negative.
    """

    name: str = "none"
    _: KW_ONLY
    keep: float | None = None
    blocks: Sequence[int] | None = None  # kept as a tuple
    threshold: float | None = None
    mass: float | None = None
    n_samples: int | None = None
    merges: int | None = None
    seed: int | None = None
    alpha: float | None = None
    object_block: int | None = None
    tau: float | None = None

    def __post_init__(self) -> None:
        # The library reads a negative parameter as "not set", so none may be negative here.
        integer, number, most = checks.integer, checks.number, checks.INT32_MAX
        values = {
            "name": checks.text("policy", self.name),
            "blocks": checks.optional(_blocks, "blocks", self.blocks),
            "seed": checks.optional(integer, "seed", self.seed, 0, checks.UINT64_MAX),
        }
        for field in ("n_samples", "merges", "object_block"):
            values[field] = checks.optional(integer, field, getattr(self, field), 0, most)
        for field in ("keep", "threshold", "mass", "alpha", "tau"):
            values[field] = checks.optional(number, field, getattr(self, field), 0.0)
        for field, value in values.items():
            object.__setattr__(self, field, value)
        # Computed once, because every call looks up sessions by policy.
        object.__setattr__(self, "_hash", hash(tuple(getattr(self, field.name) for field in dataclasses.fields(self))))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    def __reduce__(self) -> Any:  # hashes of strings differ between processes
        return _restored, (self.name, self._given())

    def __repr__(self) -> str:
        return (
            f"Policy({', '.join([repr(self.name), *(f'{field}={value!r}' for field, value in self._given().items())])})"
        )

    def _given(self) -> dict[str, Any]:
        """The parameters that are set."""
        return {field: value for field in PARAMETERS if (value := getattr(self, field)) is not None}

    @classmethod
    def of(cls, policy: str | Policy) -> Policy:
        """Returns an argument `policy`, a Policy or a name, as a Policy."""
        if isinstance(policy, cls):
            return policy
        if type(policy) is str:
            return _named(policy)
        raise invalid(
            f"policy is {checks.shown(policy)}; expected a name, such as 'evit', or a raggedvit.Policy, such as "
            "Policy('evit', keep=0.7)"
        )

    def _fill(self, lib: Library, session: Any) -> None:
        """Stores the policy in a rvit_session_desc."""
        kind, desc = ctypes.c_int32(), new("rvit_prune_desc")
        lib.rvit_enum_from_name(CONSTANTS["RVIT_ENUM_PRUNE"], self.name.encode(), ctypes.byref(kind))
        desc.type = kind.value
        for field, value in self._given().items():
            setattr(desc, field, value)
        if self.blocks is not None:
            desc.n_blocks = len(self.blocks)
        session.prune = ctypes.addressof(desc)
        session.__dict__["_prune"] = desc  # lives as long as the pointer to it


def _restored(name: str, parameters: dict[str, Any]) -> Policy:
    return Policy(name, **parameters)


@functools.lru_cache(maxsize=64)
def _named(name: str) -> Policy:
    return Policy(name)


def _blocks(argument: str, value: Any) -> tuple[int, ...]:
    most = CONSTANTS["RVIT_PRUNE_MAX_STAGES"]
    found = checks.integers(argument, value, most, 0, checks.INT32_MAX)
    if not found:
        raise invalid(f"{argument} has 0 entries; expected 1 to {most}")
    return found
