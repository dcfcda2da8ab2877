"""Makes tasks: a shape drawn wish by wish and tried at once in a world, or a given shape filled; then told."""

from __future__ import annotations

from collections.abc import Sequence

import immutables

from rods_env.apis.api import World
from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import Cast
from rods_env.apis.registry import Services, Tool, check_apis, tools_of
from rods_env.apis.worlds import WorldStock
from rods_env.errors import SynthesisError
from rods_env.tasks.phrasing import Narrator
from rods_env.tasks.plans import Plan, assign_tools, wire
from rods_env.tasks.shapes import Node, Shape, ShapeSketch, type_graph
from rods_env.tasks.synthesis import Placed, Planner
from rods_env.tasks.task import Call, Kind, Task, Turn, make_task

_MAX_ROWS = 9  # a longer list is not something to choose from, except in a long context
_MAX_ROWS_LONG = 60


_REMEMBERED = 256  # how many drawn plans a maker keeps


class _Known:
    """What was drawn for a task, without its world, and how often it failed in other worlds."""

    __slots__ = ("apis", "depth", "failures", "nodes", "plans")

    def __init__(self, apis: tuple[str, ...], nodes: list[Node], plans: list[Plan], depth: int) -> None:
        self.apis = apis
        self.nodes = nodes
        self.plans = plans
        self.depth = depth
        self.failures = 0


class TaskMaker:
    """Draws tasks of new shapes. Each wish is tried in the world before the next is drawn.

    Args:
        draw: the source of chance.
        stock: where worlds come from; a stock of larger worlds makes long contexts.
    """

    def __init__(self, draw: Draw, stock: WorldStock | None = None) -> None:
        self.draw = draw
        self.stock = stock or WorldStock(draw)
        # Tool of a wish and of what feeds it to (tries, successes): what hardly ever works is not tried as often.
        self._luck: dict[tuple[Tool, ...], list[int]] = {}
        self._services = Services(World("", immutables.Map()))
        self._known: list[_Known] = []

    def task(
        self,
        apis: Sequence[str],
        *,
        turns: int,
        chatty: float = 0.25,
        max_calls: int = 14,
        max_depth: int = 6,
        prefer: frozenset[str] = frozenset(),
        offered: Sequence[str] = (),
    ) -> Task:
        """A task of a new shape, not yet validated.

        Args:
            apis: the APIs whose tools may be used.
            turns: how many turns.
            chatty: the probability of one more wish in the same turn.
            max_calls: the most calls in all.
            max_depth: the longest chain of calls that feed each other (calls that share state may make it longer).
            prefer: names of tools to choose first.
            offered: further APIs that are offered and not needed.

        Raises:
            SynthesisError: when no task was found; `reason` says where it failed.
        """
        draw = self.draw
        every = check_apis((*apis, *offered))
        world, cast = self.stock.get(every)
        sketch = ShapeSketch(draw, type_graph(tools_of(apis)), prefer)
        planner = self._planner(world, cast)
        for turn in range(turns):
            wishes = 1
            while wishes < 3 and draw.chance(chatty):
                wishes += 1
            for number in range(wishes):
                if not any(self._wish(sketch, planner, turn, max_depth) for _ in range(12)) and number == 0:
                    raise SynthesisError("no wish could be fulfilled.", reason="plan")
            if len(planner.placed) > max_calls:
                raise SynthesisError(f"the drawn shape has more than {max_calls} calls.", reason="shape")
        n = len(planner.placed)  # a last wish that failed has left nodes and plans behind
        self._remember(_Known(every, planner.nodes[:n], planner.plans[:n], sketch.depth()))
        return _told(planner, _shape(planner), draw, every)

    def _remember(self, known: _Known) -> None:
        if len(self._known) < _REMEMBERED:
            self._known.append(known)
        else:
            self._known[self.draw.index(_REMEMBERED)] = known

    def again(self, max_depth: int = 6, turns: int | None = None) -> Task:
        """A task with the tools and the structure of one that was drawn before, in another world: other people, other
        entities, other words. A fifth of the work of `task`, because nothing has to be searched for.

        Args:
            max_depth: as in `task`.
            turns: how many turns; None for any number.

        Raises:
            SynthesisError: when nothing was drawn yet, or this world does not fit.
        """
        # Of two at random the one that failed less: what works in most worlds comes more often.
        drawn = [self.draw.index(len(self._known)) for _ in range(2)] if self._known else []
        at = min(drawn, key=lambda i: self._known[i].failures, default=0)
        known = self._known[at] if drawn else None
        if known is None or known.depth > max_depth or turns not in (None, known.nodes[-1].turn + 1):
            raise SynthesisError("no such task was drawn yet.", reason="plan")
        world, cast = self.stock.get(known.apis)
        planner = self._planner(world, cast)
        try:
            planner.fill(Shape(tuple(known.nodes), frozenset()), known.plans)
        except SynthesisError:
            known.failures += 2
            if known.failures > 6:  # it fails more often than not: it depended on a rare world
                self._known[at] = self._known[-1]
                self._known.pop()
            raise
        known.failures = max(0, known.failures - 1)
        return _told(planner, _shape(planner), self.draw, known.apis)

    def _planner(self, world: World, cast: Cast) -> Planner:
        longest = _MAX_ROWS if self.stock.size == 1 else _MAX_ROWS_LONG
        return Planner(world, cast, self.draw, max_rows=longest, strict=False, services=self._services)

    def _wish(self, sketch: ShapeSketch, planner: Planner, turn: int, max_depth: int) -> bool:
        size = len(sketch.planned)
        if not sketch.wish(turn):
            return False
        if sketch.depth() > max_depth:
            sketch.undo(size)
            return False
        goal = sketch.planned[-1]
        luck = self._luck.setdefault((goal.tool, *(sketch.planned[u].tool for u in goal.parents)), [0, 0])
        chance = max(0.05, 1.5 * luck[1] / luck[0]) if luck[0] >= 4 else 1.0
        if goal.tool.name not in sketch.prefer and not self.draw.chance(chance):
            sketch.undo(size)
            return False
        if self._try(sketch, planner, size):
            luck[0] += 1
            luck[1] += 1
            return True
        luck[0] += 1
        sketch.undo(size)
        return False

    def _try(self, sketch: ShapeSketch, planner: Planner, size: int) -> bool:
        plans = list(planner.plans[:size])
        for planned in sketch.planned[size:]:
            plan = wire(planned.tool, planned.spoken, planned.parents, plans, self.draw)
            if plan is None:
                return False
            plans.append(plan)
        nodes = [Node(p.tool.skill, p.turn, p.spoken) for p in sketch.planned[size:]]
        return planner.wish(nodes, plans[size:])


