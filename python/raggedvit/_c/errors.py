"""The exception of the package, and its status."""

from __future__ import annotations

import enum
from typing import Any

from .constants import CONSTANTS


class Status(enum.IntEnum):
    """The status of a failed call (rvit_status)."""

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
    """A failed call. str() names the argument or the file, what was found, and what was expected.

    Attributes:
        status (Status): The kind of failure.
    """

    __module__ = "raggedvit"

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status: Status = Status(status)

    def __reduce__(self) -> Any:
        return RaggedVitError, (int(self.status), str(self))


def invalid(sentence: str) -> RaggedVitError:
    return RaggedVitError(Status.INVALID_ARGUMENT, sentence)
