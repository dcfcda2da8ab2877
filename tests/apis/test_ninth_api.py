"""Adding an API: a ninth one by one class and one call of `register`, and what `register` refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import jsonschema
import pytest

import rods_env
from rods_env.agents.scripted import DoNothing, Oracle
from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw
from rods_env.apis.kinds import Amount, Date, Kind, PersonName, Quantity, Ref
from rods_env.apis.lexicon import Cast
from rods_env.apis.registry import APIS, TABLES, TOOLS, register, tools_of, unregister
from rods_env.errors import RodsError, ToolError
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import KINDS, task_from_json, task_to_json
from rods_env.tasks.validation import validate

# ------------------------------------------------------------------ the ninth API

GENRES = {
    "crime": ("The Long Quay", "A Knife in March", "Cold Harbour Lane", "The Ninth Witness"),
    "poetry": ("Small Weather", "Songs of Salt", "The Orchard Hours", "Winter Grammar"),
    "history": ("The Amber Road", "Kings of the North", "A City Burning", "The Silent Treaty"),
}

MemberId = Annotated[str, Ref("library_member")]
BookId = Annotated[str, Ref("book")]
LoanId = Annotated[str, Ref("loan")]
Genre = Annotated[str, Kind("genre", "A genre of books.", words=tuple(GENRES))]
Title = Annotated[str, Kind("book_title", "The title of a book.")]
Weeks = Annotated[int, Kind("weeks", "A number of weeks.", ge=1, le=8, examples=(2, 3, 4), unit="weeks")]


class Member(Record, frozen=True):
    """A member of the library."""

    CALLED: ClassVar[str] = "{name}"

    id: MemberId
    name: PersonName


class Book(Record, frozen=True):
    """A book of the library."""

    CALLED: ClassVar[str] = "{title}"
    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {"title": "{}", "pages": ("shortest ~", "longest ~")}

    id: BookId
    title: Title
    genre: Genre
    pages: int


class Loan(Record, frozen=True):
    """A book that a member has at home."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {"title": "~ of {}", "since": ("oldest ~", "latest ~")}

    id: LoanId
    member_id: MemberId
    book_id: BookId
    title: Title
    since: Date
    weeks: Weeks


class Fee(Record, frozen=True):
    """What a loan costs so far."""

    amount: Amount


class Library(Api):
    """A lending library."""

    NAME: ClassVar[str] = "library"

    members = Table(Member, "mbr")
    books = Table(Book, "boo")
    loans = Table(Loan, "loa")

    @tool(
        "lookup",
        ask=("look up {name} at the library", "find {name} at the library", "check which library card {name} has"),
        rows="{name}",
        errors=("no_such_member",),
    )
    def find_member(self, name: PersonName) -> Member:
        """Find a member by name.

        Args:
            name: The member's full name.
        """
        found = self.members.where(lambda m: m.name == name)
        if not found:
            raise ToolError("no_such_member", f"No member is called {name!r}.")
        return found[0]

    @tool(
        "search",
        ask=("show me the {genre} books", "list what the library has under {genre}", "go through the {genre} shelf"),
        rows="the ~ on the {genre} shelf",
    )
    def search_books(self, genre: Genre) -> list[Book]:
        """List the books of a genre.

        Args:
            genre: The genre.
        """
        return self.books.where(lambda b: b.genre == genre)

    @tool(
        "search",
        ask=("show me {member_id}'s loans", "list the loans of {member_id}", "tell me which loans {member_id} has"),
        rows="{member_id}'s ~",
    )
    def list_loans(self, member_id: MemberId) -> list[Loan]:
        """List the loans of a member.

        Args:
            member_id: The member who has the books.
        """
        self.members[member_id]
        return self.loans.where(lambda loan: loan.member_id == member_id)

    @tool(
        "compute",
        ask=("work out the fee for {loan_id}", "tell me what {loan_id} costs", "calculate what is due for {loan_id}"),
        rows="the fee for {loan_id}",
    )
    def compute_fee(self, loan_id: LoanId) -> Fee:
        """Work out what a loan costs.

        Args:
            loan_id: The loan.
        """
        return Fee(amount=round(0.5 * self.loans[loan_id].weeks, 2))

    @tool(
        "create",
        ask=("lend {book_id} to {member_id}", "let {member_id} take {book_id} home", "give {book_id} to {member_id}"),
        done="{title} is lent out.",
        errors=("already_lent",),
    )
    def lend_book(self, book_id: BookId, member_id: MemberId) -> Loan:
        """Lend a book to a member.

        Args:
            book_id: The book.
            member_id: The member who takes it.
        """
        book, member = self.books[book_id], self.members[member_id]
        if self.loans.where(lambda loan: loan.book_id == book_id):
            raise ToolError("already_lent", f"{book.title} is lent out.")
        return self.loans.add(member_id=member.id, book_id=book_id, title=book.title, since=self.today, weeks=4)

    @tool(
        "update",
        ask=("prolong {loan_id} by {weeks}", "add {weeks} to {loan_id}", "extend {loan_id} by {weeks}"),
        done="The loan of {title} is longer now.",
        errors=("too_long",),
    )
    def prolong_loan(self, loan_id: LoanId, weeks: Weeks) -> Loan:
        """Prolong a loan, to twelve weeks at most.

        Args:
            loan_id: The loan.
            weeks: By how many weeks.
        """
        loan = self.loans[loan_id]
        if loan.weeks + weeks > 12:
            raise ToolError("too_long", "A loan lasts twelve weeks at most.")
        return self.loans.change(loan, weeks=loan.weeks + weeks)

    @tool(
        "delete",
        ask=("take back the book of {loan_id}", "end {loan_id}", "close {loan_id}"),
        done="{title} is back on the shelf.",
    )
    def return_book(self, loan_id: LoanId) -> Loan:
        """Take a book back.

        Args:
            loan_id: The loan that ends.
        """
        return self.loans.remove(self.loans[loan_id])

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        members = [Member(draw.id("mbr"), person.name) for person in cast.people[:4]]
        titles = [(title, genre) for genre, titles in GENRES.items() for title in titles]
        books = [Book(draw.id("boo"), title, genre, draw.integer(60, 600)) for title, genre in titles]
        yield from members
        yield from books
        lent = iter(draw.shuffled(books))
        for member in members:
            for _ in range(2):
                book = next(lent)
                yield Loan(
                    draw.id("loa"), member.id, book.id, book.title, draw.date(today, -50, -2), draw.integer(2, 6)
                )


