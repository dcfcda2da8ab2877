"""`BfclTask`: a task of BFCL V3 multi-turn as plain data; the 800 that the package has, and their split in two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rods_env.bfcl.said import Text
from rods_env.bfcl.simulators import initial_world
from rods_env.bfcl.source import CATEGORIES, entries, offering_message, read_call
from rods_env.bfcl.tools import BfclTool, tools_by_name, tools_of_api
from rods_env.errors import RodsError
from rods_env.tasks.replay import Gold
from rods_env.tasks.task import Call, Kind, Task, Turn

if TYPE_CHECKING:
    from rods_env.bfcl.graphs import Held, Run
    from rods_env.tasks.graph import Edges

Split = Literal["train", "test", "all"]
SPLITS: tuple[Split, ...] = ("train", "test", "all")
KIND_OF: dict[str, Kind] = dict(
    zip(CATEGORIES, ("base", "missing_function", "missing_parameter", "long_context"), strict=True)
)


class BfclTask(Task, frozen=True, dict=True, eq=False):
    """A task on BFCL's simulators: `world` holds the initial configuration, `turns` messages, gold calls and what is
    offered late. `apis` are the names of the simulators' classes.

    The dependency graph is derived by running the gold calls (`bfcl/graphs.py`); in the labels of its nodes a
    function's name stands for the skill, and all calls count as spoken. There is no `shape`: that is of our own tools.
    """

    ENVIRONMENT: ClassVar[str] = "ToolUse-BFCL-v0"

    @cached_property
    def gold(self) -> Gold:
        """The gold calls executed: the world after each turn, and all results of each turn. Nothing is traced.

        Raises:
            RodsError: if a gold call does not fit its function.
        """
        from rods_env.bfcl.grading import replay

        return replay(self)

    @property
    def tools(self) -> dict[str, BfclTool]:
        """The functions of the task's simulators by name, in the order in which the package documents them."""
        return _tools(self.apis)

    def offered(self, turn: int) -> dict[str, BfclTool]:
        """The functions that are offered in a turn, counted from 0."""
        return _offered(self.apis, frozenset(name for later in self.turns[turn + 1 :] for name in later.adds))

    def api_of(self, call: Call) -> str:
        """The class of the simulator whose function a call uses."""
        return self.tools[call.tool].api

    def skill_of(self, call: Call) -> str:
        """The function's name."""
        return call.tool

    @property
    def runs(self) -> tuple[Run, ...]:
        """The gold calls executed one by one: results, and what each changed. Kept for the last few tasks only, since
        they hold the simulators before every call."""
        from rods_env.bfcl.graphs import traced

        return traced(self)

    @property
    def held(self) -> tuple[Held, ...]:
        """The values in the result of each gold call. Kept for the last few tasks only."""
        from rods_env.bfcl.graphs import results_of

        return results_of(self)

    @cached_property
    def texts(self) -> tuple[Text, ...]:
        """For each turn what the user has said up to and with it."""
        messages = [turn.message for turn in self.turns]
        return tuple(Text("\n".join(messages[: at + 1])) for at in range(len(messages)))

    @cached_property
    def sources(self) -> tuple[dict[str, int | None], ...]:
        """For each gold call where its arguments come from: an earlier call's result by index, or None for the text.

        An argument that stands neither in the text nor in an earlier result is left out.
        """
        from rods_env.bfcl.graphs import argument_sources

        return argument_sources(self)

    @cached_property
    def edges(self) -> Edges:
        """The edges of the dependency graph: (earlier call, later call) to "data" or "state"."""
        from rods_env.bfcl.graphs import edges_of

        return edges_of(self)

    def _no_shape(self) -> Any:
        raise RodsError(f"task {self.id}: shapes, and variants made of them, are not derived for tasks of BFCL.")

    shape = property(_no_shape)


@cache
def _tools(apis: tuple[str, ...]) -> dict[str, BfclTool]:
    return {tool.name: tool for api in apis for tool in tools_of_api(api)}


@cache
def _offered(apis: tuple[str, ...], later: frozenset[str]) -> dict[str, BfclTool]:
    return {name: tool for name, tool in _tools(apis).items() if name not in later}


