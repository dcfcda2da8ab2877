"""A travel desk: travellers, flights, bookings, hotels, their rooms, stays, itineraries and travel credit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.kinds import Amount, City, Date, Email, Kind, PersonName, Quantity, Ref, Time
from rods_env.apis.lexicon import CITIES, Cast
from rods_env.errors import ToolError

AIRLINES = ("Nordwing", "Alpine Air", "Blue Heron", "Sunline", "Cloudjet", "Starling", "Polar Air", "Swiftway")
HOTELS = (
    "Aurora Hotel", "Grand Palace", "Old Mill Inn", "Harbour Inn", "Garden Court", "Station Hotel", "Blue Lantern",
    "Park Lodge", "Royal Crown", "Riverside Inn", "White Swan", "Golden Lion", "Cathedral Hotel", "Opera Hotel",
    "Lakeside Lodge", "Green Door", "City Gate Hotel", "Silver Star",
)  # fmt: skip
ROOM_PRICES = {"single room": (55, 85), "double room": (90, 140), "family room": (145, 190), "corner suite": (195, 290)}

TravellerId = Annotated[str, Ref("traveller")]
FlightId = Annotated[str, Ref("flight")]
BookingId = Annotated[str, Ref("booking")]
HotelId = Annotated[str, Ref("hotel")]
RoomId = Annotated[str, Ref("hotel_room")]
StayId = Annotated[str, Ref("stay")]
Airline = Annotated[str, Kind("airline", "The name of an airline.", words=AIRLINES, exchangeable=True)]
HotelName = Annotated[str, Kind("hotel_name", "What a hotel is called.", words=HOTELS, exchangeable=True)]
RoomType = Annotated[str, Kind("room_type", "The type of a hotel room.", words=tuple(ROOM_PRICES))]
Fare = Literal["basic", "flexible"]
BookingStatus = Literal["confirmed", "cancelled", "refunded"]
StayStatus = Literal["reserved", "paid"]


class Traveller(Record, frozen=True):
    """A person whose travels the desk looks after."""

    CALLED: ClassVar[str] = "{name}"

    id: TravellerId
    name: PersonName
    email: Email


class TravelCredit(Record, frozen=True):
    """The money that a traveller has with the travel desk."""

    NOUN: ClassVar[str] = "travel credit"

    id: Annotated[str, Ref("travel_credit")]
    traveller_id: TravellerId
    holder: PersonName
    balance: Amount


class Flight(Record, frozen=True):
    """A flight with the price of its basic fare."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "airline": "{} ~",
        "departure": ("earliest ~", "latest ~"),
        "price": ("cheapest ~", "most expensive ~"),
        "seats": ("fullest ~", "emptiest ~"),
    }

    id: FlightId
    airline: Airline
    origin: City
    destination: City
    date: Date
    departure: Time
    price: Amount
    seats: int


class Booking(Record, frozen=True):
    """A seat on a flight for one traveller."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "destination": "~ to {}",
        "date": ("~ with the earliest date", "~ with the latest date"),
        "price": ("cheapest ~", "most expensive ~"),
    }

    id: BookingId
    traveller_id: TravellerId
    passenger: PersonName
    flight_id: str  # no Ref: to book the flight of a booking again is no wish anybody has
    origin: City
    destination: City
    date: Date
    departure: Time
    fare: Fare
    price: Amount
    status: BookingStatus


class Hotel(Record, frozen=True):
    """A hotel in a city."""

    CALLED: ClassVar[str] = "the {hotel}"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "hotel": "{}",
        "guest_score": ("worst-rated ~", "best-rated ~"),
        "metres_to_centre": ("most central ~", "least central ~"),
    }

    id: HotelId
    hotel: HotelName
    city: City
    guest_score: float
    metres_to_centre: int


class HotelRoom(Record, frozen=True):
    """A type of room in a hotel: what a night costs, and how many such rooms are free."""

    CALLED: ClassVar[str] = "the {room_type} at the {hotel}"
    NOUN: ClassVar[str] = "room"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {"room_type": "{}", "price": ("cheapest ~", "most expensive ~")}

    id: RoomId
    hotel_id: HotelId
    hotel: HotelName
    room_type: RoomType
    price: Amount
    free: int


class Stay(Record, frozen=True):
    """A hotel room that is reserved for a traveller."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "hotel": "~ at the {}",
        "check_in": ("~ with the earliest check-in", "~ with the latest check-in"),
        "total": ("cheapest ~", "most expensive ~"),
    }

    id: StayId
    traveller_id: TravellerId
    guest: PersonName
    room_id: RoomId
    hotel_id: HotelId
    hotel: HotelName
    city: City
    room_type: RoomType
    check_in: Date
    check_out: Date
    total: Amount
    status: StayStatus


