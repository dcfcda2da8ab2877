"""Registered APIs and their tools: what a signature says, turned into a decoder, a JSON schema and typed ports."""

from __future__ import annotations

import inspect
import re
import string
import typing
from functools import cached_property
from typing import Any

import msgspec

from rods_env.apis.api import READ_SKILLS, SKILLS, Api, Record, State, Table, ToolSpec, World, tables_of
from rods_env.apis.draw import is_day
from rods_env.errors import RodsError

_STRICT = msgspec.json.Encoder()


class Port(msgspec.Struct, frozen=True):
    """A typed place where a value goes in (a parameter) or comes out (a field of a result).

    Attributes:
        name: the parameter's or field's name.
        ref: the entity kind whose id it is, or "".
        kind: the kind of plain value ("date"), or "".
        words: values that synthesis may propose.
        choices: the only values allowed, or ().
        quote: whether a person would quote the value.
        unit: what is said behind a number.
        required: whether a call must give it.
        default: the value when it is not given.
        type: `str`, `int` or `float`.
        exchangeable: whether its words are names that can take each other's places everywhere.
    """

    name: str
    ref: str = ""
    kind: str = ""
    words: tuple[Any, ...] = ()
    choices: tuple[Any, ...] = ()
    quote: bool = False
    unit: str = ""
    required: bool = True
    default: Any = None
    type: str = "str"
    exchangeable: bool = False

    @property
    def label(self) -> str:
        """The name as a person says it: `order_id` is "order", `due_date` is "due date"."""
        return self.name.removesuffix("_id").replace("_", " ")