def realize(
    shape: Shape,
    draw: Draw,
    apis: Sequence[str],
    stock: WorldStock,
    *,
    hints: Sequence[Tool] = (),
    offered: Sequence[str] = (),
) -> Task:
    """A task of the given shape.

    Args:
        shape: the structure.
        draw: the source of chance.
        apis: the APIs whose tools may be used.
        stock: where worlds come from.
        hints: a tool for each node; chosen to fit the type graph when not given.
        offered: further APIs that are offered and not needed.

    Raises:
        SynthesisError: when no task was found; `reason` says where it failed.
    """
    every = check_apis((*apis, *offered))
    plans = assign_tools(shape, tools_of(apis), draw, hints)
    world, cast = stock.get(every)
    return fill(shape, plans, every, world, cast, draw, long=stock.size > 1)


def fill(
    shape: Shape,
    plans: Sequence[Plan],
    apis: tuple[str, ...],
    world: World,
    cast: Cast,
    draw: Draw,
    *,
    long: bool = False,
    services: Services | None = None,
    retries: int = 0,
) -> Task:
    """A task of the given shape and plans in a world.

    Args:
        shape: the structure.
        plans: a tool and a wiring for each node.
        apis: the APIs that are offered.
        world: the initial world.
        cast: the people of the story.
        draw: the source of chance.
        long: whether it is a long context, where lists may be long.
        services: used instead of new ones; nobody else may use them meanwhile.
        retries: how often a wish that fails sends the planner back to what it depends on.

    Raises:
        SynthesisError: when this world does not fill the plans, or the story cannot be told.
    """
    planner = Planner(world, cast, draw, max_rows=_MAX_ROWS_LONG if long else _MAX_ROWS, services=services)
    planner.fill(shape, plans, retries)
    return _told(planner, shape, draw, apis)


def _shape(planner: Planner) -> Shape:
    """The shape that the placed calls have."""
    data = frozenset((s.call, v) for v, p in enumerate(planner.placed) for s in p.sources.values())
    return Shape(tuple(planner.nodes[: len(planner.placed)]), data)


def _told(planner: Planner, shape: Shape, draw: Draw, apis: tuple[str, ...]) -> Task:
    placed, world = planner.placed, planner.world
    messages = Narrator(placed, planner.cast, draw, planner.year).messages()
    turns = tuple(
        Turn(text, tuple(_call(p) for p in placed if p.turn == number), mentions=mentions)
        for number, (text, mentions) in enumerate(messages)
    )
    kind: Kind = "base" if planner.max_rows == _MAX_ROWS else "long_context"
    task = make_task(kind, apis, turns, world)
    data = {(u, v) for v, sources in enumerate(task.sources) for u in sources.values() if u is not None}
    if data != shape.data:
        raise SynthesisError("the text gives a value that should be looked up.", reason="edges")
    if shape.state is not None and {e for e, edge in task.edges.items() if edge == "state"} != shape.state:
        raise SynthesisError("other calls depend on each other than in the shape.", reason="edges")
    return task


def _call(placed: Placed) -> Call:
    return Call(placed.tool.name, placed.arguments, placed.spoken)
