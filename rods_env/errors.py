"""The one family of errors: every failure that a user of the library can act on is a `RodsError`."""

from __future__ import annotations


class RodsError(Exception):
    """Something the caller can put right. The message says what was expected, what came, and what to do."""


class SynthesisError(RodsError):
    """No valid task could be made.

    Attributes:
        reason: a short machine-readable word for the rejection, by which rejections are counted.
    """

    def __init__(self, message: str, *, reason: str = "no_task") -> None:
        super().__init__(message)
        self.reason = reason


class ToolError(RodsError):
    """A tool refused: a precondition does not hold in this world. The policy sees the message.

    Attributes:
        code: one of the error codes that the tool declares, such as `already_shipped`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
