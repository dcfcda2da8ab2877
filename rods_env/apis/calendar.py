"""A company's calendar: colleagues, meetings, invitations, meeting rooms and reminders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.kinds import City, Date, Email, Kind, Minutes, PersonName, Ref, Time
from rods_env.apis.lexicon import CITIES, Cast
from rods_env.errors import ToolError

TITLES = (
    "Budget review", "Design workshop", "Sales forecast", "Team lunch", "Hiring round", "Safety training",
    "Product demo", "Road map", "Press briefing", "Kick-off", "Retrospective", "Customer survey", "Office move",
    "Price list", "Summer party", "Data clean-up", "Contract talks", "Annual report", "Strategy day", "Print proofs",
    "Welcome round", "Test results", "Supplier talks", "Website relaunch",
)  # fmt: skip
ROOMS = (
    "birch room", "maple room", "cedar room", "willow room", "hazel room", "rowan room", "alder room", "aspen room",
    "linden room", "walnut room", "cherry room", "poplar room", "amber room", "coral room", "pearl room", "topaz room",
    "opal room", "slate room", "marble room", "copper room", "harbour room", "garden room", "river room", "mill room",
)  # fmt: skip
DAY_STARTS, DAY_ENDS = 9 * 60, 17 * 60
USUAL_MINUTES = 60

ColleagueId = Annotated[str, Ref("colleague")]
MeetingId = Annotated[str, Ref("meeting")]
InvitationId = Annotated[str, Ref("invitation")]
MeetingRoomId = Annotated[str, Ref("meeting_room")]
ReminderId = Annotated[str, Ref("reminder")]
MeetingTitle = Annotated[
    str, Kind("meeting_title", "What a meeting is called.", words=TITLES, quote=True, exchangeable=True)
]
DaysAhead = Annotated[
    int, Kind("days_ahead", "How many days before.", unit="days", ge=2, le=30, examples=(2, 3, 4, 5, 6))
]
RoomName = Annotated[str, Kind("meeting_room_name", "What a meeting room is called.")]
Floor = Literal["ground", "first", "second", "third"]
MeetingStatus = Literal["planned", "cancelled"]
InvitationStatus = Literal["pending", "accepted", "declined"]
Answer = Literal["yes", "no"]

FLOORS: tuple[Floor, ...] = ("ground", "first", "second", "third")
STATUSES: tuple[InvitationStatus, ...] = ("pending", "pending", "accepted", "accepted", "declined")
DAYS = (3, 4, 5, 6, 7)
TIMES = ("09:30", "10:00", "11:00", "14:00", "14:30")


class Colleague(Record, frozen=True):
    """Somebody who works for the company."""

    CALLED: ClassVar[str] = "{name}"

    id: ColleagueId
    name: PersonName
    email: Email
    office_city: City


class Meeting(Record, frozen=True):
    """A meeting and the colleague who organises it."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "title": "{} ~",
        "date": ("earliest ~", "latest ~"),
        "minutes": ("shortest ~", "longest ~"),
        "status": "{} ~",
    }

    id: MeetingId
    organiser_id: ColleagueId
    organiser: PersonName
    title: MeetingTitle
    date: Date
    time: Time
    minutes: Minutes
    status: MeetingStatus


class Invitation(Record, frozen=True):
    """An invitation of one colleague to one meeting, and how it was answered."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "title": "{} ~",
        "attendee": "~ for {}",
        "status": "{} ~",
    }

    id: InvitationId
    meeting_id: MeetingId
    title: MeetingTitle
    date: Date
    attendee_id: ColleagueId
    attendee: PersonName
    status: InvitationStatus


class MeetingRoom(Record, frozen=True):
    """A room for meetings in one of the company's offices."""

    CALLED: ClassVar[str] = "the {room}"
    NOUN: ClassVar[str] = "meeting room"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {"room": "{}", "seats": ("smallest ~", "biggest ~")}

    id: MeetingRoomId
    room: RoomName
    city: City
    floor: Floor
    seats: int


class RoomReservation(Record, frozen=True):
    """A meeting room that is kept for a meeting."""

    NOUN: ClassVar[str] = "room reservation"

    id: Annotated[str, Ref("room_reservation")]
    meeting_room_id: MeetingRoomId
    meeting_id: MeetingId
    room: RoomName
    title: MeetingTitle
    date: Date
    time: Time


