"""Tasks as data: calls, turns, an initial world; and the JSON-lines files that hold them."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from rods_env.apis.api import World
from rods_env.apis.registry import TOOLS, check_apis, lacking_table
from rods_env.apis.worlds import WorldData, world_from_data, world_to_data
from rods_env.errors import RodsError

if TYPE_CHECKING:
    import networkx as nx

    from rods_env.tasks.graph import Profile, Structure
    from rods_env.tasks.replay import Gold
    from rods_env.tasks.shapes import Shape

Kind = Literal["base", "missing_function", "missing_parameter", "long_context"]
KINDS: tuple[Kind, ...] = ("base", "missing_function", "missing_parameter", "long_context")
PACKAGED = ("seeds", "heldout")


class Call(msgspec.Struct, frozen=True, gc=False):
    """A gold call.

    Attributes:
        tool: the tool's name.
        arguments: by parameter name, as JSON has them.
        spoken: whether the user's text asks for it; otherwise it only finds something that a spoken call needs.
    """

    tool: str
    arguments: dict[str, Any]
    spoken: bool = True


class Mention(msgspec.Struct, frozen=True, gc=False):
    """What a phrase of the user refers to, so that its uniqueness can be checked again.

    Attributes:
        call: index of the gold call, counted over the whole task, whose argument the phrase gives.
        argument: the name of that argument.
        text: the phrase as it stands in the message.
        source: index of the call whose result holds the entity.
        pick: how the phrase chooses among the rows of that result: "only", "min:FIELD", "max:FIELD", "is:FIELD", or
            "again" for an entity that was mentioned before ("that order").
    """

    call: int
    argument: str
    text: str
    source: int
    pick: str


class Turn(msgspec.Struct, frozen=True):
    """One user message and the gold calls that satisfy it.

    Attributes:
        message: what the user says.
        calls: the gold calls in order; empty where something is missing and the agent should ask.
        adds: tools that are offered from this turn on and not before.
        mentions: the references in the message.
    """

    message: str
    calls: tuple[Call, ...] = ()
    adds: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()


class Task(msgspec.Struct, frozen=True, dict=True, eq=False):
    """An initial world, the turns of a user, and the calls that satisfy them.

    Attributes:
        id: derived from the content: the APIs that are called, and eight hexadecimal digits.
        kind: `base`, `missing_function`, `missing_parameter` or `long_context`.
        apis: the APIs whose tools are offered.
        turns: the user's messages with their gold calls.
        world: the initial world.
        parent: the id of the task that this one is a variant of, or None.
    """

    ENVIRONMENT: ClassVar[str] = "ToolUse-RODS-v0"  # the id of the environment that plays such tasks

    id: str
    kind: Kind
    apis: tuple[str, ...]
    turns: tuple[Turn, ...]
    world: World
    parent: str | None = None

    @cached_property
    def called_apis(self) -> tuple[str, ...]:
        """The APIs whose tools the gold calls use, in the order of their first call."""
        return tuple(dict.fromkeys(self.api_of(call) for call in self.calls))

    @property
    def depth(self) -> int:
        """Calls on the longest path of the dependency graph."""
        return self.profile.depth

    def api_of(self, call: Call) -> str:
        """The name of the API whose tool a call uses."""
        return str(TOOLS[call.tool].api.NAME)

    def skill_of(self, call: Call) -> str:
        """What a call does, whatever the API: its part of the label of its node."""
        return str(TOOLS[call.tool].skill)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """All gold calls, in order."""
        return tuple(call for turn in self.turns for call in turn.calls)

    @cached_property
    def turn_of_call(self) -> tuple[int, ...]:
        """For each gold call the index of its turn."""
        return tuple(t for t, turn in enumerate(self.turns) for _ in turn.calls)

    @cached_property
    def gold(self) -> Gold:
        """The gold calls executed: results, traces and the world after each turn.

        Raises:
            RodsError: if a gold call fails.
        """
        from rods_env.tasks.replay import replay

        return replay(self)

    @cached_property
    def sources(self) -> tuple[dict[str, int | None], ...]:
        """For each gold call where its arguments come from: an earlier call's result by index, or None for the text.

        An argument that stands neither in the text nor in an earlier result is left out.
        """
        from rods_env.tasks.graph import argument_sources

        return argument_sources(self)

    @cached_property
    def edges(self) -> dict[tuple[int, int], str]:
        """The edges of the dependency graph: (earlier call, later call) to "data" or "state"."""
        from rods_env.tasks.graph import edges_of

        return edges_of(self)

    @cached_property
    def structure(self) -> Structure:
        """The labels of the graph's nodes and its edges, as a value that hashes."""
        from rods_env.tasks.graph import structure_of

        return structure_of(self)

    @cached_property
    def shape(self) -> Shape:
        """What is left of the task without its content, and without a turn of asking."""
        from rods_env.tasks.transforms import base_shape

        return base_shape(self)

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The dependency graph, derived by executing the gold calls."""
        from rods_env.tasks.graph import dependency_graph

        return dependency_graph(self)

    @cached_property
    def profile(self) -> Profile:
        """What a variant of this task keeps."""
        from rods_env.tasks.graph import profile_of

        return profile_of(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Task):
            return NotImplemented
        same = self.kind == other.kind and self.apis == other.apis and self.turns == other.turns
        return same and self.world == other.world

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Task {self.id}: {self.kind}, {len(self.turns)} turns, {len(self.calls)} calls>"


def make_task(
    kind: Kind, apis: tuple[str, ...], turns: tuple[Turn, ...], world: World, parent: str | None = None
) -> Task:
    """A task whose id is derived from its text and calls: the APIs it calls, and a hash."""
    content = hashlib.blake2b(msgspec.json.encode((kind, world.now, turns)), digest_size=4)
    called = {TOOLS[call.tool].api.NAME for turn in turns for call in turn.calls}
    name = "+".join(api for api in apis if api in called)
    return Task(f"{name}-{content.hexdigest()}", kind, apis, turns, world, parent)


def fingerprint(task: Task) -> int:
    """A number of 63 bits for what is said in a task: equal texts give equal numbers, in every process."""
    said = hashlib.blake2b("\0".join([turn.message for turn in task.turns]).encode(), digest_size=8)
    return int.from_bytes(said.digest(), "big") >> 1


def task_to_json(task: Task) -> bytes:
    """One line of a task file. Equal tasks give equal bytes."""
    if task.ENVIRONMENT != Task.ENVIRONMENT:
        from rods_env.tasks.families import family_of

        return msgspec.json.encode({"environment": task.ENVIRONMENT, **family_of(task).to_data(task)})
    return msgspec.json.encode(
        {
            "id": task.id,
            "kind": task.kind,
            "apis": task.apis,
            "parent": task.parent,
            "turns": [
                {k: v for k, v in msgspec.to_builtins(turn).items() if v or k in ("message", "calls")}
                for turn in task.turns
            ],
            "world": world_to_data(task.world),
        }
    )


class _Head(msgspec.Struct):
    """What tells whose task a line is: only tasks that are not this project's own name their environment."""

    environment: str | None = None


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    kind: Kind
    apis: tuple[str, ...]
    turns: tuple[Turn, ...]
    world: WorldData
    parent: str | None = None


