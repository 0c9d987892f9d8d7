"""What the package raises."""

from __future__ import annotations

import enum
from typing import Any

from .constants import CONSTANTS


class Status(enum.IntEnum):
    """rvit_status: what a failed call returned."""

    INVALID_ARGUMENT = CONSTANTS["RVIT_INVALID_ARGUMENT"]
    UNSUPPORTED = CONSTANTS["RVIT_UNSUPPORTED"]
    UNAVAILABLE = CONSTANTS["RVIT_UNAVAILABLE"]
    OUT_OF_HOST_MEMORY = CONSTANTS["RVIT_OUT_OF_HOST_MEMORY"]
    OUT_OF_DEVICE_MEMORY = CONSTANTS["RVIT_OUT_OF_DEVICE_MEMORY"]
    DEVICE_LOST = CONSTANTS["RVIT_DEVICE_LOST"]
    BAD_FILE = CONSTANTS["RVIT_BAD_FILE"]
    NOT_FINITE = CONSTANTS["RVIT_NOT_FINITE"]
    INTERNAL = CONSTANTS["RVIT_INTERNAL"]


class RaggedVitError(RuntimeError):
    """A call failed. str() is a sentence on which argument or file is wrong, what was expected and what was found."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status: Status = Status(status)

    def __reduce__(self) -> Any:
        return RaggedVitError, (int(self.status), str(self))


def invalid(sentence: str) -> RaggedVitError:
    return RaggedVitError(Status.INVALID_ARGUMENT, sentence)
