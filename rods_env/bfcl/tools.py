"""`BfclTool`: a function of a simulator; its doc as JSON schema, its signature as a decoder of arguments."""

from __future__ import annotations

import inspect
from functools import cache, cached_property
from typing import Any

import msgspec

from rods_env.apis.registry import Port
from rods_env.bfcl.said import Text
from rods_env.bfcl.source import APIS, function_docs, simulator_class
from rods_env.errors import RodsError

# The doc asks for an integer, and the gold calls of tasks number 173 give the text "ticket_001": both are taken, or
# these four tasks could not be solved.
_ALSO_TEXT = {("close_ticket", "ticket_id")}

_TYPES: dict[str, Any] = {"string": str, "integer": int | float, "float": int | float, "boolean": bool, "any": Any}
_NAMES = {"dict": "object", "float": "number", "tuple": "array"}

# Arguments that would keep a simulator busy for hours, by function: bounds far beyond what the tasks use.
_MOST_DIGITS = 1000  # of precision, and decimal places
_MOST_BITS = 15_000  # of a power of integers; Python refuses to write numbers of more than 4,300 digits


class BfclTool:
    """One function of a simulator.

    Attributes:
        name: its name, unique among the eight simulators.
        api: the name of the simulator's class.
        description: what the package's doc says of it.
        params: its parameters, in the order of the signature.
        param_docs: what the package's doc says of each.
        schema: the OpenAI-style function schema.
    """

    def __init__(self, api: str, doc: dict[str, Any]) -> None:
        self.api = api
        self.name: str = doc["name"]
        self.description: str = doc["description"]
        self._doc = doc["parameters"]
        signature = inspect.signature(getattr(simulator_class(api), self.name))
        self._given = [p for p in signature.parameters.values() if p.name != "self"]
        docs = {p.name: self._doc["properties"][p.name] for p in self._given}
        self.params = tuple(
            Port(p.name, required=p.default is p.empty, default=None if p.default is p.empty else p.default,
                 type=docs[p.name]["type"])
            for p in self._given
        )  # fmt: skip
        self.param_docs = {name: str(doc.get("description", "")) for name, doc in docs.items()}
        self._named: dict[tuple[str, str], bool] = {}
        self._whole = [name for name, doc in docs.items() if doc["type"] == "integer"]

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        fields: list[Any] = []
        for parameter in self._given:
            kind = _type(self._doc["properties"][parameter.name])
            if (self.name, parameter.name) in _ALSO_TEXT:
                kind |= str
            default = parameter.default
            if default is parameter.empty:
                fields.append((parameter.name, kind))
            else:
                # msgspec makes a new list for each call: one list for all calls, as the simulators' own signatures have
                # it, would carry what a task appended to it into the next.
                fields.append((parameter.name, kind | None if default is None else kind, default))
        struct = msgspec.defstruct(f"{self.name}_arguments", fields, frozen=True, forbid_unknown_fields=True)
        return msgspec.json.Decoder(struct)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The OpenAI-style function schema."""
        properties = {p.name: _schema(self._doc["properties"][p.name]) for p in self._given}
        for parameter in self._given:
            if (self.name, parameter.name) in _ALSO_TEXT:
                properties[parameter.name]["type"] = ["integer", "string"]
            if parameter.default is None:
                properties[parameter.name].pop("default", None)  # the doc says "None", a text
        parameters = {"type": "object", "properties": properties, "required": list(self._doc.get("required", ())),
                      "additionalProperties": False}  # fmt: skip
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def decode(self, arguments: Any) -> tuple[Any, ...]:
        """Checks the arguments, a JSON object as text, bytes or `msgspec.Raw`, and returns them in order.

        Integers stay integers and floats floats, because a simulator writes 3 and 3.0 differently; only where an
        integer is asked for, 3.0 is taken for 3.

        Raises:
            msgspec.ValidationError: with what was expected and what came.
        """
        given = self._decoder.decode(arguments)
        values: tuple[Any, ...] = msgspec.structs.astuple(given)
        for name in self._whole:
            value = getattr(given, name)
            if isinstance(value, float):
                if not value.is_integer():
                    raise msgspec.ValidationError(f"Expected `int`, got `float` - at `$.{name}`")
                values = tuple(int(v) if p.name == name else v for p, v in zip(self.params, values, strict=True))
        if self.name in _LIMITS:
            _LIMITS[self.name](dict(zip(self.param_docs, values, strict=True)))
        return values

    def names(self, parameter: str, value: Any) -> bool:
        """Whether the doc of a parameter names a text, as a choice or an example."""
        if not isinstance(value, str):
            return False
        found = self._named.get((parameter, value))
        if found is None:
            doc = Text(msgspec.json.encode(self._doc["properties"].get(parameter, {})).decode())
            found = self._named[parameter, value] = doc.holds(value)
        return found

    def named(self, positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
        """All arguments by name, as a gold call gives them.

        Raises:
            RodsError: if there are more positional ones than parameters.
        """
        if len(positional) > len(self.params):
            raise RodsError(f"{self.name} takes {len(self.params)} arguments; got {len(positional)}.")
        return {**dict(zip(self.param_docs, positional, strict=False)), **named}

    def __repr__(self) -> str:
        return f"<function {self.name} of {self.api}>"


def _digits(name: str) -> Any:
    def check(values: dict[str, Any]) -> None:
        if abs(values[name]) > _MOST_DIGITS:
            raise msgspec.ValidationError(f"Expected at most {_MOST_DIGITS} digits, got more - at `$.{name}`")

    return check


def _bits(values: dict[str, Any]) -> None:
    base, exponent = values["base"], values["exponent"]
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > _MOST_BITS:
        raise msgspec.ValidationError("Expected a power of at most 4,300 digits, got a larger one - at `$.exponent`")


_LIMITS: dict[str, Any] = {
    "power": _bits, "square_root": _digits("precision"), "logarithm": _digits("precision"),
    "round_number": _digits("decimal_places"),
}  # fmt: skip


def _type(doc: dict[str, Any]) -> Any:
    if doc["type"] == "array":
        return list[_type(doc["items"])]  # type: ignore[misc]  # a type that is only known now
    return dict[str, Any] if doc["type"] == "dict" else _TYPES[doc["type"]]


def _schema(doc: dict[str, Any]) -> dict[str, Any]:
    """The doc of one parameter with the type names of JSON schema."""
    schema = {key: value for key, value in doc.items() if key in ("description", "default", "enum", "required")}
    if doc["type"] != "any":
        schema["type"] = _NAMES.get(doc["type"], doc["type"])
    if "items" in doc:
        schema["items"] = _schema(doc["items"])
    if "properties" in doc:
        schema["properties"] = {name: _schema(inner) for name, inner in doc["properties"].items()}
    return schema


@cache
def tools_of_api(api: str) -> tuple[BfclTool, ...]:
    """The functions of one simulator, in the order of the package's docs."""
    return tuple(BfclTool(api, doc) for doc in function_docs(api))


@cache
def tools_by_name() -> dict[str, BfclTool]:
    """All functions of the eight simulators by name."""
    return {tool.name: tool for api in APIS for tool in tools_of_api(api)}