class Reminder(Record, frozen=True):
    """A reminder that a colleague gets about a meeting."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "title": "{} ~",
        "date": ("earliest ~", "latest ~"),
    }

    id: ReminderId
    colleague_id: ColleagueId
    meeting_id: MeetingId
    name: PersonName
    title: MeetingTitle
    date: Date


class FreeTime(Record, frozen=True):
    """How long a colleague is free on a day."""

    free_minutes: Minutes


class Calendar(Api):
    """A company's calendar, as an assistant of the whole company sees it."""

    NAME: ClassVar[str] = "calendar"

    colleagues = Table(Colleague, "col")
    meetings = Table(Meeting, "mee")
    invitations = Table(Invitation, "ivt")
    meeting_rooms = Table(MeetingRoom, "mro")
    reservations = Table(RoomReservation, "rrs")
    reminders = Table(Reminder, "rem")

    @tool(
        "lookup",
        ask=(
            "look up {name} in the staff directory",
            "find {name} among the colleagues",
            "check which office {name} works in",
            "search the staff directory for {name}",
        ),
        rows="{name}",
        errors=("no_such_colleague",),
    )
    def find_colleague(self, name: PersonName) -> Colleague:
        """Find a colleague by name.

        Args:
            name: The colleague's full name.
        """
        found = self.colleagues.where(name=name)
        if not found:
            raise ToolError("no_such_colleague", f"No colleague is called {name!r}.")
        return found[0]

    @tool(
        "search",
        ask=(
            "show me the meetings organised by {organiser_id}",
            "list the meetings with {organiser_id} as the organiser",
            "check which meetings are organised by {organiser_id}",
        ),
        rows="the ~ organised by {organiser_id}",
    )
    def list_meetings(self, organiser_id: ColleagueId) -> list[Meeting]:
        """List the meetings that a colleague organises, also those that are cancelled or over.

        Args:
            organiser_id: The colleague who organises the meetings.
        """
        self.colleagues[organiser_id]
        return self.meetings.where(organiser_id=organiser_id)

    @tool(
        "search",
        ask=(
            "show me who is invited to {meeting_id}",
            "list the invitations to {meeting_id}",
            "check {meeting_id}'s guest list",
            "tell me who was asked to come to {meeting_id}",
        ),
        rows="the ~ to {meeting_id}",
    )
    def list_meeting_invitations(self, meeting_id: MeetingId) -> list[Invitation]:
        """List all invitations to a meeting.

        Args:
            meeting_id: The meeting that the invitations are for.
        """
        self.meetings[meeting_id]
        return self.invitations.where(meeting_id=meeting_id)

    @tool(
        "search",
        ask=(
            "show me {attendee_id}'s invitations",
            "list the invitations that went to {attendee_id}",
            "check which invitations there are for {attendee_id}",
            "go through {attendee_id}'s invitations",
        ),
        rows="{attendee_id}'s ~",
    )
    def list_invitations(self, attendee_id: ColleagueId) -> list[Invitation]:
        """List all invitations that a colleague got, whatever the answer was.

        Args:
            attendee_id: The colleague who was invited.
        """
        self.colleagues[attendee_id]
        return self.invitations.where(attendee_id=attendee_id)

    @tool(
        "search",
        ask=(
            "find the meeting rooms on the {floor} floor in {city}",
            "show me which meeting rooms there are on the {floor} floor in {city}",
            "list the meeting rooms on the {floor} floor in {city}",
            "check the {floor} floor in {city} for meeting rooms",
        ),
        rows="the ~ on the {floor} floor in {city}",
    )
    def search_meeting_rooms(self, city: City, floor: Floor) -> list[MeetingRoom]:
        """List the meeting rooms on a floor of the office in a city.

        Args:
            city: The city of the office.
            floor: The floor of the office.
        """
        return self.meeting_rooms.where(city=city, floor=floor)

    @tool(
        "search",
        ask=(
            "show me {colleague_id}'s reminders",
            "list the reminders that are set for {colleague_id}",
            "go through {colleague_id}'s reminders",
            "check which reminders there are for {colleague_id}",
        ),
        rows="{colleague_id}'s ~",
    )
    def list_reminders(self, colleague_id: ColleagueId) -> list[Reminder]:
        """List the reminders that are set for a colleague.

        Args:
            colleague_id: The colleague who gets the reminders.
        """
        self.colleagues[colleague_id]
        return self.reminders.where(colleague_id=colleague_id)

    @tool(
        "compute",
        ask=(
            "work out {colleague_id}'s free minutes on {date}",
            "calculate {colleague_id}'s free time on {date} in minutes",
            "add up the minutes without meetings in {colleague_id}'s calendar on {date}",
            "check how much free time there is in {colleague_id}'s calendar on {date}",
        ),
        rows="{colleague_id}'s free time on {date}",
    )
    def compute_free_minutes(self, colleague_id: ColleagueId, date: Date) -> FreeTime:
        """Work out how many minutes between 09:00 and 17:00 a colleague has no meeting, organised or accepted.

        Args:
            colleague_id: The colleague whose day it is.
            date: The day.
        """
        self.colleagues[colleague_id]
        free, until = 0, DAY_STARTS
        for begin, end in sorted(_span(m.time, m.minutes) for m in self._appointments(colleague_id, date)):
            free += max(0, min(begin, DAY_ENDS) - until)
            until = max(until, end)
        return FreeTime(free_minutes=free + max(0, DAY_ENDS - until))

    @tool(
        "create",
        ask=(
            "schedule a meeting called {title} for {organiser_id} on {date} at {time}",
            "put the meeting {title} into {organiser_id}'s calendar on {date} at {time}",
            "set up a meeting called {title} for {organiser_id} on {date} at {time}",
            "arrange a meeting called {title} for {organiser_id} on {date} at {time}",
        ),
        done="The {title} meeting is planned for {date} at {time}.",
        errors=("in_the_past", "busy"),
    )
    def schedule_meeting(self, organiser_id: ColleagueId, title: MeetingTitle, date: Date, time: Time) -> Meeting:
        """Schedule a meeting of an hour, at 09:00 where no time is given. The organiser must be free then.

        Args:
            organiser_id: The colleague who organises the meeting.
            title: What the meeting is called.
            date: The day of the meeting.
            time: When it begins.
        """
        organiser = self.colleagues[organiser_id]
        self._check_future(date, time)
        self._check_free(organiser, date, time, USUAL_MINUTES)
        return self.meetings.add(
            organiser_id=organiser_id, organiser=organiser.name, title=title, date=date, time=time,
            minutes=USUAL_MINUTES, status="planned",
        )  # fmt: skip

    @tool(
        "create",
        ask=(
            "reserve {meeting_room_id} for {meeting_id}",
            "book {meeting_room_id} for {meeting_id}",
            "keep {meeting_room_id} free for {meeting_id}",
            "put {meeting_id} into {meeting_room_id}",
        ),
        done="The {room} is reserved for the {title} meeting on {date} at {time}.",
        errors=("cancelled", "over", "has_room", "too_small", "room_taken"),
    )
    def reserve_meeting_room(self, meeting_room_id: MeetingRoomId, meeting_id: MeetingId) -> RoomReservation:
        """Reserve a meeting room for a meeting that has none. There must be seats for all who have not declined.

        Args:
            meeting_room_id: The meeting room to reserve.
            meeting_id: The meeting that needs the room.
        """
        room, meeting = self.meeting_rooms[meeting_room_id], self._planned(meeting_id)
        if self.reservations.where(meeting_id=meeting_id):
            raise ToolError("has_room", f"Meeting {meeting_id} has a room already; moving it would give the room back.")
        guests = self.invitations.where(lambda i: i.meeting_id == meeting_id and i.status != "declined")
        if room.seats <= len(guests):
            raise ToolError("too_small", f"The {room.room} has {room.seats} seats; {len(guests) + 1} are needed.")
        for other in self.reservations.where(meeting_room_id=room.id, date=meeting.date):
            if _overlap(meeting, other.time, self.meetings[other.meeting_id].minutes):
                raise ToolError("room_taken", f"The {room.room} is taken on {meeting.date} at {meeting.time}.")
        return self.reservations.add(
            meeting_room_id=room.id, meeting_id=meeting_id, room=room.room, title=meeting.title, date=meeting.date,
            time=meeting.time,
        )  # fmt: skip

    @tool(
        "create",
        ask=(
            "remind {colleague_id} {days} ahead of {meeting_id}",
            "set a reminder for {colleague_id} {days} before {meeting_id}",
            "add a reminder for {colleague_id} {days} ahead of {meeting_id}",
            "have {colleague_id} reminded {days} before {meeting_id}",
        ),
        done="A reminder about the {title} meeting is set for {date}.",
        errors=("cancelled", "over", "in_the_past", "not_attending", "already_set"),
    )
    def set_reminder(self, colleague_id: ColleagueId, meeting_id: MeetingId, days: DaysAhead) -> Reminder:
        """Set a reminder about a meeting for its organiser or for a colleague who has accepted the invitation.

        Args:
            colleague_id: The colleague who gets the reminder.
            meeting_id: The meeting that it is about.
            days: How many days before the meeting the reminder comes. That day must not be past.
        """
        colleague, meeting = self.colleagues[colleague_id], self._planned(meeting_id)
        date = day_after(meeting.date, -days)
        if date < self.today:
            raise ToolError("in_the_past", f"{days} days before meeting {meeting_id} is {date}, which is in the past.")
        if meeting.organiser_id != colleague_id:
            self._accepted(colleague, meeting)
        if self.reminders.where(colleague_id=colleague_id, meeting_id=meeting_id):
            raise ToolError("already_set", f"{colleague.name} has a reminder about meeting {meeting_id} already.")
        return self.reminders.add(
            colleague_id=colleague_id, meeting_id=meeting_id, name=colleague.name, title=meeting.title, date=date
        )

    @tool(
        "update",
        ask=(
            "move {meeting_id} to {date} at {time}",
            "shift {meeting_id} to {date} at {time}",
            "reschedule {meeting_id} for {date} at {time}",
            "have {meeting_id} take place on {date} at {time}",
        ),
        done="The {title} meeting was moved to {date} at {time}.",
        errors=("cancelled", "over", "in_the_past", "same_time", "busy"),
    )
    def move_meeting(self, meeting_id: MeetingId, date: Date, time: Time) -> Meeting:
        """Move a meeting. Its room is given back, and its invitations are pending again.

        Args:
            meeting_id: The meeting to move.
            date: The new day.
            time: When it begins on that day.
        """
        meeting = self._planned(meeting_id)
        self._check_future(date, time)
        if (meeting.date, meeting.time) == (date, time):
            raise ToolError("same_time", f"Meeting {meeting_id} is on {date} at {time} already.")
        self._check_free(self.colleagues[meeting.organiser_id], date, time, meeting.minutes, besides=meeting_id)
        self._give_room_back(meeting_id)
        for invitation in self.invitations.where(meeting_id=meeting_id):
            self.invitations.change(invitation, date=date, status="pending")
        return self.meetings.change(meeting, date=date, time=time)

    @tool(
        "update",
        ask=(
            "say {answer} to {invitation_id}",
            "reply {answer} to {invitation_id}",
            "answer {invitation_id} with {answer}",
            "respond with {answer} to {invitation_id}",
        ),
        done="{attendee} has {status} the invitation to the {title} meeting.",
        errors=("cancelled", "over", "same_answer", "busy"),
    )
    def answer_invitation(self, invitation_id: InvitationId, answer: Answer) -> Invitation:
        """Accept an invitation (yes) or decline it (no). Who accepts must be free at the time of the meeting.

        Args:
            invitation_id: The invitation to answer.
            answer: Whether the colleague comes.
        """
        invitation = self.invitations[invitation_id]
        meeting = self._planned(invitation.meeting_id)
        status: InvitationStatus = "accepted" if answer == "yes" else "declined"
        if invitation.status == status:
            raise ToolError("same_answer", f"Invitation {invitation_id} is {status} already.")
        if status == "accepted":
            self._check_free(
                self.colleagues[invitation.attendee_id], meeting.date, meeting.time, meeting.minutes, besides=meeting.id
            )
        return self.invitations.change(invitation, status=status)

    @tool(
        "delete",
        ask=("cancel {meeting_id}", "call off {meeting_id}", "drop {meeting_id} from the calendar"),
        done="The {title} meeting on {date} is cancelled.",
        errors=("cancelled", "over"),
    )
    def cancel_meeting(self, meeting_id: MeetingId) -> Meeting:
        """Cancel a meeting that is still to come. Its room is given back.

        Args:
            meeting_id: The meeting to cancel.
        """
        meeting = self._planned(meeting_id)
        self._give_room_back(meeting_id)
        return self.meetings.change(meeting, status="cancelled")

    @tool(
        "delete",
        ask=("delete {reminder_id}", "remove {reminder_id}", "switch off {reminder_id}", "drop {reminder_id}"),
        done="The reminder about the {title} meeting is gone.",
    )
    def delete_reminder(self, reminder_id: ReminderId) -> Reminder:
        """Delete a reminder.

        Args:
            reminder_id: The reminder to delete.
        """
        return self.reminders.remove(self.reminders[reminder_id])

    @tool(
        "transfer",
        ask=(
            "hand {meeting_id} over to {colleague_id}",
            "make {colleague_id} the organiser of {meeting_id}",
            "transfer {meeting_id} to {colleague_id}",
            "make {colleague_id} responsible for {meeting_id}",
        ),
        done="{organiser} is now the organiser of the {title} meeting.",
        errors=("cancelled", "over", "already_organiser", "not_attending"),
    )
    def hand_over_meeting(self, meeting_id: MeetingId, colleague_id: ColleagueId) -> Meeting:
        """Make a colleague who has accepted the invitation the organiser. The former one takes that invitation over.

        Args:
            meeting_id: The meeting that gets a new organiser.
            colleague_id: The new organiser.
        """
        meeting, colleague = self._planned(meeting_id), self.colleagues[colleague_id]
        if meeting.organiser_id == colleague_id:
            raise ToolError("already_organiser", f"{colleague.name} organises meeting {meeting_id} already.")
        invitation = self._accepted(colleague, meeting)
        self.invitations.change(invitation, attendee_id=meeting.organiser_id, attendee=meeting.organiser)
        return self.meetings.change(meeting, organiser_id=colleague_id, organiser=colleague.name)

    @tool(
        "send",
        ask=(
            "invite {colleague_id} to {meeting_id}",
            "send {colleague_id} an invitation to {meeting_id}",
            "put {colleague_id} on {meeting_id}'s guest list",
            "have {colleague_id} invited to {meeting_id}",
        ),
        done="An invitation to the {title} meeting on {date} went to {attendee}.",
        errors=("cancelled", "over", "own_meeting", "already_invited"),
    )
    def send_invitation(self, meeting_id: MeetingId, colleague_id: ColleagueId) -> Invitation:
        """Invite a colleague to a meeting. Nobody is invited twice, whatever the first answer was.

        Args:
            meeting_id: The meeting that the invitation is for.
            colleague_id: The colleague to invite.
        """
        meeting, colleague = self._planned(meeting_id), self.colleagues[colleague_id]
        if meeting.organiser_id == colleague_id:
            raise ToolError("own_meeting", f"{colleague.name} organises meeting {meeting_id} and needs no invitation.")
        if self.invitations.where(meeting_id=meeting_id, attendee_id=colleague_id):
            raise ToolError("already_invited", f"{colleague.name} has an invitation to meeting {meeting_id} already.")
        return self.invitations.add(
            meeting_id=meeting_id, title=meeting.title, date=meeting.date, attendee_id=colleague_id,
            attendee=colleague.name, status="pending",
        )  # fmt: skip

    def _planned(self, meeting_id: str) -> Meeting:
        meeting = self.meetings[meeting_id]
        if meeting.status == "cancelled":
            raise ToolError("cancelled", f"Meeting {meeting_id} is cancelled; only planned meetings can be changed.")
        if f"{meeting.date}T{meeting.time}" <= self.state.world.now:
            raise ToolError("over", f"Meeting {meeting_id} was on {meeting.date}; the past cannot be changed.")
        return meeting

    def _accepted(self, colleague: Colleague, meeting: Meeting) -> Invitation:
        found = self.invitations.where(
            lambda i: i.meeting_id == meeting.id and i.attendee_id == colleague.id and i.status == "accepted"
        )
        if not found:
            raise ToolError(
                "not_attending", f"{colleague.name} must first accept an invitation to meeting {meeting.id}."
            )
        return found[0]

    def _appointments(self, colleague_id: str, date: str) -> list[Meeting]:
        accepted = self.invitations.where(
            lambda i: i.attendee_id == colleague_id and i.date == date and i.status == "accepted"
        )
        ids = {i.meeting_id for i in accepted}
        return self.meetings.where(
            lambda m: m.date == date and m.status == "planned" and (m.organiser_id == colleague_id or m.id in ids)
        )

    def _check_free(self, colleague: Colleague, date: str, time: str, minutes: int, besides: str = "") -> None:
        for other in self._appointments(colleague.id, date):
            if other.id != besides and _overlap(other, time, minutes):
                raise ToolError("busy", f"{colleague.name} is in meeting {other.id} on {date} at {other.time}.")

    def _check_future(self, date: str, time: str) -> None:
        if f"{date}T{time}" <= self.state.world.now:
            raise ToolError("in_the_past", f"{date} at {time} is in the past; a meeting must be still to come.")

    def _give_room_back(self, meeting_id: str) -> None:
        for reservation in self.reservations.where(meeting_id=meeting_id):
            self.reservations.remove(reservation)

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        offices = draw.sample(CITIES, 2)
        colleagues = [Colleague(draw.id("col"), p.name, p.email, draw.choice(offices)) for p in cast.people[:5]]
        names = iter(draw.shuffled(ROOMS))
        rooms = [
            MeetingRoom(draw.id("mro"), next(names), city, floor, seats)
            for city in offices
            for floor in draw.sample(FLOORS, 2 if size == 1 else 4)
            for seats in draw.sample((2, 3, 4, 6, 8, 12), 2 + draw.index(2))
        ]
        yield from colleagues
        yield from rooms
        busiest = draw.sample([r for r in rooms if r.seats >= 4], 2 * size)  # few, so that some are taken when wanted
        taken: set[tuple[str, str]] = set()
        titles = draw.shuffled(TITLES)
        for organiser in colleagues[:4]:
            for days in draw.sample(DAYS * size, 2 * size + draw.index(2)):
                days = days if draw.chance(0.85) else -2 * days
                date, title = day_after(today, days), titles.pop()
                titles = titles or draw.shuffled(TITLES)
                meeting = Meeting(
                    draw.id("mee"), organiser.id, organiser.name, title, date, draw.choice(TIMES),
                    draw.choice((30, 45, 60, 75, 90, 120)), "cancelled" if draw.chance(0.12) else "planned",
                )  # fmt: skip
                yield meeting
                others = [c for c in colleagues if c is not organiser]
                attendees = [organiser]
                for guest in draw.sample(others, 2 + draw.index(2)):
                    status = draw.choice(STATUSES)
                    yield Invitation(draw.id("ivt"), meeting.id, title, date, guest.id, guest.name, status)
                    if status == "accepted":
                        attendees.append(guest)
                if meeting.status == "cancelled" or days < 0:
                    continue
                room = draw.choice(busiest)
                if (room.id, date) not in taken and draw.chance(0.6):
                    taken.add((room.id, date))
                    yield RoomReservation(draw.id("rrs"), room.id, meeting.id, room.room, title, date, meeting.time)
                for person in attendees:
                    if draw.chance(0.6):
                        on = day_after(today, draw.integer(1, days - 1))
                        yield Reminder(draw.id("rem"), person.id, meeting.id, person.name, title, on)


def _span(time: str, minutes: int) -> tuple[int, int]:
    begin = int(time[:2]) * 60 + int(time[3:])
    return begin, begin + minutes


def _overlap(meeting: Meeting, time: str, minutes: int) -> bool:
    begin, end = _span(meeting.time, meeting.minutes)
    other_begin, other_end = _span(time, minutes)
    return begin < other_end and other_begin < end
