"""The optional outputs of a run, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._c import checks
from .._c.constants import CONSTANTS
from .._c.errors import invalid


class Outputs(NamedTuple):
    """The requested outputs. block_features, received_attention: the block, counted from 0; None: not requested."""

    features: bool = False
    cls_attention: bool = False
    pooled: bool = False
    projected: bool = False
    normalized: bool = False
    block_features: int | None = None
    received_attention: int | None = None
    merged: bool = False
    deepstack: bool = False

    @classmethod
    def of(
        cls,
        depth: int,
        features: Any = False,
        cls_attention: Any = False,
        pooled: Any = False,
        projected: Any = False,
        normalized: Any = False,
        block_features: Any = None,
        received_attention: Any = None,
        merged: Any = False,
        deepstack: Any = False,
    ) -> Outputs:
        """Checks the arguments. A block below 0 counts from the end of the `depth` blocks."""
        flag = checks.flag

        def block(argument: str, value: Any) -> int | None:
            if isinstance(value, bool):
                raise invalid(f"{argument} is {value}; expected the number of a block, from {-depth} to {depth - 1}")
            return None if value is None else checks.integer(argument, value, -depth, depth - 1) % depth

        found = cls(
            flag("features", features),
            flag("cls_attention", cls_attention),
            flag("pooled", pooled),
            flag("projected", projected),
            flag("normalized", normalized),
            block("block_features", block_features),
            block("received_attention", received_attention),
            flag("merged", merged),
            flag("deepstack", deepstack),
        )
        if found.normalized and not found.projected:
            raise invalid("normalized is True, but projected is False: only the projection is normalised")
        return found

    def fill(self, desc: Any) -> None:
        """Stores them in a rvit_session_desc."""
        for name, value in self._asdict().items():
            desc.outputs |= CONSTANTS[f"RVIT_OUTPUT_{name.upper()}"] if value is not None and value is not False else 0
        desc.features_block = self.block_features or 0
        desc.received_block = self.received_attention or 0


LOGITS = Outputs()
