"""The simulators of a task: their state as a value that never changes, and calls that copy what they change."""

from __future__ import annotations

import decimal
import json
import pickle
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import immutables

from rods_env.apis.api import State, World
from rods_env.apis.registry import Services
from rods_env.bfcl.source import part_of_package, simulator_class
from rods_env.bfcl.tools import BfclTool

_LARGEST_TREE = 5000  # files and folders that a search may walk through; the tasks have fewer than 200
_STATELESS = "MathAPI"


class BfclWorld(World, frozen=True, dict=True, eq=False):
    """The state of the simulators of a task, as a value.

    Attributes:
        apis: the names of the simulators' classes.
        config: the initial configuration by class, plain data; never changed.
        long_context: whether the simulators pad their data, as the category of that name wants it.
        changed: simulators by name after calls; None for the initial world, which is loaded when it is asked for.
    """

    apis: tuple[str, ...]
    config: dict[str, Any]
    long_context: bool = False
    changed: dict[str, Any] | None = None

    @cached_property
    def simulators(self) -> Mapping[str, Any]:
        """The simulators by name. Whoever reads them must not call them: a call changes its simulator."""
        if self.changed is not None:
            return self.changed
        return {api: load(api, self.config.get(api, {}), self.long_context) for api in self.apis}

    def same_as(self, other: World) -> bool:
        """Whether the simulators of `other`, the gold world, have the same public attributes here."""
        return isinstance(other, BfclWorld) and same_state(self.simulators, other.simulators)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BfclWorld):
            return NotImplemented
        if self.changed is None and other.changed is None:
            mine, theirs = (self.apis, self.config, self.long_context), (other.apis, other.config, other.long_context)
            return mine == theirs
        return self.apis == other.apis and self.same_as(other)

    __hash__ = None  # type: ignore[assignment]  # it holds dictionaries


def initial_world(apis: tuple[str, ...], config: dict[str, Any], long_context: bool = False) -> BfclWorld:
    """The world that a configuration describes."""
    return BfclWorld("", immutables.Map(), apis, config, long_context)


def load(api: str, config: dict[str, Any], long_context: bool) -> Any:
    """A new simulator with its configuration. It may hold constants of the package's module: copy it to call it."""
    simulator = simulator_class(api)()
    if api != _STATELESS:
        # Long contexts are added to the dictionaries of the configuration, so the simulator gets some of its own.
        simulator._load_scenario(_again(config), long_context=long_context)
    return simulator


def copied(simulator: Any) -> Any:
    """A deep copy, which takes 2 to 80 µs by simulator; `copy.deepcopy` takes 4 to 210 µs for these plain objects.

    Raises:
        RecursionError: if folders are nested some hundred levels deep.
    """
    state = vars(simulator).copy()
    generator = state.pop("_random", None)
    twin = object.__new__(type(simulator))
    twin.__dict__.update(_again(state))
    if generator is not None:  # its 625 numbers are copied at once, not one by one
        twin._random = random.Random.__new__(random.Random)
        twin._random.setstate(generator.getstate())
    return twin


def _again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def same_state(mine: Mapping[str, Any], gold: Mapping[str, Any]) -> bool:
    """Whether all public attributes of the gold simulators have the same values in mine, as BFCL's checker compares."""
    for api, theirs in gold.items():
        ours = mine[api]
        if ours is not theirs:
            try:
                for name, value in vars(theirs).items():
                    if not name.startswith("_") and getattr(ours, name) != value:
                        return False
            except RecursionError:  # a folder within itself, which no gold world has
                return False
    return True


class SimulatorState(State):
    """The present world. Reading `world` costs next to nothing; the next call on a simulator then copies that one."""

    __slots__ = ("_own", "_present", "simulators")

    def __init__(self, world: BfclWorld) -> None:
        self._own: set[str] = set()  # the simulators that no world holds
        self._present = world
        self.simulators: dict[str, Any] = {}
        super().__init__(world)

    @property  # type: ignore[override]  # an attribute in `State`
    def world(self) -> BfclWorld:
        if self._own:
            before = self._present
            self._present = BfclWorld(
                before.now, before.tables, before.apis, before.config, before.long_context, dict(self.simulators)
            )
            self._own = set()
        return self._present

    @world.setter
    def world(self, world: BfclWorld) -> None:
        self._present = world
        self.simulators = dict(world.simulators)
        self._own = set()

    def writable(self, api: str) -> Any:
        """A simulator that no world holds, to be called."""
        if api in self._own:
            return self.simulators[api]
        simulator = self.simulators[api]
        if api != _STATELESS:
            simulator = self.simulators[api] = copied(simulator)
            self._own.add(api)
        return simulator


class Simulators(Services):
    """The simulators of one environment, over one `SimulatorState`: runs calls."""

    __slots__ = ()

    def __init__(self, world: BfclWorld) -> None:
        super().__init__(world)
        self.state = SimulatorState(world)

    def call(self, tool: BfclTool, arguments: tuple[Any, ...]) -> tuple[str, bool]:
        """Runs a function with decoded arguments.

        Returns:
            The result as text, written as BFCL's executor writes it, and whether it is an error: something was raised,
            or the result is a dictionary with the key `error`. As in BFCL, what a simulator changed before it raised
            stays changed.
        """
        state: Any = self.state
        try:
            simulator = state.writable(tool.api)
            if tool.name in ("find", "du") and _too_large(simulator._current_dir, simulator.root):
                return f"Error during execution: there are more than {_LARGEST_TREE} files and folders", True
            if tool.name in ("logarithm", "square_root"):
                with _own_precision():
                    result = getattr(simulator, tool.name)(*arguments)
                    return written(result), isinstance(result, dict) and "error" in result
            result = getattr(simulator, tool.name)(*arguments)
            return written(result), isinstance(result, dict) and "error" in result
        except Exception as error:  # whatever a simulator raises is its answer, as in BFCL's executor
            return f"Error during execution: {error}", True


def written(result: Any) -> str:
    """A result as text: strings as they are, dictionaries as JSON if JSON can hold them, all else as `str` has it."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except Exception:  # a Decimal, a number of mpmath, an integer of too many digits
            return str(result)
    return str(result)


@contextmanager
def _own_precision() -> Iterator[None]:
    """Keeps the precision that these two functions set, of the whole process, from outliving the call."""
    context = part_of_package("eval_checker.multi_turn_eval.func_source_code.math_api").mpmath.mp
    before = context.dps
    try:
        with decimal.localcontext():
            yield
    finally:
        context.dps = before


def _too_large(*folders: Any) -> bool:
    """Whether a walk through the folders meets too many names. Copies of folders share what is in them, so that a few
    calls can make a tree that no walk comes to the end of."""
    left, met = list(folders), 0
    while left:
        contents = getattr(left.pop(), "contents", None)
        if contents:
            met += len(contents)
            if met > 2 * _LARGEST_TREE:
                return True
            left += contents.values()
    return False