class StayPrice(Record, frozen=True):
    """What a stay would cost."""

    total: Amount


class Itinerary(Record, frozen=True):
    """A travel plan that was sent by e-mail."""

    id: Annotated[str, Ref("itinerary")]
    booking_id: BookingId
    passenger: PersonName
    origin: City
    destination: City
    date: Date
    email: Email


class Travel(Api):
    """A travel desk, as its agents see it."""

    NAME: ClassVar[str] = "travel"

    travellers = Table(Traveller, "trv")
    credits = Table(TravelCredit, "tcr")
    flights = Table(Flight, "flt")
    bookings = Table(Booking, "bkg")
    hotels = Table(Hotel, "htl")
    rooms = Table(HotelRoom, "hrm")
    stays = Table(Stay, "sty")
    itineraries = Table(Itinerary, "itn")

    @tool(
        "lookup",
        ask=(
            "look up {name}'s travel profile",
            "find {name} in the list of travellers",
            "check the travel desk's records for {name}",
            "look up {name} at the travel desk",
        ),
        rows="{name}",
        errors=("no_such_traveller",),
    )
    def find_traveller(self, name: PersonName) -> Traveller:
        """Find a traveller by name.

        Args:
            name: The traveller's full name.
        """
        found = self.travellers.where(name=name)
        if not found:
            raise ToolError("no_such_traveller", f"No traveller is called {name!r}.")
        return found[0]

    @tool(
        "lookup",
        ask=(
            "check {traveller_id}'s travel credit",
            "tell me the balance of {traveller_id}'s travel credit",
            "look up {traveller_id}'s travel credit",
            "find out how much is left of {traveller_id}'s travel credit",
        ),
        rows="{traveller_id}'s travel credit",
    )
    def check_travel_credit(self, traveller_id: TravellerId) -> TravelCredit:
        """Say how much travel credit a traveller has.

        Args:
            traveller_id: The traveller whose credit is wanted.
        """
        return self._credit(traveller_id)

    @tool(
        "search",
        ask=(
            "find flights from {origin} to {destination} on {date}",
            "show me the flights from {origin} to {destination} on {date}",
            "tell me which flights there are from {origin} to {destination} on {date}",
            "check which airlines fly from {origin} to {destination} on {date}",
        ),
        rows="the ~ from {origin} to {destination} on {date}",
    )
    def search_flights(self, origin: City, destination: City, date: Date) -> list[Flight]:
        """List the flights between two cities on a day.

        Args:
            origin: The city where the flight starts.
            destination: The city where it lands.
            date: The day of the flight.
        """
        return self.flights.where(lambda f: f.origin == origin and f.destination == destination and f.date == date)

    @tool(
        "search",
        ask=(
            "show me {traveller_id}'s flight bookings",
            "list {traveller_id}'s flight bookings",
            "go through {traveller_id}'s flight bookings",
            "tell me which flights are booked for {traveller_id}",
        ),
        rows="{traveller_id}'s ~",
    )
    def list_flight_bookings(self, traveller_id: TravellerId) -> list[Booking]:
        """List all flight bookings of a traveller.

        Args:
            traveller_id: The traveller whose bookings are wanted.
        """
        self.travellers[traveller_id]
        return self.bookings.where(traveller_id=traveller_id)

    @tool(
        "search",
        ask=(
            "find hotels in {city}",
            "show me the hotels in {city}",
            "tell me which hotels there are in {city}",
            "look for a hotel in {city}",
        ),
        rows="the ~ in {city}",
    )
    def search_hotels(self, city: City) -> list[Hotel]:
        """List the hotels in a city.

        Args:
            city: The city to stay in.
        """
        return self.hotels.where(city=city)

    @tool(
        "search",
        ask=(
            "show me the rooms at {hotel_id}",
            "tell me what kinds of rooms there are at {hotel_id}",
            "list the room types at {hotel_id}",
            "check which rooms are on offer at {hotel_id}",
        ),
        rows="the ~ at {hotel_id}",
    )
    def list_hotel_rooms(self, hotel_id: HotelId) -> list[HotelRoom]:
        """List the room types of a hotel with their price for a night and how many are free.

        Args:
            hotel_id: The hotel whose rooms are wanted.
        """
        self.hotels[hotel_id]
        return self.rooms.where(hotel_id=hotel_id)

    @tool(
        "search",
        ask=(
            "show me {traveller_id}'s hotel stays",
            "list {traveller_id}'s hotel stays",
            "go through {traveller_id}'s hotel stays",
            "tell me which hotel stays there are for {traveller_id}",
        ),
        rows="{traveller_id}'s ~",
    )
    def list_hotel_stays(self, traveller_id: TravellerId) -> list[Stay]:
        """List all hotel stays of a traveller, past ones too.

        Args:
            traveller_id: The traveller whose stays are wanted.
        """
        self.travellers[traveller_id]
        return self.stays.where(traveller_id=traveller_id)

    @tool(
        "compute",
        ask=(
            "work out what {nights} nights in {room_id} would cost",
            "tell me the price of {nights} nights in {room_id}",
            "calculate the total for {nights} nights in {room_id}",
            "check how much I would pay for {nights} nights in {room_id}",
        ),
        rows="the price of {nights} nights in {room_id}",
    )
    def price_stay(self, room_id: RoomId, nights: Quantity) -> StayPrice:
        """Work out what a stay costs. From five nights on there is a tenth off.

        Args:
            room_id: The room to stay in.
            nights: How many nights.
        """
        return StayPrice(total=self._stay_total(self.rooms[room_id], nights))

    @tool(
        "create",
        ask=(
            "book {flight_id} for {traveller_id} at the {fare} fare",
            "get {traveller_id} a {fare} ticket for {flight_id}",
            "put {traveller_id} on {flight_id} with a {fare} ticket",
            "book a {fare} ticket for {flight_id} in {traveller_id}'s name",
        ),
        done="{passenger} has a seat on a flight from {origin} to {destination} on {date}.",
        errors=("full_flight", "already_booked"),
    )
    def book_flight(self, traveller_id: TravellerId, flight_id: FlightId, fare: Fare) -> Booking:
        """Book a seat on a flight. Only a flexible fare can be rebooked or refunded; it costs a quarter more.

        Args:
            traveller_id: The traveller who flies.
            flight_id: The flight to book.
            fare: The kind of ticket.
        """
        traveller, flight = self.travellers[traveller_id], self._flight_with_seat(flight_id)
        self._refuse_second_seat(traveller, flight_id)
        self.flights.change(flight, seats=flight.seats - 1)
        return self.bookings.add(
            traveller_id=traveller_id, passenger=traveller.name, flight_id=flight_id, origin=flight.origin,
            destination=flight.destination, date=flight.date, departure=flight.departure, fare=fare,
            price=self._fare_price(flight, fare), status="confirmed",
        )  # fmt: skip

    @tool(
        "create",
        ask=(
            "reserve {room_id} for {traveller_id} for {nights} nights from {check_in}",
            "book {traveller_id} into {room_id} from {check_in} for {nights} nights",
            "get {traveller_id} {room_id} for {nights} nights from {check_in}",
            "book {nights} nights from {check_in} in {room_id} for {traveller_id}",
        ),
        done="The {room_type} at the {hotel} is reserved for {guest} from {check_in} to {check_out}.",
        errors=("room_type_taken", "in_the_past", "overlapping_stay"),
    )
    def reserve_hotel_room(self, traveller_id: TravellerId, room_id: RoomId, check_in: Date, nights: Quantity) -> Stay:
        """Reserve a hotel room for a traveller who is nowhere else on those nights.

        Args:
            traveller_id: The traveller who stays.
            room_id: The room to reserve.
            check_in: The first night.
            nights: How many nights.
        """
        traveller, room = self.travellers[traveller_id], self.rooms[room_id]
        if room.free < 1:
            raise ToolError("room_type_taken", f"Every {room.room_type} at the {room.hotel} is taken.")
        if check_in < self.today:
            raise ToolError("in_the_past", f"{check_in} is in the past; today is {self.today}.")
        check_out = day_after(check_in, nights)
        if self.stays.where(
            lambda s: s.traveller_id == traveller_id and s.check_in < check_out and check_in < s.check_out
        ):
            raise ToolError("overlapping_stay", f"{traveller.name} has another stay on some of those nights.")
        self.rooms.change(room, free=room.free - 1)
        return self.stays.add(
            traveller_id=traveller_id, guest=traveller.name, room_id=room_id, hotel_id=room.hotel_id, hotel=room.hotel,
            city=self.hotels[room.hotel_id].city, room_type=room.room_type, check_in=check_in, check_out=check_out,
            total=self._stay_total(room, nights), status="reserved",
        )  # fmt: skip

    @tool(
        "update",
        ask=(
            "make {booking_id} flexible",
            "give {booking_id} a flexible fare",
            "turn {booking_id} into a flexible one",
        ),
        done="The booking from {origin} to {destination} on {date} now has a flexible fare.",
        errors=("not_confirmed", "already_flexible"),
    )
    def upgrade_fare(self, booking_id: BookingId) -> Booking:
        """Turn the basic fare of a confirmed booking into a flexible one, which can be rebooked and refunded.

        Args:
            booking_id: The booking to upgrade.
        """
        booking = self._confirmed(booking_id)
        if booking.fare == "flexible":
            raise ToolError("already_flexible", f"Booking {booking_id} has a flexible fare already.")
        price = self._fare_price(self.flights[booking.flight_id], "flexible")
        return self.bookings.change(booking, fare="flexible", price=price)

    @tool(
        "update",
        ask=(
            "rebook {booking_id} onto {flight_id}",
            "move {booking_id} onto {flight_id}",
            "put {booking_id} on {flight_id} instead",
        ),
        done="The booking from {origin} to {destination} was moved to the {departure} flight on {date}.",
        errors=("not_confirmed", "basic_fare", "other_route", "already_booked", "full_flight"),
    )
    def rebook_flight(self, booking_id: BookingId, flight_id: FlightId) -> Booking:
        """Move a confirmed booking with a flexible fare to another flight between the same cities.

        Args:
            booking_id: The booking to move.
            flight_id: The flight to take instead.
        """
        booking, flight = self._confirmed(booking_id), self.flights[flight_id]
        if booking.fare == "basic":
            raise ToolError("basic_fare", f"Booking {booking_id} has a basic fare; upgrade it to a flexible one first.")
        if (flight.origin, flight.destination) != (booking.origin, booking.destination):
            route = f"from {booking.origin} to {booking.destination}"
            raise ToolError("other_route", f"Booking {booking_id} can only move to another flight {route}.")
        self._refuse_second_seat(self.travellers[booking.traveller_id], flight_id)
        flight = self._flight_with_seat(flight_id)
        former = self.flights[booking.flight_id]
        self.flights.change(former, seats=former.seats + 1)
        self.flights.change(flight, seats=flight.seats - 1)
        return self.bookings.change(
            booking, flight_id=flight_id, date=flight.date, departure=flight.departure,
            price=self._fare_price(flight, booking.fare),
        )  # fmt: skip

    @tool(
        "delete",
        ask=("cancel {booking_id}", "call off {booking_id}", "drop {booking_id}"),
        done="The booking from {origin} to {destination} on {date} is cancelled.",
        errors=("not_confirmed",),
    )
    def cancel_flight_booking(self, booking_id: BookingId) -> Booking:
        """Cancel a confirmed booking. This alone gives no money back.

        Args:
            booking_id: The booking to cancel.
        """
        booking = self._confirmed(booking_id)
        flight = self.flights[booking.flight_id]
        self.flights.change(flight, seats=flight.seats + 1)
        return self.bookings.change(booking, status="cancelled")

    @tool(
        "transfer",
        ask=(
            "refund {booking_id} as travel credit",
            "pay back the fare for {booking_id} as travel credit",
            "turn what {booking_id} cost into travel credit",
        ),
        done="The fare for the flight from {origin} to {destination} went back to {passenger}'s travel credit.",
        errors=("not_cancelled", "already_refunded", "basic_fare"),
    )
    def refund_flight_booking(self, booking_id: BookingId) -> Booking:
        """Pay the price of a cancelled booking with a flexible fare into the traveller's travel credit.

        Args:
            booking_id: The booking to refund.
        """
        booking = self.bookings[booking_id]
        if booking.status == "refunded":
            raise ToolError("already_refunded", f"Booking {booking_id} was refunded before.")
        if booking.status != "cancelled":
            raise ToolError("not_cancelled", f"Booking {booking_id} is {booking.status}; cancel it first.")
        if booking.fare == "basic":
            raise ToolError("basic_fare", f"Booking {booking_id} had a basic fare; only flexible ones are refunded.")
        credit = self._credit(booking.traveller_id)
        self.credits.change(credit, balance=round(credit.balance + booking.price, 2))
        return self.bookings.change(booking, status="refunded")

    @tool(
        "transfer",
        ask=(
            "put {booking_id} in {traveller_id}'s name",
            "let {traveller_id} take over {booking_id}",
            "have {traveller_id} fly on {booking_id} instead",
        ),
        done="The booking from {origin} to {destination} on {date} now belongs to {passenger}.",
        errors=("not_confirmed", "already_booked"),
    )
    def hand_over_booking(self, booking_id: BookingId, traveller_id: TravellerId) -> Booking:
        """Hand a confirmed booking over to a traveller who has no seat on that flight.

        Args:
            booking_id: The booking to hand over.
            traveller_id: The traveller who flies instead.
        """
        booking, traveller = self._confirmed(booking_id), self.travellers[traveller_id]
        self._refuse_second_seat(traveller, booking.flight_id)
        return self.bookings.change(booking, traveller_id=traveller_id, passenger=traveller.name)

    @tool(
        "transfer",
        ask=(
            "pay for {stay_id} with travel credit",
            "settle the bill for {stay_id} with travel credit",
            "use travel credit to pay for {stay_id}",
        ),
        done="{guest}'s stay at the {hotel} is paid.",
        errors=("already_paid", "credit_too_low"),
    )
    def pay_hotel_stay(self, stay_id: StayId) -> Stay:
        """Pay for a reserved stay out of the guest's travel credit, of which something must be left.

        Args:
            stay_id: The stay to pay for.
        """
        stay = self.stays[stay_id]
        if stay.status == "paid":
            raise ToolError("already_paid", f"Stay {stay_id} is paid already.")
        credit = self._credit(stay.traveller_id)
        if credit.balance <= stay.total:
            need = f"more than {stay.total:.2f} euros are needed"
            raise ToolError("credit_too_low", f"{stay.guest} has {credit.balance:.2f} euros of travel credit; {need}.")
        self.credits.change(credit, balance=round(credit.balance - stay.total, 2))
        return self.stays.change(stay, status="paid")

    @tool(
        "send",
        ask=(
            "send {email} the itinerary for {booking_id}",
            "let {email} have the itinerary for {booking_id}",
            "mail {email} the travel plan for {booking_id}",
            "e-mail {email} the itinerary for {booking_id}",
        ),
        done="The itinerary for the flight from {origin} to {destination} on {date} went to {email}.",
        errors=("not_confirmed", "already_sent"),
    )
    def email_itinerary(self, booking_id: BookingId, email: Email) -> Itinerary:
        """Send the itinerary of a confirmed booking by e-mail.

        Args:
            booking_id: The booking that the itinerary is for.
            email: Where it goes.
        """
        booking = self._confirmed(booking_id)
        content = {
            "booking_id": booking_id, "passenger": booking.passenger, "origin": booking.origin,
            "destination": booking.destination, "date": booking.date, "email": email,
        }  # fmt: skip
        if self.itineraries.where(booking_id=booking_id, email=email):
            raise ToolError("already_sent", f"The itinerary for booking {booking_id} went to {email} before.")
        return self.itineraries.add(**content)

    def _credit(self, traveller_id: str) -> TravelCredit:
        self.travellers[traveller_id]
        return self.credits.where(traveller_id=traveller_id)[0]

    def _confirmed(self, booking_id: str) -> Booking:
        booking = self.bookings[booking_id]
        if booking.status != "confirmed":
            raise ToolError("not_confirmed", f"Booking {booking_id} is {booking.status}; it has to be confirmed.")
        return booking

    def _flight_with_seat(self, flight_id: str) -> Flight:
        flight = self.flights[flight_id]
        if flight.seats < 1:
            raise ToolError("full_flight", f"Flight {flight_id} is full; another flight or a free seat is needed.")
        return flight

    def _refuse_second_seat(self, traveller: Traveller, flight_id: str) -> None:
        if self.bookings.where(
            lambda b: b.traveller_id == traveller.id and b.flight_id == flight_id and b.status == "confirmed"
        ):
            raise ToolError("already_booked", f"{traveller.name} has a seat on flight {flight_id} already.")

    @staticmethod
    def _fare_price(flight: Flight, fare: Fare) -> float:
        return round(flight.price * (1.25 if fare == "flexible" else 1.0), 2)

    @staticmethod
    def _stay_total(room: HotelRoom, nights: int) -> float:
        return round(room.price * nights * (0.9 if nights >= 5 else 1.0), 2)

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        travellers = [Traveller(draw.id("trv"), p.name, p.email) for p in cast.people[:4]]
        yield from travellers
        for traveller in travellers:
            yield TravelCredit(draw.id("tcr"), traveller.id, traveller.name, draw.amount(40, 700))
        trips = min(2 * size, 6)  # each is a city with hotels, a day to fly there from home, and a day to fly back
        cities, hotel_names = draw.sample(CITIES, 2 * trips), iter(draw.shuffled(HOTELS))
        flights: list[list[Flight]] = []  # by cities and day
        resorts: list[tuple[str, str, list[HotelRoom]]] = []  # city, day of arrival, rooms
        for trip in range(trips):
            home, city, nights = cities[2 * trip], cities[2 * trip + 1], draw.integer(2, 5)
            arrival = draw.date(today, 3 + 10 * trip, 6 + 10 * trip)
            for origin, destination, date in ((home, city, arrival), (city, home, day_after(arrival, nights))):
                same_day = []
                for airline in draw.sample(AIRLINES, draw.choice((2, 2, 3, 4))):
                    seats = 0 if draw.chance(0.15) else draw.integer(1, 40)
                    flight = Flight(
                        draw.id("flt"), airline, origin, destination, date, draw.time(6, 21), draw.amount(60, 380),
                        seats,
                    )  # fmt: skip
                    same_day.append(flight)
                    yield flight
                flights.append(same_day)
            rooms: list[HotelRoom] = []
            for _ in range(draw.choice((2, 2, 3))):
                hotel = Hotel(
                    draw.id("htl"), next(hotel_names), city, draw.integer(52, 97) / 10, 50 * draw.integer(2, 60)
                )
                yield hotel
                for room_type in draw.sample(tuple(ROOM_PRICES), 2 + draw.index(2)):
                    price = draw.amount(*ROOM_PRICES[room_type])
                    free = 0 if draw.chance(0.15) else draw.integer(1, 6)
                    rooms.append(HotelRoom(draw.id("hrm"), hotel.id, hotel.hotel, room_type, price, free))
            yield from rooms
            resorts.append((city, arrival, rooms))
        for traveller in travellers:
            for same_day in draw.sample(flights, size + 1 + draw.index(size + 1)):
                flight = draw.choice(same_day)
                status: BookingStatus = draw.choice(("confirmed", "confirmed", "confirmed", "cancelled", "refunded"))
                fare: Fare = "flexible" if status == "refunded" else draw.choice(("basic", "flexible"))
                yield Booking(
                    draw.id("bkg"), traveller.id, traveller.name, flight.id, flight.origin, flight.destination,
                    flight.date, flight.departure, fare, cls._fare_price(flight, fare), status,
                )  # fmt: skip
            earlier, seen = draw.choice(resorts), set[str]()
            for city, arrival, rooms in ((earlier[0], draw.date(today, -70, -20), earlier[2]), *resorts):
                if arrival < today or draw.chance(0.65):
                    room, nights = draw.choice([r for r in rooms if r.hotel_id not in seen]), draw.integer(2, 5)
                    seen.add(room.hotel_id)
                    paid: StayStatus = "paid" if arrival < today or draw.chance(0.2) else "reserved"
                    yield Stay(
                        draw.id("sty"), traveller.id, traveller.name, room.id, room.hotel_id, room.hotel, city,
                        room.room_type, arrival, day_after(arrival, nights), cls._stay_total(room, nights), paid,
                    )  # fmt: skip
