"""What is read from the package `bfcl-eval`: tasks, gold calls, function docs, simulator classes. Nothing is copied."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

import msgspec

from rods_env.errors import RodsError

VERSION = "2026.3.23"  # the version that the figures of docs/bfcl.md are of
INSTALL = f"pip install --no-deps bfcl-eval=={VERSION} mpmath"

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
APIS = (
    "GorillaFileSystem", "MathAPI", "MessageAPI", "TwitterAPI", "TicketAPI", "TradingBot", "TravelAPI",
    "VehicleControlAPI",
)  # fmt: skip

_decode = msgspec.json.Decoder().decode


def part_of_package(name: str) -> Any:
    """A module of the package, such as `constants.default_prompts`.

    Raises:
        RodsError: if the package, or mpmath, which its simulators need, is not installed; names the command.
    """
    try:
        return import_module(f"bfcl_eval.{name}")
    except ImportError as error:
        missing = (error.name or "bfcl_eval").partition(".")[0]
        raise RodsError(f"the BFCL tasks need the package {missing!r}, which is missing: `{INSTALL}`.") from None


def rows_of(path: str) -> list[dict[str, Any]]:
    """The lines of a data file of the package, as dictionaries.

    Raises:
        RodsError: if the package is not installed, or has no such file.
    """
    part_of_package("constants.executable_backend_config")  # says what to do if it is missing
    file = files("bfcl_eval") / "data" / path
    if not file.is_file():
        raise RodsError(f"the installed bfcl-eval has no file {path!r}; expected version {VERSION}: `{INSTALL}`.")
    return [_decode(line) for line in file.read_bytes().splitlines() if line.strip()]


@cache
def simulator_class(api: str) -> type:
    """The class of a simulator by its name, such as "TradingBot"."""
    path = part_of_package("constants.executable_backend_config").CLASS_FILE_PATH_MAPPING[api]
    return getattr(part_of_package(path.removeprefix("bfcl_eval.")), api)  # type: ignore[no-any-return]


@cache
def function_docs(api: str) -> list[dict[str, Any]]:
    """The docs of a simulator's functions: name, description, parameters."""
    mapping = part_of_package("constants.executable_backend_config").MULTI_TURN_FUNC_DOC_FILE_MAPPING
    return rows_of(f"multi_turn_func_doc/{mapping[api]}")


def entries(category: str) -> list[tuple[dict[str, Any], list[list[str]]]]:
    """The tasks of a category with their gold calls: a text for each call, a list for each turn."""
    name = f"BFCL_v4_multi_turn_{category}.json"
    gold = {row["id"]: row["ground_truth"] for row in rows_of(f"possible_answer/{name}")}
    return [(row, gold[row["id"]]) for row in rows_of(name)]


def offering_message() -> str:
    """What the user says in a turn that offers further functions and has no message of its own."""
    return str(part_of_package("constants.default_prompts").DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC)


def read_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, positional and named arguments of a gold call. The text is parsed, never evaluated.

    Raises:
        RodsError: if it is no call of a plain name with literals.
    """
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
            return node.func.id, [ast.literal_eval(value) for value in node.args], named
    except (SyntaxError, ValueError):
        pass
    raise RodsError(f"expected a gold call like name(key='value'); got {text!r:.80}.")
