"""A support desk: requesters, tickets, support teams and their agents, comments, worklogs and surveys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.kinds import City, Date, Email, Kind, Minutes, PersonName, Ref, Sentence
from rods_env.apis.lexicon import CITIES, Cast, Person, email_of, lexicon
from rods_env.errors import ToolError

# What each team takes care of. Each topic reads well behind "the".
TEAMS = {
    "hardware": (
        "broken printer", "frozen screen", "noisy fan", "loose keyboard", "dead battery", "cracked display",
        "stuck scanner",
    ),
    "accounts": (
        "lost password", "locked account", "wrong username", "expired licence", "missing mailbox", "outdated profile",
        "failed login",
    ),
    "network": (
        "slow wifi", "dropped call", "blocked website", "unstable connection", "failed backup", "lost signal",
        "full server",
    ),
}  # fmt: skip
TOPICS = {topic: team for team, topics in TEAMS.items() for topic in topics}

RequesterId = Annotated[str, Ref("requester")]
TicketId = Annotated[str, Ref("ticket")]
SupportAgentId = Annotated[str, Ref("support_agent")]
SupportTeamId = Annotated[str, Ref("support_team")]
CommentId = Annotated[str, Ref("comment")]
Topic = Annotated[str, Kind("ticket_topic", "What a ticket is about.", words=tuple(TOPICS))]
TeamName = Annotated[str, Kind("support_team_name", "What a support team is called.", words=tuple(TEAMS))]
Priority = Literal["low", "normal", "high", "urgent"]
TicketStatus = Literal["open", "waiting", "solved", "closed"]

_RAISED: dict[Priority, Priority] = {"low": "normal", "normal": "high", "high": "urgent"}
_NOBODY = "nobody"

_PRIORITIES: tuple[Priority, ...] = ("low", "normal", "normal", "high", "high", "urgent")
_STATUSES: tuple[TicketStatus, ...] = ("open", "open", "open", "waiting", "solved", "solved", "closed")
_REQUESTER_TEXTS = ("It happened again today.", "Is there any news?", "It is worse than before.", "Nothing helped.")
_AGENT_TEXTS = ("I am looking into it.", "A spare part is on its way.", "Please try it again.", "I found the cause.")


class Requester(Record, frozen=True):
    """A person who reports problems to the support desk."""

    CALLED: ClassVar[str] = "{name}"

    id: RequesterId
    name: PersonName
    email: Email
    home_city: City


class SupportTeam(Record, frozen=True):
    """A team of support agents that takes care of one field."""

    CALLED: ClassVar[str] = "the {team} team"
    NOUN: ClassVar[str] = "support team"

    id: SupportTeamId
    team: TeamName


class SupportAgent(Record, frozen=True):
    """A person who works on tickets."""

    CALLED: ClassVar[str] = "{name}"
    NOUN: ClassVar[str] = "support agent"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "home_city": "~ from {}",
        "joined": ("longest-serving ~", "newest ~"),
    }

    id: SupportAgentId
    name: PersonName
    email: Email
    home_city: City
    team_id: SupportTeamId
    team: TeamName
    joined: Date


class Ticket(Record, frozen=True):
    """A problem that a requester reported. Its `assignee` is the name of a support agent, or "nobody"."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "topic": "~ about the {}",
        "reported_by": "~ from {}",
        "priority": "{} priority ~",
        "due_date": ("~ with the earliest deadline", "~ with the latest deadline"),
    }

    id: TicketId
    requester_id: RequesterId
    reported_by: PersonName
    topic: Topic
    team_id: SupportTeamId
    team: TeamName
    assignee: str
    priority: Priority
    status: TicketStatus
    opened: Date
    due_date: Date


class TicketComment(Record, frozen=True):
    """What somebody wrote under a ticket."""

    NOUN: ClassVar[str] = "comment"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "author": "~ by {}",
        "written": ("first ~", "latest ~"),
    }

    id: CommentId
    ticket_id: TicketId
    topic: Topic
    author: PersonName
    text: Sentence
    written: Date


class Worklog(Record, frozen=True):
    """Time that the assigned support agent worked on a ticket."""

    id: Annotated[str, Ref("worklog")]
    ticket_id: TicketId
    support_agent_id: SupportAgentId
    topic: Topic
    worked_by: PersonName
    minutes: Minutes
    worked: Date