def task_from_json(line: bytes | str) -> Task:
    """The task that `task_to_json` wrote.

    Raises:
        RodsError: says what is wrong with the line.
    """
    try:
        other = msgspec.json.decode(line, type=_Head).environment
        if other is not None:
            from rods_env.tasks.families import family

            data_of_other = msgspec.json.decode(line)
            del data_of_other["environment"]
            return family(other).from_data(data_of_other)
        data = msgspec.json.decode(line, type=_Line)
        world = world_from_data(data.world)
        lacking = lacking_table(world, check_apis(data.apis))
        if lacking:
            raise RodsError(f"not a task: the world lacks the table {lacking!r} of one of its APIs.")
        return Task(data.id, data.kind, data.apis, data.turns, world, data.parent)
    except (msgspec.MsgspecError, KeyError, TypeError, UnicodeError) as error:
        raise RodsError(f"not a task: {error}") from None


def load_tasks(name: str | os.PathLike[str]) -> list[Task]:
    """Reads tasks: the packaged "seeds" or "heldout", a set of the tiny policy ("tiny:seeds"), tasks of BFCL
    ("bfcl:train", "bfcl:test", "bfcl:all", "bfcl:ID"), or a JSON-lines file.

    A file whose name ends in .gz is gzip.

    Raises:
        RodsError: for a name that is none of these, or a broken line (says which).
    """
    if os.fspath(name).startswith("tiny:"):
        from rods_env.tasks.tiny_sets import tiny_set  # makes tasks; reading needs none of that

        return tiny_set(os.fspath(name))
    if os.fspath(name).startswith("bfcl:"):
        from rods_env.bfcl.tasks import load_bfcl  # needs the package bfcl-eval

        return load_bfcl(os.fspath(name))
    tasks = []
    for number, found in read_lines(name):
        if isinstance(found, RodsError):
            raise RodsError(f"{os.fspath(name)}, line {number}: {found}")
        tasks.append(found)
    return tasks


def read_lines(name: str | os.PathLike[str]) -> Iterator[tuple[int, Task | RodsError]]:
    """Every line of a task file that is not blank, with its number: the task, or what is wrong with it.

    Raises:
        RodsError: for a name that `load_tasks` would not know, or a file that cannot be read.
    """
    text = os.fspath(name)
    path = Path(str(files("rods_env") / "data" / f"{text}.jsonl.gz")) if text in PACKAGED else Path(text)
    if not path.is_file():
        raise RodsError(f"no task file {text!r}: expected {' or '.join(map(repr, PACKAGED))}, or the path of a file.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise RodsError(f"{text}: cannot be read: {error}.") from None
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                yield number, task_from_json(line)
            except RodsError as error:
                yield number, error


def save_tasks(tasks: Iterable[Task], path: str | os.PathLike[str]) -> None:
    """Writes tasks as JSON lines (gzip if the path ends in .gz), to a temporary name first, then moved."""
    lines = b"".join(task_to_json(task) + b"\n" for task in tasks)
    if os.fspath(path).endswith(".gz"):
        lines = gzip.compress(lines, 9, mtime=0)
    write_atomically(path, lines)


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file under a temporary name beside its place and moves it there, so that no half file ever stands there.

    Raises:
        RodsError: if the folder does not exist or cannot be written.
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise RodsError(f"cannot write {target}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp gives 0600, which others could not read
        os.replace(temporary, target)
    except OSError as error:
        os.unlink(temporary)
        raise RodsError(f"cannot write {target}: {error.strerror}.") from None
    except BaseException:
        os.unlink(temporary)
        raise