class Tool:
    """One tool of a registered API.

    Attributes:
        name: the tool's name, unique among all registered APIs.
        api: the class it belongs to.
        spec: what the decorator was told (skill, ways to ask, errors).
        params: its parameters, in order.
        record: the type of the record, or of the rows, that it returns.
        many: whether it returns a list.
        fields: the fields of `record` as ports.
        description: the first paragraph of the docstring.
        schema: the OpenAI-style function schema.
        reads: whether it leaves the world as it is.
    """

    def __init__(self, api: type[Api], name: str, function: Any) -> None:
        self.api = api
        self.name = name
        self.function = function
        self.spec: ToolSpec = function.__tool__
        self.skill = self.spec.skill
        self.reads = self.skill in READ_SKILLS
        hints = typing.get_type_hints(function, include_extras=True)
        returned = hints.pop("return", None)
        self.many = typing.get_origin(returned) is list
        self.record: type[Record] = typing.get_args(returned)[0] if self.many else returned
        signature = inspect.signature(function)
        given = [p for p in signature.parameters.values() if p.name != "self"]
        untyped = [p.name for p in given if p.name not in hints]
        if untyped or returned is None:
            raise RodsError(f"tool {name!r} of API {api.NAME!r}: {untyped or 'its result'} has no type annotation.")
        self.params = tuple(_port(p.name, hints.get(p.name), p.default) for p in given)
        self.by_name = {p.name: p for p in self.params}
        self.description, self.param_docs = _docstring(function)
        self._check(returned)
        self.fields = fields_of(self.record)
        self._dates = tuple(at for at, p in enumerate(self.params) if p.kind == "date")
        self._arguments = [
            (p.name, hints[p.name]) if p.default is p.empty else (p.name, hints[p.name], p.default) for p in given
        ]

    # These cost most of a registration, and a process that only imports the package needs none of them.

    @cached_property
    def _struct(self) -> type[msgspec.Struct]:
        return msgspec.defstruct(f"{self.name}_arguments", self._arguments, frozen=True, forbid_unknown_fields=True)

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self._struct)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The OpenAI-style function schema."""
        return self._schema(self._struct)

    def decode(self, arguments: Any) -> tuple[Any, ...]:
        """Checks the arguments, a JSON object as text, bytes or `msgspec.Raw`, and returns them in order.

        Raises:
            msgspec.ValidationError: with what was expected and what came.
        """
        try:
            values = msgspec.structs.astuple(self._decoder.decode(arguments))
        except msgspec.ValidationError:
            # 3 and 3.0 are the same number, but msgspec takes no float for an integer.
            integers = [p.name for p in self.params if p.type == "int"]
            loose = msgspec.json.decode(arguments) if integers else None
            if not isinstance(loose, dict):
                raise
            for name in integers:
                value = loose.get(name)
                if isinstance(value, float) and value.is_integer():
                    loose[name] = int(value)
            values = msgspec.structs.astuple(self._decoder.decode(_STRICT.encode(loose)))
        for at in self._dates:
            if not is_day(values[at]) and values[at] != self.params[at].default:
                raise msgspec.ValidationError(
                    f"Expected a date from 2000 to 2039, got {values[at]!r} - at `$.{self.params[at].name}`"
                )
        return values

    def _check(self, returned: Any) -> None:
        spec, where = self.spec, f"tool {self.name!r} of API {self.api.NAME!r}"
        if spec.skill not in SKILLS:
            raise RodsError(f"{where}: the skill must be one of {', '.join(SKILLS)}; it is {spec.skill!r}.")
        if not (isinstance(self.record, type) and issubclass(self.record, Record)):
            raise RodsError(f"{where}: it must return a Record or a list of a Record; it returns {returned!r}.")
        if self.many != (spec.skill == "search"):
            raise RodsError(f"{where}: a search returns a list, and nothing else does.")
        if len(set(spec.ask)) < 3:
            raise RodsError(f"{where}: expected at least three ways to ask for it; there are {len(set(spec.ask))}.")
        if self.reads and not spec.rows:
            raise RodsError(f"{where}: a read needs `rows`, the way a person refers to what it returns.")
        if not self.reads and not spec.done:
            raise RodsError(f"{where}: a write needs `done`, the sentence that tells what happened.")
        required = {p.name for p in self.params if p.required}
        for text in spec.ask:
            named = placeholders(text)
            if not named <= set(self.by_name) or not required <= named:
                raise RodsError(f"{where}: {text!r} must name all of {sorted(required)} and only parameters.")
        if not placeholders(spec.rows) <= set(self.by_name):
            raise RodsError(f"{where}: rows={spec.rows!r} names something that is not a parameter.")
        if not required <= placeholders(spec.rows) and self.reads:
            raise RodsError(f"{where}: rows={spec.rows!r} must name all of {sorted(required)}.")
        known = {f.name for f in msgspec.structs.fields(self.record)}
        if not placeholders(spec.done) <= known:
            raise RodsError(f"{where}: done={spec.done!r} may name only fields of {self.record.__name__}.")
        missing = [p.name for p in self.params if not self.param_docs.get(p.name)]
        if not self.description or missing:
            raise RodsError(f"{where}: its docstring needs a first line and, under `Args:`, lines for {missing}.")

    def _schema(self, arguments: type) -> dict[str, Any]:
        whole = msgspec.json.schema(arguments)
        described = whole["$defs"][arguments.__name__]
        properties = {name: dict(value) for name, value in described["properties"].items()}
        for name, value in properties.items():
            value["description"] = self.param_docs[name]
        parameters = {"type": "object", "properties": properties, "required": described["required"],
                      "additionalProperties": False}  # fmt: skip
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def __repr__(self) -> str:
        return f"<tool {self.name} of {self.api.NAME}: {self.skill}>"


def placeholders(text: str) -> set[str]:
    """The names in braces in a phrase.

    Raises:
        RodsError: for a brace without its partner.
    """
    try:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}
    except ValueError as error:
        raise RodsError(f"the phrase {text!r} has a brace without its partner: {error}.") from None


_FIELDS_OF: dict[type[Record], tuple[Port, ...]] = {}


def fields_of(record: type[Record]) -> tuple[Port, ...]:
    """The fields of a record as ports."""
    if record not in _FIELDS_OF:
        hints = typing.get_type_hints(record, include_extras=True)
        _FIELDS_OF[record] = tuple(
            _port(f.name, hints[f.name], inspect.Parameter.empty) for f in msgspec.structs.fields(record)
        )
    return _FIELDS_OF[record]


def _port(name: str, annotation: Any, default: Any) -> Port:
    info = msgspec.inspect.type_info(annotation)
    extra: dict[str, Any] = {}
    if isinstance(info, msgspec.inspect.Metadata):
        extra, info = info.extra or {}, info.type
    choices = tuple(info.values) if isinstance(info, msgspec.inspect.LiteralType) else ()
    base = {"IntType": "int", "FloatType": "float"}.get(type(info).__name__, "str")
    empty = default is inspect.Parameter.empty
    return Port(
        name, extra.get("ref", ""), extra.get("kind", ""), extra.get("words", ()), choices, extra.get("quote", False),
        extra.get("unit", ""), empty, None if empty else default, base, extra.get("exchangeable", False),
    )  # fmt: skip


def _docstring(function: Any) -> tuple[str, dict[str, str]]:
    """The first paragraph and the lines under `Args:` of a Google-style docstring."""
    text = inspect.getdoc(function) or ""
    head, _, tail = text.partition("\nArgs:\n")
    docs = {m[1]: m[2].strip() for m in re.finditer(r"^ {4}(\w+): (.+)$", tail, re.MULTILINE)}
    return " ".join(head.split("\n\n")[0].split()), docs


APIS: dict[str, type[Api]] = {}
TOOLS: dict[str, Tool] = {}
TABLES: dict[str, Table[Any]] = {}
_CHANGES: list[str] = []


def generation() -> int:
    """A number that changes with every `register` and `unregister`, for what is kept about registered tools."""
    return len(_CHANGES)


def register(api: type[Api]) -> type[Api]:
    """Makes an API known. Adding one is a file with the class and this call.

    Raises:
        RodsError: if a name is taken, or a tool's declaration is incomplete (says which and what is missing).
    """
    if not api.NAME or api.NAME in APIS:
        raise RodsError(f"expected a new API name on {api.__name__}; {api.NAME!r} is empty or taken.")
    tools = {n: Tool(api, n, f) for n, f in vars(api).items() if hasattr(f, "__tool__")}
    taken = sorted(set(tools) & set(TOOLS))
    if taken or not tools:
        raise RodsError(f"API {api.NAME!r}: tool names must be new and at least one; taken: {taken}.")
    APIS[api.NAME] = api
    TOOLS.update(tools)
    _CHANGES.append(api.NAME)
    TABLES.update({f"{api.NAME}.{name}": table for name, table in tables_of(api).items()})
    return api


def unregister(name: str) -> None:
    """Forgets an API (for tests that add one)."""
    api = APIS.pop(name)
    _CHANGES.append(name)
    for tool in [t for t in TOOLS.values() if t.api is api]:
        del TOOLS[tool.name]
    for table in tables_of(api):
        del TABLES[f"{name}.{table}"]


def check_apis(names: typing.Iterable[str]) -> tuple[str, ...]:
    """The names in registered order, each once.

    Raises:
        RodsError: for a name that is not registered.
    """
    wanted = set(names)
    unknown = sorted(wanted - set(APIS))
    if unknown:
        raise RodsError(f"unknown API {unknown[0]!r}; the registered ones are: {', '.join(APIS)}.")
    return tuple(name for name in APIS if name in wanted)


def tools_of(apis: typing.Iterable[str]) -> list[Tool]:
    """The tools of the named APIs, in the order in which they stand in the code."""
    key = (generation(), tuple(apis))
    if key not in _TOOLS_OF:
        wanted = set(check_apis(key[1]))
        _TOOLS_OF[key] = [tool for tool in TOOLS.values() if tool.api.NAME in wanted]
    return _TOOLS_OF[key].copy()


_TOOLS_OF: dict[tuple[int, tuple[str, ...]], list[Tool]] = {}


def lacking_table(world: World, apis: typing.Iterable[str]) -> str | None:
    """The name of a table that the APIs need and the world lacks, or None."""
    for api in apis:
        for name in tables_of(APIS[api]):
            if f"{api}.{name}" not in world.tables:
                return f"{api}.{name}"
    return None


class Services:
    """The APIs of one environment, over one `State`: runs calls.

    Args:
        world: the world to begin with.
    """

    __slots__ = ("_bound", "_instances", "state")

    def __init__(self, world: World) -> None:
        self.state = State(world)
        self._instances: dict[type[Api], Api] = {}  # made when first called: most tasks use two of the APIs
        self._bound: dict[Tool, Any] = {}

    def run(self, tool: Tool, arguments: tuple[Any, ...]) -> Record | list[Record]:
        """Runs a tool with decoded arguments.

        Raises:
            ToolError: when the tool refuses; the world is then as before.
        """
        function = self._bound.get(tool) or self._bind(tool)
        state = self.state
        before = state.world
        try:
            return function(*arguments)  # type: ignore[no-any-return]
        except BaseException:
            state.world = before
            raise

    def _bind(self, tool: Tool) -> Any:
        if tool.api not in self._instances:
            self._instances[tool.api] = tool.api(self.state)
        return self._bound.setdefault(tool, getattr(self._instances[tool.api], tool.name))