class Survey(Record, frozen=True):
    """A survey that went to the requester of a solved ticket."""

    id: Annotated[str, Ref("survey")]
    ticket_id: TicketId
    topic: Topic
    recipient: PersonName
    email: Email


class TimeSpent(Record, frozen=True):
    """How long was worked on a ticket."""

    minutes: Minutes


class Tickets(Api):
    """A support desk, as its dispatcher sees it."""

    NAME: ClassVar[str] = "tickets"

    requesters = Table(Requester, "req")
    support_teams = Table(SupportTeam, "tea")
    support_agents = Table(SupportAgent, "sup")
    tickets = Table(Ticket, "tic")
    comments = Table(TicketComment, "com")
    worklogs = Table(Worklog, "wlg")
    surveys = Table(Survey, "sur")

    @tool(
        "lookup",
        ask=(
            "look up {name} among the requesters",
            "find {name} in the list of requesters",
            "check whether {name} is listed as a requester",
            "look for {name} among the people who report problems",
        ),
        rows="{name}",
        errors=("no_such_requester",),
    )
    def find_requester(self, name: PersonName) -> Requester:
        """Find a requester, a person who reports problems, by name.

        Args:
            name: The requester's full name.
        """
        found = self.requesters.where(name=name)
        if not found:
            raise ToolError("no_such_requester", f"No requester is called {name!r}.")
        return found[0]

    @tool(
        "lookup",
        ask=(
            "look up {name} among the support agents",
            "find {name} in the list of support agents",
            "check which support team {name} works in",
        ),
        rows="{name}",
        errors=("no_such_support_agent",),
    )
    def find_support_agent(self, name: PersonName) -> SupportAgent:
        """Find a support agent by name.

        Args:
            name: The support agent's full name.
        """
        found = self.support_agents.where(name=name)
        if not found:
            raise ToolError("no_such_support_agent", f"No support agent is called {name!r}.")
        return found[0]

    @tool(
        "search",
        ask=(
            "show me {requester_id}'s tickets",
            "list the tickets from {requester_id}",
            "tell me which tickets there are from {requester_id}",
            "go through {requester_id}'s tickets",
        ),
        rows="{requester_id}'s ~",
    )
    def list_tickets(self, requester_id: RequesterId) -> list[Ticket]:
        """List all tickets of a requester.

        Args:
            requester_id: The requester whose tickets are wanted.
        """
        self.requesters[requester_id]
        return self.tickets.where(requester_id=requester_id)

    @tool(
        "search",
        ask=(
            "show me the {status} tickets of the {team} team",
            "list the {team} team's {status} tickets",
            "tell me which tickets of the {team} team are {status}",
            "check the {team} team for {status} tickets",
        ),
        rows="the {team} team's {status} ~",
    )
    def search_team_tickets(self, team: TeamName, status: TicketStatus) -> list[Ticket]:
        """List the tickets of a support team that have a status.

        Args:
            team: The support team's name.
            status: The status that the tickets have.
        """
        return self.tickets.where(team=team, status=status)

    @tool(
        "search",
        ask=(
            "show me the support agents in {team_id}",
            "tell me who works in {team_id}",
            "list the support agents in {team_id}",
            "check who belongs to {team_id}",
        ),
        rows="the ~ in {team_id}",
    )
    def list_support_agents(self, team_id: SupportTeamId) -> list[SupportAgent]:
        """List the support agents of a team.

        Args:
            team_id: The support team whose agents are wanted.
        """
        self.support_teams[team_id]
        return self.support_agents.where(team_id=team_id)

    @tool(
        "search",
        ask=(
            "show me the comments on {ticket_id}",
            "tell me what people wrote under {ticket_id}",
            "list the comments on {ticket_id}",
            "go through the comments on {ticket_id}",
        ),
        rows="the ~ on {ticket_id}",
    )
    def list_comments(self, ticket_id: TicketId) -> list[TicketComment]:
        """List the comments on a ticket.

        Args:
            ticket_id: The ticket whose comments are wanted.
        """
        self.tickets[ticket_id]
        return self.comments.where(ticket_id=ticket_id)

    @tool(
        "compute",
        ask=(
            "work out how much time went into {ticket_id}",
            "add up the time spent on {ticket_id}",
            "tell me how long the support desk has worked on {ticket_id}",
            "check how many minutes of work {ticket_id} took",
        ),
        rows="the time spent on {ticket_id}",
        errors=("no_time_logged",),
    )
    def add_up_time(self, ticket_id: TicketId) -> TimeSpent:
        """Add up the minutes in the worklogs of a ticket.

        Args:
            ticket_id: The ticket whose worklogs are added up.
        """
        self.tickets[ticket_id]
        logs = self.worklogs.where(ticket_id=ticket_id)
        if not logs:
            raise ToolError("no_time_logged", f"Nobody has logged any work on ticket {ticket_id}.")
        return TimeSpent(minutes=sum(w.minutes for w in logs))

    @tool(
        "create",
        ask=(
            "open a {priority} priority ticket about the {topic} for {requester_id}",
            "raise a ticket about the {topic} with {priority} priority for {requester_id}",
            "report the {topic} to the support desk with {priority} priority for {requester_id}",
            "file a {priority} priority ticket about the {topic} for {requester_id}",
        ),
        done="A ticket about the {topic} was opened for {reported_by}.",
        errors=("already_reported",),
    )
    def open_ticket(self, requester_id: RequesterId, topic: Topic, priority: Priority) -> Ticket:
        """Open a ticket for a requester. It goes to the team for its topic and is not assigned yet.

        Args:
            requester_id: The requester who has the problem.
            topic: What the ticket is about.
            priority: How much it presses.
        """
        requester = self.requesters[requester_id]
        if self.tickets.where(
            lambda t: t.requester_id == requester_id and t.topic == topic and t.status in ("open", "waiting")
        ):
            raise ToolError("already_reported", f"{requester.name} already has an unsolved ticket about the {topic}.")
        name = TOPICS.get(topic, "hardware")
        team = self.support_teams.where(team=name)[0]
        return self.tickets.add(
            requester_id=requester_id, reported_by=requester.name, topic=topic, team_id=team.id, team=name,
            assignee=_NOBODY, priority=priority, status="open", opened=self.today, due_date=day_after(self.today, 14),
        )  # fmt: skip

    @tool(
        "create",
        ask=(
            "add {text} to {ticket_id} as a comment from {requester_id}",
            "post {text} on {ticket_id} in {requester_id}'s name",
            "write {text} under {ticket_id} as a comment by {requester_id}",
            "leave {text} on {ticket_id} as a comment from {requester_id}",
        ),
        done="There is a new comment by {author} on the ticket about the {topic}.",
        errors=("ticket_closed",),
    )
    def add_comment(self, ticket_id: TicketId, requester_id: RequesterId, text: Sentence) -> TicketComment:
        """Write a requester's comment under a ticket that is not closed.

        Args:
            ticket_id: The ticket to comment on.
            requester_id: The requester who comments.
            text: What the comment says.
        """
        ticket, requester = self.tickets[ticket_id], self.requesters[requester_id]
        if ticket.status == "closed":
            raise ToolError("ticket_closed", f"Ticket {ticket_id} is closed; reopen it before you comment on it.")
        return self.comments.add(
            ticket_id=ticket_id, topic=ticket.topic, author=requester.name, text=text, written=self.today
        )

    @tool(
        "create",
        ask=(
            "log {minutes} of work on {ticket_id}",
            "book {minutes} on {ticket_id}",
            "note down {minutes} of work on {ticket_id}",
            "record {minutes} of work for {ticket_id}",
        ),
        done="{worked_by} has worked {minutes} on the {topic}.",
        errors=("already_solved", "not_assigned"),
    )
    def log_work(self, ticket_id: TicketId, minutes: Minutes) -> Worklog:
        """Log time that the assigned support agent worked on an open or waiting ticket.

        Args:
            ticket_id: The ticket that was worked on.
            minutes: How many minutes the work took.
        """
        ticket = self._assigned(self._unsolved(ticket_id))
        agent = self.support_agents.where(name=ticket.assignee)[0]
        return self.worklogs.add(
            ticket_id=ticket_id, support_agent_id=agent.id, topic=ticket.topic, worked_by=agent.name, minutes=minutes,
            worked=self.today,
        )  # fmt: skip

    @tool(
        "update",
        ask=(
            "escalate {ticket_id}",
            "raise {ticket_id}'s priority by one level",
            "move {ticket_id} up by one priority level",
            "give {ticket_id} the next higher priority",
        ),
        done="The ticket about the {topic} now has {priority} priority.",
        errors=("already_solved", "highest_priority"),
    )
    def escalate_ticket(self, ticket_id: TicketId) -> Ticket:
        """Raise the priority of an open or waiting ticket by one level: low, normal, high, urgent.

        Args:
            ticket_id: The ticket to escalate.
        """
        ticket = self._unsolved(ticket_id)
        if ticket.priority not in _RAISED:
            raise ToolError("highest_priority", f"Ticket {ticket_id} is urgent already; there is no higher priority.")
        return self.tickets.change(ticket, priority=_RAISED[ticket.priority])

    @tool(
        "update",
        ask=(
            "mark {ticket_id} as solved",
            "set {ticket_id} to solved",
            "tick off {ticket_id} as solved",
        ),
        done="The ticket about the {topic} is solved, thanks to {assignee}.",
        errors=("already_solved", "not_assigned"),
    )
    def solve_ticket(self, ticket_id: TicketId) -> Ticket:
        """Mark an open or waiting ticket as solved. It must be assigned to a support agent.

        Args:
            ticket_id: The ticket that is solved.
        """
        return self.tickets.change(self._assigned(self._unsolved(ticket_id)), status="solved")

    @tool(
        "update",
        ask=("reopen {ticket_id}", "open {ticket_id} again", "set {ticket_id} back to open"),
        done="The ticket about the {topic} is open again.",
        errors=("still_open",),
    )
    def reopen_ticket(self, ticket_id: TicketId) -> Ticket:
        """Open a solved or closed ticket again. It stays with its support agent.

        Args:
            ticket_id: The ticket to reopen.
        """
        ticket = self.tickets[ticket_id]
        if ticket.status not in ("solved", "closed"):
            raise ToolError("still_open", f"Ticket {ticket_id} is {ticket.status}; only solved or closed ones reopen.")
        return self.tickets.change(ticket, status="open")

    @tool(
        "delete",
        ask=(
            "close {ticket_id}",
            "close {ticket_id} for good",
            "set {ticket_id} to closed",
            "mark {ticket_id} as closed",
        ),
        done="The ticket about the {topic} is closed.",
        errors=("not_solved",),
    )
    def close_ticket(self, ticket_id: TicketId) -> Ticket:
        """Close a solved ticket. Nobody can comment on it any more.

        Args:
            ticket_id: The ticket to close.
        """
        return self.tickets.change(self._solved(ticket_id), status="closed")

    @tool(
        "delete",
        ask=("delete {comment_id}", "take down {comment_id}", "remove {comment_id}", "erase {comment_id}"),
        done="The comment by {author} about the {topic} is gone.",
    )
    def delete_comment(self, comment_id: CommentId) -> TicketComment:
        """Delete a comment.

        Args:
            comment_id: The comment to delete.
        """
        return self.comments.remove(self.comments[comment_id])

    @tool(
        "transfer",
        ask=(
            "assign {ticket_id} to {support_agent_id}",
            "hand {ticket_id} over to {support_agent_id}",
            "pass {ticket_id} on to {support_agent_id}",
            "give {ticket_id} to {support_agent_id}",
        ),
        done="The ticket about the {topic} is now with {assignee}.",
        errors=("already_solved", "wrong_team", "already_assigned"),
    )
    def assign_ticket(self, ticket_id: TicketId, support_agent_id: SupportAgentId) -> Ticket:
        """Pass an open or waiting ticket to a support agent of its team.

        Args:
            ticket_id: The ticket to pass on.
            support_agent_id: The support agent who takes it over.
        """
        ticket, agent = self._unsolved(ticket_id), self.support_agents[support_agent_id]
        if agent.team_id != ticket.team_id:
            raise ToolError("wrong_team", f"{agent.name} is not in the {ticket.team} team, which has the ticket.")
        if ticket.assignee == agent.name:
            raise ToolError("already_assigned", f"Ticket {ticket_id} is already assigned to {agent.name}.")
        return self.tickets.change(ticket, assignee=agent.name)

    @tool(
        "send",
        ask=(
            "send out the survey for {ticket_id}",
            "send the requester a survey about {ticket_id}",
            "ask the requester for feedback on {ticket_id}",
            "get feedback on {ticket_id} from the requester",
        ),
        done="A survey about the {topic} went to {recipient}.",
        errors=("not_solved", "already_surveyed"),
    )
    def send_survey(self, ticket_id: TicketId) -> Survey:
        """Send the requester of a solved ticket a survey, once.

        Args:
            ticket_id: The solved ticket that the survey is about.
        """
        ticket = self._solved(ticket_id)
        if self.surveys.where(ticket_id=ticket_id):
            raise ToolError("already_surveyed", f"A survey about ticket {ticket_id} was sent before.")
        requester = self.requesters[ticket.requester_id]
        return self.surveys.add(
            ticket_id=ticket_id, topic=ticket.topic, recipient=requester.name, email=requester.email
        )

    def _unsolved(self, ticket_id: str) -> Ticket:
        ticket = self.tickets[ticket_id]
        if ticket.status not in ("open", "waiting"):
            raise ToolError("already_solved", f"Ticket {ticket_id} is {ticket.status}; it would have to be reopened.")
        return ticket

    def _solved(self, ticket_id: str) -> Ticket:
        ticket = self.tickets[ticket_id]
        if ticket.status != "solved":
            raise ToolError("not_solved", f"Ticket {ticket_id} is {ticket.status}; it has to be solved for this.")
        return ticket

    @staticmethod
    def _assigned(ticket: Ticket) -> Ticket:
        if ticket.assignee == _NOBODY:
            raise ToolError("not_assigned", f"Ticket {ticket.id} is assigned to nobody; assign it to an agent first.")
        return ticket

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        teams = {name: SupportTeam(draw.id("tea"), name) for name in TEAMS}
        requesters = [Requester(draw.id("req"), p.name, p.email, p.city) for p in cast.people[:4]]
        yield from teams.values()
        yield from requesters
        staff: dict[str, list[SupportAgent]] = {name: [] for name in TEAMS}
        people = _staff(draw, cast, 7 if size == 1 else 12)
        ages = draw.sample(range(90, 1500), len(people))
        for n, (person, days, city) in enumerate(zip(people, ages, draw.sample(CITIES, len(people)), strict=True)):
            team = teams[draw.choice(tuple(TEAMS))] if n >= 6 else teams[tuple(TEAMS)[n % 3]]
            agent = SupportAgent(
                draw.id("sup"), person.name, person.email, city, team.id, team.team, day_after(today, -days)
            )
            staff[team.team].append(agent)
            yield agent
        topics, days_back = tuple(TOPICS), range(5, 60)
        for requester in requesters:
            n = (3 + draw.index(2)) * size
            for topic, age in zip(draw.sample(topics, n), draw.sample(days_back, n), strict=False):
                status, team, opened = draw.choice(_STATUSES), teams[TOPICS[topic]], day_after(today, -age)
                agent = draw.choice(staff[team.team])
                assigned = status != "open" or draw.chance(0.5)
                ticket = Ticket(
                    draw.id("tic"), requester.id, requester.name, topic, team.id, team.team,
                    agent.name if assigned else _NOBODY, draw.choice(_PRIORITIES), status, opened,
                    day_after(opened, draw.integer(15, 80)),
                )  # fmt: skip
                yield ticket
                if assigned and draw.chance(0.4):
                    for _ in range(1 + draw.index(2)):
                        yield Worklog(
                            draw.id("wlg"), ticket.id, agent.id, topic, agent.name, 5 * draw.integer(2, 20),
                            day_after(opened, draw.integer(1, age)),
                        )  # fmt: skip
                if draw.chance(0.33):
                    writers = [requester.name, *(a.name for a in draw.sample(staff[team.team], 1 + draw.index(2)))]
                    for author, day in zip(writers, draw.sample(range(age), len(writers)), strict=True):
                        text = draw.choice(_REQUESTER_TEXTS if author == requester.name else _AGENT_TEXTS)
                        yield TicketComment(draw.id("com"), ticket.id, topic, author, text, day_after(opened, day))


def _staff(draw: Draw, cast: Cast, n: int) -> list[Person]:
    """`n` support agents: the people of the cast who are no requesters, and strangers with other first names."""
    words, people = lexicon(), list(cast.people[4:])
    known = {person.first for person in cast.people}
    while len(people) < n:
        first, last = draw.choice(words.first_names), draw.choice(words.last_names)
        if first not in known:
            known.add(first)
            people.append(Person(f"{first} {last}", email_of(first, last)))
    return people