@pytest.fixture(scope="module")
def library() -> Iterator[type[Api]]:
    before = (dict(APIS), dict(TOOLS), dict(TABLES))
    yield register(Library)
    unregister("library")
    assert (dict(APIS), dict(TOOLS), dict(TABLES)) == before


@pytest.mark.parametrize("apis", [("library",), ("library", "mail")])
def test_a_ninth_api_yields_valid_tasks_that_environments_play(library, apis):
    source = TaskSource(8, apis=apis)
    tasks = [source.task(kind) for kind in KINDS for _ in range(12)]
    assert [validate(task) for task in tasks] == [[]] * len(tasks)
    used = {call.tool for task in tasks for call in task.calls}
    assert {tool.name for tool in tools_of(("library",))} <= used, "every tool of the new API is of use"
    if "mail" in apis:
        both = [t for t in tasks if len({TOOLS[call.tool].api.NAME for call in t.calls}) == 2]
        assert both, "stories cross from one API into the other"
    result = rods_env.evaluate(lambda env: Oracle(env), tasks)
    assert (result.success, result.progress, result.crashed, len(result.episodes)) == (1.0, 1.0, 0, len(tasks))
    idle = rods_env.evaluate(DoNothing(), tasks)
    assert idle.progress == 0.0, "known fault 13: doing nothing earns nothing"


def test_tasks_of_a_ninth_api_survive_files(library):
    source = TaskSource(2, apis=("library",))
    for _ in range(5):
        task = source.task()
        back = task_from_json(task_to_json(task))
        assert back == task
        assert validate(back) == []


def test_a_ninth_api_is_described_like_the_others(library):
    tools = tools_of(("library",))
    assert len(tools) == 7
    assert len({t.skill for t in tools}) >= 5
    for t in tools:
        jsonschema.Draft202012Validator.check_schema(t.schema["function"]["parameters"])
    assert "library.loans" in TABLES


def test_tasks_without_the_ninth_api_stay_as_they_were(library):
    """Registering one more changes nothing for those who name their APIs."""
    inside = [TaskSource(3, apis=("shop",)).task() for _ in range(2)]
    unregister("library")
    try:
        assert [TaskSource(3, apis=("shop",)).task() for _ in range(2)] == inside
    finally:
        register(Library)


# ------------------------------------------------------------------ what `register` refuses


class Thing(Record, frozen=True):
    """Something."""

    id: Annotated[str, Ref("thing")]
    name: PersonName


ASK = ("look at {name}", "check {name}", "show me {name}")


def toy(function: Any, name: str = "toy", **spec: Any) -> type[Api]:
    """An API with one tool; its declaration is right except for what is given."""
    told = {"skill": "lookup", "ask": ASK, "rows": "{name}", **spec}
    marked = tool(told.pop("skill"), **told)(function)
    return type("Toy", (Api,), {"NAME": name, "things": Table(Thing, "thi"), function.__name__: marked})


DOCSTRING = """Look at something.

Args:
    name: What it is called.
"""