def build_task(
    task_id: str,
    kind: Kind,
    apis: Sequence[str],
    config: dict[str, Any],
    messages: Sequence[str],
    gold: Sequence[Sequence[str]],
    withheld: dict[int, Sequence[str]] | None = None,
    parent: str | None = None,
) -> BfclTask:
    """A task from plain data.

    Args:
        task_id: its id.
        kind: `base`, `missing_function`, `missing_parameter` or `long_context`.
        apis: the classes of its simulators.
        config: the initial configuration by class.
        messages: what the user says in each turn; where it is empty, that further functions are offered now.
        gold: for each turn its gold calls, as texts of Python.
        withheld: turn to the functions that are offered from it on and not before. A function that a gold call of an
            earlier turn uses is offered from the start all the same.
        parent: the id of the task that this one was made of.

    Raises:
        RodsError: for a gold call that cannot be read, or a function that is unknown.
    """
    if len(messages) != len(gold):
        raise RodsError(f"task {task_id}: expected gold calls for {len(messages)} turns; got {len(gold)}.")
    known = tools_by_name()
    turns: list[Turn] = []
    used: set[str] = set()
    for at, (message, texts) in enumerate(zip(messages, gold, strict=True)):
        calls = []
        for name, positional, named in map(read_call, texts):
            if name not in known:
                raise RodsError(f"task {task_id}: no simulator has a function {name!r}.")
            calls.append(Call(name, known[name].named(positional, named)))
        adds = tuple(name for name in (withheld or {}).get(at, ()) if name not in used)
        turns.append(Turn(message or offering_message(), tuple(calls), adds))
        used.update(call.tool for call in calls)
    return BfclTask(
        task_id, kind, tuple(apis), tuple(turns), initial_world(tuple(apis), config, kind == "long_context"), parent
    )


@cache
def _category(category: str) -> tuple[BfclTask, ...]:
    tasks = []
    for row, gold in entries(category):
        messages = ["\n".join(message["content"] for message in turn) for turn in row["question"]]
        withheld = {int(turn): names for turn, names in row.get("missed_function", {}).items()}
        tasks.append(
            build_task(
                row["id"], KIND_OF[category], row["involved_classes"], row["initial_config"], messages, gold, withheld
            )
        )
    return tuple(tasks)


def number_of(task_id: str) -> int:
    """The number of a task of the package, from 0 to 199; the four tasks of a number tell one story."""
    return int(task_id.rpartition("_")[2])


def split_of(number: int) -> Split:
    """On which side the tasks of a number stand: 0 and 1 are for training, 2 and 3 for tests, and so on in turn.

    Neighbours use the same simulators, so both sides have about as much of each; and no initial configuration stands
    on both, as it would if even and odd numbers were told apart.
    """
    return "test" if number // 2 % 2 else "train"


def bfcl_tasks(split: str = "all", categories: Sequence[str] | None = None) -> list[BfclTask]:
    """The tasks of the package, category by category.

    Args:
        split: "train" or "test", 100 tasks of each category; or "all".
        categories: some of "base", "miss_func", "miss_param", "long_context", with or without "multi_turn_" before
            them; None for all.

    Raises:
        RodsError: for another value, or if the package is not installed.
    """
    if split not in SPLITS:
        raise RodsError(f"split must be one of {', '.join(map(repr, SPLITS))}; got {split!r}.")
    if isinstance(categories, str):
        raise RodsError(f"categories must be a sequence of names; got {categories!r}.")
    chosen = CATEGORIES if categories is None else tuple(str(name).removeprefix("multi_turn_") for name in categories)
    unknown = [name for name in chosen if name not in CATEGORIES]
    if unknown or not chosen:
        raise RodsError(f"categories must be some of {', '.join(map(repr, CATEGORIES))}; got {categories!r}.")
    tasks = [task for name in CATEGORIES if name in chosen for task in _category(name)]
    return [task for task in tasks if split in ("all", split_of(number_of(task.id)))]


def load_bfcl(name: str) -> list[Task]:
    """The tasks that "bfcl:train", "bfcl:test", "bfcl:all" or "bfcl:ID" names.

    Raises:
        RodsError: for another name.
    """
    wanted = name.removeprefix("bfcl:")
    if wanted in SPLITS:
        return list(bfcl_tasks(wanted))
    found: list[Task] = [task for task in bfcl_tasks() if task.id == wanted]
    if not found:
        raise RodsError(
            f"no BFCL tasks {name!r}: expected bfcl:train, bfcl:test, bfcl:all, or an id like bfcl:multi_turn_base_0."
        )
    return found