def look(*, name: Any = PersonName, returned: Any = Thing, docstring: str | None = DOCSTRING) -> Any:
    def look_at_toy(self, name): ...

    annotations = {"name": name, "return": returned}
    look_at_toy.__annotations__ = {key: value for key, value in annotations.items() if value is not None}
    look_at_toy.__doc__ = docstring
    return look_at_toy


WHERE = r"tool 'look_at_toy' of API 'toy': "
WRITE = {"skill": "update", "rows": "", "done": "{name} was looked at."}


@pytest.mark.parametrize(
    ("changes", "spec", "complaint"),
    [
        ({}, {"skill": "fetch"}, WHERE + "the skill must be one of search.*'fetch'"),
        ({"returned": str}, {}, WHERE + "it must return a Record or a list of a Record; it returns .*str"),
        ({"returned": None}, {}, WHERE + "its result has no type annotation"),
        ({}, {"skill": "search"}, WHERE + "a search returns a list"),
        ({"returned": list[Thing]}, {}, WHERE + "a search returns a list, and nothing else does"),
        ({}, {"ask": ASK[:2]}, WHERE + "expected at least three ways to ask for it; there are 2"),
        ({}, {"ask": (ASK[0],) * 3}, WHERE + "expected at least three ways to ask for it; there are 1"),
        ({}, {"rows": ""}, WHERE + "a read needs `rows`"),
        ({}, {**WRITE, "done": ""}, WHERE + "a write needs `done`"),
        ({}, {"ask": (*ASK, "look at it")}, WHERE + r"'look at it' must name all of \['name'\]"),
        ({}, {"ask": (*ASK, "look at {name} on {day}")}, WHERE + ".*only parameters"),
        ({}, {"rows": "{name} of {owner}"}, WHERE + "rows=.*names something that is not a parameter"),
        ({}, {"rows": "the thing"}, WHERE + r"rows='the thing' must name all of \['name'\]"),
        ({}, {**WRITE, "done": "{colour} it is."}, WHERE + "done=.*may name only fields of Thing"),
        ({"docstring": "Look at it."}, {}, WHERE + r"its docstring needs .* under `Args:`, .*\['name'\]"),
        ({"docstring": None}, {}, WHERE + "its docstring needs a first line"),
        ({"name": None}, {}, WHERE + r"\['name'\] has no type annotation"),
    ],
)
def test_an_incomplete_tool_is_refused(changes, spec, complaint):
    before = (dict(APIS), dict(TOOLS), dict(TABLES))
    with pytest.raises(RodsError, match=complaint):
        register(toy(look(**changes), **spec))
    assert (dict(APIS), dict(TOOLS), dict(TABLES)) == before, "a refused API leaves nothing behind"


def test_a_complete_toy_is_taken():
    """So that the refusals above are for the one thing that each of them leaves out."""
    listing = (look(returned=list[Thing]), {"skill": "search", "rows": "the ~ {name}"})
    for function, spec in ((look(), {}), (look(), WRITE), listing):
        register(toy(function, **spec))
        assert TOOLS["look_at_toy"].api is APIS["toy"]
        unregister("toy")


def test_names_must_be_new():
    with pytest.raises(RodsError, match="expected a new API name on Toy; '' is empty or taken"):
        register(toy(look(), name=""))
    with pytest.raises(RodsError, match="expected a new API name on Toy; 'shop' is empty or taken"):
        register(toy(look(), name="shop"))
    taken = look()
    taken.__name__ = "cancel_order"
    with pytest.raises(RodsError, match=r"API 'toy': tool names must be new.*\['cancel_order'\]"):
        register(toy(taken))
    with pytest.raises(RodsError, match=r"API 'toy': tool names must be new and at least one"):
        register(type("Toy", (Api,), {"NAME": "toy"}))


def test_an_api_without_populate_says_so():
    from rods_env.apis.worlds import draw_world

    register(toy(look()))
    try:
        with pytest.raises(NotImplementedError, match=r"Toy\.populate"):
            draw_world(TaskSource(0).draw, ["toy"])
    finally:
        unregister("toy")


def test_an_optional_argument_need_not_be_named():
    def count_toys(self, name: PersonName, quantity: Quantity = 3) -> Thing:
        """Count something.

        Args:
            name: What it is called.
            quantity: How many.
        """

    api = register(toy(count_toys, ask=(*ASK, "count {quantity} pieces of {name}")))
    try:
        counting = TOOLS["count_toys"]
        assert counting.decode(b'{"name": "Ana Ruiz"}') == ("Ana Ruiz", 3)
        assert counting.schema["function"]["parameters"]["required"] == ["name"]
        assert not counting.by_name["quantity"].required
        assert counting.by_name["quantity"].default == 3
        assert repr(counting) == "<tool count_toys of toy: lookup>"
    finally:
        unregister(api.NAME)
