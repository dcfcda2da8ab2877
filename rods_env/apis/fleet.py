"""A delivery company's fleet: depots, vehicles, drivers, tours, workshop appointments and text messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from rods_env.apis.api import Api, Record, Table, tool
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.kinds import Amount, City, Date, Email, Kind, PersonName, Ref, Sentence
from rods_env.apis.lexicon import CITIES, Cast, lexicon
from rods_env.errors import ToolError

DepotId = Annotated[str, Ref("depot")]
VehicleId = Annotated[str, Ref("vehicle")]
DriverId = Annotated[str, Ref("driver")]
TourId = Annotated[str, Ref("tour")]
AppointmentId = Annotated[str, Ref("workshop_appointment")]
Model = Annotated[str, Kind("vehicle_model", "What a vehicle is called.")]
Plate = Annotated[str, Kind("plate", "The number plate of a vehicle.")]
Licence = Literal["van", "truck"]
VehicleStatus = Literal["free", "on_tour", "in_workshop"]
TourStatus = Literal["planned", "under_way", "done", "called_off"]
Work = Literal["inspection", "new_tyres", "brake_repairs", "paint_work"]

BODIES: tuple[tuple[str, Licence], ...] = (
    ("panel van", "van"), ("long van", "van"), ("pickup", "van"),
    ("box truck", "truck"), ("flatbed truck", "truck"), ("fridge truck", "truck"),
)  # fmt: skip
COLOURS = ("white", "blue", "red", "green", "yellow", "grey", "black", "orange", "silver", "brown")
MODELS: tuple[tuple[str, Licence], ...] = tuple((f"{c} {body}", needs) for c in COLOURS for body, needs in BODIES)
WORKS: tuple[Work, ...] = ("inspection", "new_tyres", "brake_repairs", "paint_work")

LOW_FUEL = 25
EUROS_PER_KM = {"van": 0.55, "truck": 0.95}
EUROS_PER_STOP = 12.5

# Latitude and longitude; a city that is missing here lies in the middle of the map.
POSITIONS = {
    "Oslo": (59.9, 10.8), "Rome": (41.9, 12.5), "Lisbon": (38.7, -9.1), "Vienna": (48.2, 16.4), "Prague": (50.1, 14.4),
    "Dublin": (53.3, -6.3), "Madrid": (40.4, -3.7), "Athens": (38.0, 23.7), "Berlin": (52.5, 13.4),
    "Warsaw": (52.2, 21.0), "Zurich": (47.4, 8.5), "Geneva": (46.2, 6.1), "Helsinki": (60.2, 24.9),
    "Porto": (41.2, -8.6), "Milan": (45.5, 9.2), "Naples": (40.9, 14.3), "Hamburg": (53.6, 10.0),
    "Munich": (48.1, 11.6), "Lyon": (45.8, 4.8), "Nice": (43.7, 7.3), "Bergen": (60.4, 5.3), "Malmo": (55.6, 13.0),
    "Turin": (45.1, 7.7), "Seville": (37.4, -6.0),
}  # fmt: skip
MIDDLE = (49.0, 9.0)


class Depot(Record, frozen=True):
    """A depot of the company; there is at most one in a city."""

    CALLED: ClassVar[str] = "the depot in {city}"

    id: DepotId
    city: str  # no kind: "the city of the depot in Rome" is nothing that anybody says
    places: int


class Vehicle(Record, frozen=True):
    """A vehicle of a depot. Fuel is in percent of a full tank; `licence` is what it takes to drive it."""

    CALLED: ClassVar[str] = "the {model}"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "model": "{}",
        "plate": "~ with the plate {}",
        "fuel": ("~ with the least fuel", "~ with the most fuel"),
    }

    id: VehicleId
    depot_id: DepotId
    city: str
    model: Model
    plate: Plate
    fuel: int
    licence: Licence
    status: VehicleStatus


class Driver(Record, frozen=True):
    """A driver. A truck licence is good for vans too."""

    CALLED: ClassVar[str] = "{name}"

    id: DriverId
    depot_id: DepotId
    name: PersonName
    email: Email
    licence: Licence


class Tour(Record, frozen=True):
    """A tour of one driver on one day. `vehicle_id` is empty until a vehicle is assigned."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "destination": "~ to {}",
        "date": ("earliest ~", "latest ~"),
        "stops": ("~ with the fewest stops", "~ with the most stops"),
    }

    id: TourId
    driver_id: DriverId
    driver: PersonName
    start_city: City
    destination: City
    date: Date
    stops: int
    vehicle_id: str
    status: TourStatus


class WorkshopAppointment(Record, frozen=True):
    """A day that a vehicle spends in the workshop of its depot."""

    NOUN: ClassVar[str] = "workshop appointment"

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "model": "~ for the {}",
        "work": "~ for {}",
        "date": ("earliest ~", "latest ~"),
    }

    id: AppointmentId
    depot_id: DepotId
    vehicle_id: VehicleId
    model: Model
    date: Date
    work: Work


class DriverText(Record, frozen=True):
    """A text message to a driver."""

    NOUN: ClassVar[str] = "text message"

    id: Annotated[str, Ref("driver_text")]
    driver_id: DriverId
    driver: PersonName
    text: Sentence


class TourCost(Record, frozen=True):
    """What a tour costs."""

    cost: Amount


class Fleet(Api):
    """A delivery company's vehicle fleet, as the dispatcher sees it."""

    NAME: ClassVar[str] = "fleet"

    depots = Table(Depot, "dep")
    vehicles = Table(Vehicle, "veh")
    drivers = Table(Driver, "drv")
    tours = Table(Tour, "tou")
    appointments = Table(WorkshopAppointment, "wks")
    driver_texts = Table(DriverText, "txt")

    @tool(
        "lookup",
        ask=(
            "find {name} in the list of drivers",
            "look up {name} among the drivers",
            "check what the list of drivers says about {name}",
            "check which depot {name} drives for",
        ),
        rows="{name}",
        errors=("no_such_driver",),
    )
    def find_driver(self, name: PersonName) -> Driver:
        """Find a driver by name.

        Args:
            name: The driver's full name.
        """
        found = self.drivers.where(name=name)
        if not found:
            raise ToolError("no_such_driver", f"No driver is called {name!r}.")
        return found[0]

    @tool(
        "lookup",
        ask=(
            "look up the depot in {city}",
            "find our depot in {city}",
            "check how many places the depot in {city} has",
        ),
        rows="the depot in {city}",
        errors=("no_depot_there",),
    )
    def find_depot(self, city: City) -> Depot:
        """Find the depot in a city.

        Args:
            city: The city's name.
        """
        found = self.depots.where(city=city)
        if not found:
            raise ToolError("no_depot_there", f"There is no depot in {city!r}.")
        return found[0]

    @tool(
        "search",
        ask=(
            "list the vehicles at {depot_id}",
            "show me which vehicles there are at {depot_id}",
            "check how much fuel the vehicles at {depot_id} have",
            "tell me which vehicles belong to {depot_id}",
        ),
        rows="the ~ at {depot_id}",
    )
    def list_vehicles(self, depot_id: DepotId) -> list[Vehicle]:
        """List the vehicles of a depot with fuel level and status.

        Args:
            depot_id: The depot whose vehicles are wanted.
        """
        self.depots[depot_id]
        return self.vehicles.where(depot_id=depot_id)

    @tool(
        "search",
        ask=(
            "show me {driver_id}'s tours",
            "list all tours for {driver_id}",
            "tell me which tours there are for {driver_id}",
            "go through {driver_id}'s tours",
        ),
        rows="{driver_id}'s ~",
    )
    def list_driver_tours(self, driver_id: DriverId) -> list[Tour]:
        """List all tours of a driver.

        Args:
            driver_id: The driver whose tours are wanted.
        """
        self.drivers[driver_id]
        return self.tours.where(driver_id=driver_id)

    @tool(
        "search",
        ask=(
            "show me the tours that leave {start_city} on {date}",
            "list the tours from {start_city} on {date}",
            "tell me which tours start in {start_city} on {date}",
            "look for tours from {start_city} on {date}",
        ),
        rows="the ~ leaving {start_city} on {date}",
    )
    def search_tours(self, start_city: City, date: Date) -> list[Tour]:
        """List the tours that start in a city on a date.

        Args:
            start_city: The city where the tours start.
            date: The day of the tours.
        """
        return self.tours.where(start_city=start_city, date=date)

    @tool(
        "search",
        ask=(
            "list the workshop appointments at {depot_id}",
            "show me what the workshop at {depot_id} has coming up",
            "tell me which workshop appointments there are at {depot_id}",
            "check the workshop at {depot_id} for appointments",
        ),
        rows="the ~ at {depot_id}",
    )
    def list_workshop_appointments(self, depot_id: DepotId) -> list[WorkshopAppointment]:
        """List the workshop appointments of a depot's vehicles.

        Args:
            depot_id: The depot whose workshop appointments are wanted.
        """
        self.depots[depot_id]
        return self.appointments.where(depot_id=depot_id)

    @tool(
        "compute",
        ask=("work out what {tour_id} costs", "tell me how expensive {tour_id} is", "calculate {tour_id}'s cost"),
        rows="the cost of {tour_id}",
        errors=("no_vehicle",),
    )
    def compute_tour_cost(self, tour_id: TourId) -> TourCost:
        """Work out what a tour costs, from its distance, its stops and its vehicle.

        Args:
            tour_id: The tour to price.
        """
        tour = self.tours[tour_id]
        licence = self._vehicle_of(tour).licence
        km = _distance(tour.start_city, tour.destination)
        return TourCost(cost=round(km * EUROS_PER_KM[licence] + tour.stops * EUROS_PER_STOP, 2))

    @tool(
        "create",
        ask=(
            "plan a tour to {destination} on {date} for {driver_id}",
            "put {driver_id} down for a tour to {destination} on {date}",
            "set up a tour to {destination} for {driver_id} on {date}",
            "send {driver_id} on a tour to {destination} on {date}",
        ),
        done="A tour from {start_city} to {destination} on {date} is planned for {driver}.",
        errors=("in_the_past", "same_city", "driver_busy"),
    )
    def plan_tour(self, driver_id: DriverId, destination: City, date: Date) -> Tour:
        """Plan a tour that starts at the driver's depot. It has one stop and no vehicle yet.

        Args:
            driver_id: The driver of the tour.
            destination: The city where the tour ends.
            date: The day of the tour.
        """
        driver = self.drivers[driver_id]
        self._not_past(date)
        origin = self.depots[driver.depot_id].city
        if origin == destination:
            raise ToolError("same_city", f"{driver.name}'s depot is in {origin}; a tour must end in another city.")
        self._idle_on(driver, date)
        return self.tours.add(
            driver_id=driver_id, driver=driver.name, start_city=origin, destination=destination, date=date, stops=1,
            vehicle_id="", status="planned",
        )  # fmt: skip

    @tool(
        "create",
        ask=(
            "book {vehicle_id} into the workshop on {date} for {work}",
            "send {vehicle_id} to the workshop on {date} for {work}",
            "put {vehicle_id} into the workshop on {date} for {work}",
            "get {vehicle_id} a workshop appointment on {date} for {work}",
        ),
        done="The {model} is booked into the workshop on {date} for {work}.",
        errors=("in_the_past", "already_booked", "needed_that_day"),
    )
    def book_workshop(self, vehicle_id: VehicleId, date: Date, work: Work) -> WorkshopAppointment:
        """Book a vehicle into the workshop of its depot. For today's date it goes there at once.

        Args:
            vehicle_id: The vehicle that needs work.
            date: The day in the workshop.
            work: What is to be done.
        """
        vehicle = self.vehicles[vehicle_id]
        self._not_past(date)
        booked = self._appointment_of(vehicle)
        if booked:
            raise ToolError("already_booked", f"The {vehicle.model} has a workshop appointment on {booked[0].date}.")
        if self._used_on(vehicle_id, date) or (vehicle.status == "on_tour" and date == self.today):
            raise ToolError("needed_that_day", f"The {vehicle.model} is needed for a tour on {date}.")
        if date == self.today:
            self.vehicles.change(vehicle, status="in_workshop")
        return self.appointments.add(
            depot_id=vehicle.depot_id, vehicle_id=vehicle_id, model=vehicle.model, date=date, work=work
        )

    @tool(
        "update",
        ask=(
            "use {vehicle_id} for {tour_id}",
            "assign {vehicle_id} to {tour_id}",
            "put {vehicle_id} on {tour_id}",
            "take {vehicle_id} for {tour_id}",
        ),
        done="A vehicle is assigned to the tour from {start_city} to {destination} on {date}.",
        errors=("not_planned", "already_assigned", "elsewhere", "in_workshop", "needed_that_day", "wrong_licence"),
    )
    def assign_vehicle(self, tour_id: TourId, vehicle_id: VehicleId) -> Tour:
        """Assign a vehicle to a planned tour. It must stand where the tour starts and be free on that day.

        Args:
            tour_id: The planned tour.
            vehicle_id: The vehicle to use.
        """
        tour, vehicle = self._planned_tour(tour_id), self.vehicles[vehicle_id]
        if tour.vehicle_id == vehicle_id:
            raise ToolError("already_assigned", f"Tour {tour_id} already has the {vehicle.model}.")
        if vehicle.city != tour.start_city:
            place = f"The {vehicle.model} stands in {vehicle.city}"
            raise ToolError("elsewhere", f"{place}, the tour starts in {tour.start_city}; move it there first.")
        booked = self._appointment_of(vehicle)
        if booked and (vehicle.status == "in_workshop" or booked[0].date == tour.date):
            day = booked[0].date
            raise ToolError("in_workshop", f"The {vehicle.model} is in the workshop on {day}; cancel that first.")
        if self._used_on(vehicle_id, tour.date):
            raise ToolError("needed_that_day", f"Another tour on {tour.date} uses the {vehicle.model}.")
        self._may_drive(self.drivers[tour.driver_id], vehicle)
        return self.tours.change(tour, vehicle_id=vehicle_id)

    @tool(
        "update",
        ask=(
            "refuel {vehicle_id}",
            "fill up {vehicle_id}'s tank",
            "have {vehicle_id} filled up",
            "get a full tank for {vehicle_id}",
        ),
        done="The {model} has a full tank again.",
        errors=("tank_full",),
    )
    def refuel_vehicle(self, vehicle_id: VehicleId) -> Vehicle:
        """Fill up a vehicle's tank.

        Args:
            vehicle_id: The vehicle to refuel.
        """
        vehicle = self.vehicles[vehicle_id]
        if vehicle.fuel == 100:
            raise ToolError("tank_full", f"The tank of the {vehicle.model} is already full.")
        return self.vehicles.change(vehicle, fuel=100)

    @tool(
        "update",
        ask=("start {tour_id}", "send {tour_id} on its way", "mark {tour_id} as under way", "get {tour_id} under way"),
        done="The tour from {start_city} to {destination} with {driver} is under way.",
        errors=("not_planned", "no_vehicle", "vehicle_not_free", "low_fuel"),
    )
    def start_tour(self, tour_id: TourId) -> Tour:
        """Start a planned tour. Its vehicle must be free and have at least a quarter of a tank.

        Args:
            tour_id: The tour to start.
        """
        tour = self._planned_tour(tour_id)
        vehicle = self._free_vehicle(self._vehicle_of(tour))
        if vehicle.fuel < LOW_FUEL:
            raise ToolError("low_fuel", f"The {vehicle.model} has only {vehicle.fuel} percent fuel; refuel it first.")
        self.vehicles.change(vehicle, status="on_tour")
        return self.tours.change(tour, status="under_way")

    @tool(
        "delete",
        ask=("call off {tour_id}", "cancel {tour_id}", "take {tour_id} off the plan", "drop {tour_id} from the plan"),
        done="The tour from {start_city} to {destination} on {date} is called off.",
        errors=("not_planned",),
    )
    def call_off_tour(self, tour_id: TourId) -> Tour:
        """Call off a tour that has not started.

        Args:
            tour_id: The tour to call off.
        """
        return self.tours.change(self._planned_tour(tour_id), status="called_off")

    @tool(
        "delete",
        ask=("cancel {appointment_id}", "call off {appointment_id}", "drop {appointment_id}", "scrap {appointment_id}"),
        done="The workshop appointment of the {model} on {date} is cancelled.",
    )
    def cancel_workshop_appointment(self, appointment_id: AppointmentId) -> WorkshopAppointment:
        """Cancel a workshop appointment. A vehicle that is in the workshop comes back and is free.

        Args:
            appointment_id: The workshop appointment to cancel.
        """
        appointment = self.appointments[appointment_id]
        vehicle = self.vehicles[appointment.vehicle_id]
        if vehicle.status == "in_workshop":
            self.vehicles.change(vehicle, status="free")
        return self.appointments.remove(appointment)

    @tool(
        "transfer",
        ask=(
            "move {vehicle_id} to {depot_id}",
            "hand {vehicle_id} over to {depot_id}",
            "transfer {vehicle_id} to {depot_id}",
            "give {vehicle_id} to {depot_id}",
        ),
        done="The {model} with the plate {plate} now stands in {city}.",
        errors=("already_there", "vehicle_not_free", "needed_here", "depot_full"),
    )
    def transfer_vehicle(self, vehicle_id: VehicleId, depot_id: DepotId) -> Vehicle:
        """Hand a free vehicle over to another depot. Its workshop appointment moves with it.

        Args:
            vehicle_id: The vehicle to hand over.
            depot_id: The depot that gets it.
        """
        vehicle, depot = self.vehicles[vehicle_id], self.depots[depot_id]
        if vehicle.depot_id == depot_id:
            raise ToolError("already_there", f"The {vehicle.model} already belongs to the depot in {depot.city}.")
        self._free_vehicle(vehicle)
        if self.tours.where(lambda t: t.vehicle_id == vehicle_id and t.status == "planned"):
            raise ToolError("needed_here", f"The {vehicle.model} is assigned to a planned tour from {vehicle.city}.")
        if len(self.vehicles.where(depot_id=depot_id)) >= depot.places:
            raise ToolError("depot_full", f"All {depot.places} places at the depot in {depot.city} are taken.")
        for appointment in self._appointment_of(vehicle):
            self.appointments.change(appointment, depot_id=depot_id)
        return self.vehicles.change(vehicle, depot_id=depot_id, city=depot.city)

    @tool(
        "transfer",
        ask=(
            "give {tour_id} to {driver_id}",
            "hand {tour_id} over to {driver_id}",
            "have {driver_id} take over {tour_id}",
            "let {driver_id} drive {tour_id}",
        ),
        done="{driver} now drives the tour from {start_city} to {destination} on {date}.",
        errors=("not_planned", "same_driver", "driver_busy", "wrong_licence"),
    )
    def hand_over_tour(self, tour_id: TourId, driver_id: DriverId) -> Tour:
        """Hand a planned tour over to another driver, who has no other tour on that day.

        Args:
            tour_id: The planned tour.
            driver_id: The driver who takes over.
        """
        tour, driver = self._planned_tour(tour_id), self.drivers[driver_id]
        if tour.driver_id == driver_id:
            raise ToolError("same_driver", f"Tour {tour_id} is {driver.name}'s already.")
        self._idle_on(driver, tour.date)
        if tour.vehicle_id:
            self._may_drive(driver, self.vehicles[tour.vehicle_id])
        return self.tours.change(tour, driver_id=driver_id, driver=driver.name)

    @tool(
        "send",
        ask=(
            "send {driver_id} the text message {text}",
            "text {driver_id} {text}",
            "write {driver_id} a text message that says {text}",
            "send {driver_id} a text message with the words {text}",
        ),
        done="{driver} was told by text message.",
        errors=("already_sent",),
    )
    def text_driver(self, driver_id: DriverId, text: Sentence) -> DriverText:
        """Notify a driver by a text message.

        Args:
            driver_id: The driver who is to know.
            text: The message.
        """
        driver = self.drivers[driver_id]
        if self.driver_texts.where(driver_id=driver_id, text=text):
            raise ToolError("already_sent", f"{driver.name} got the same text message before.")
        return self.driver_texts.add(driver_id=driver_id, driver=driver.name, text=text)

    def _planned_tour(self, tour_id: str) -> Tour:
        tour = self.tours[tour_id]
        if tour.status != "planned":
            status = tour.status.replace("_", " ")
            raise ToolError("not_planned", f"Tour {tour_id} is {status}; only planned tours can be changed.")
        return tour

    def _vehicle_of(self, tour: Tour) -> Vehicle:
        if not tour.vehicle_id:
            raise ToolError("no_vehicle", f"Tour {tour.id} has no vehicle yet; assign one first.")
        return self.vehicles[tour.vehicle_id]

    @staticmethod
    def _free_vehicle(vehicle: Vehicle) -> Vehicle:
        if vehicle.status != "free":
            place = "on a tour" if vehicle.status == "on_tour" else "in the workshop"
            raise ToolError("vehicle_not_free", f"The {vehicle.model} is {place}; it must be free.")
        return vehicle

    @staticmethod
    def _may_drive(driver: Driver, vehicle: Vehicle) -> None:
        if vehicle.licence == "truck" and driver.licence == "van":
            raise ToolError("wrong_licence", f"{driver.name} has no truck licence, which the {vehicle.model} needs.")

    def _not_past(self, date: str) -> None:
        if date < self.today:
            raise ToolError("in_the_past", f"{date} is over; today is {self.today}.")

    def _idle_on(self, driver: Driver, date: str) -> None:
        open_ = ("planned", "under_way")
        if self.tours.where(lambda t: t.driver_id == driver.id and t.date == date and t.status in open_):
            raise ToolError("driver_busy", f"{driver.name} has another tour on {date}.")

    def _used_on(self, vehicle_id: str, date: str) -> list[Tour]:
        open_ = ("planned", "under_way")
        return self.tours.where(lambda t: t.vehicle_id == vehicle_id and t.date == date and t.status in open_)

    def _appointment_of(self, vehicle: Vehicle) -> list[WorkshopAppointment]:
        return self.appointments.where(vehicle_id=vehicle.id)

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterator[Record]:
        plates = draw.sample(lexicon().plates, 12 * size)
        models = draw.sample(MODELS, 12 * size)
        people = iter(cast.people[:6])
        made = 0
        for city in draw.sample(CITIES, 3):
            depot_id = draw.id("dep")
            vehicles: list[tuple[str, str, Licence]] = []
            for _ in range(3 * size + draw.index(2)):
                vehicles.append((draw.id("veh"), *models[(made + len(vehicles)) % len(models)]))
            yield Depot(depot_id, city, len(vehicles) + draw.integer(0, 2))

            # Days on which a vehicle is not to be had, and what it is doing today.
            taken: set[tuple[str, str]] = set()
            status: dict[str, VehicleStatus] = {}
            for at, (vehicle_id, model, _) in enumerate(draw.sample(vehicles, 2 * size)):
                date = today if at == 0 and draw.chance(0.6) else draw.date(today, 1, 14)
                taken.add((vehicle_id, date))
                if date == today:
                    status[vehicle_id] = "in_workshop"
                yield WorkshopAppointment(draw.id("wks"), depot_id, vehicle_id, model, date, draw.choice(WORKS))

            for person in (next(people), next(people)):
                licence: Licence = draw.choice(("van", "truck", "truck"))
                driver_id = draw.id("drv")
                yield Driver(driver_id, depot_id, person.name, person.email, licence)
                fit = [v[0] for v in vehicles if licence == "truck" or v[2] == "van"]
                others = [c for c in draw.sample(CITIES, 3 * size + 1) if c != city]
                for day, destination in zip(draw.sample(range(-size, 3 * size), 3 * size), others, strict=False):
                    date = day_after(today, day)
                    free = [v for v in fit if (v, date) not in taken]
                    tour_status: TourStatus = "planned" if day >= 0 else "done"
                    if draw.chance(0.1):
                        tour_status = "called_off"
                    vehicle_id = ""
                    if free and tour_status != "called_off" and (day < 0 or draw.chance(0.7)):
                        vehicle_id = free[0]
                        taken.add((vehicle_id, date))
                        if day == 0 and draw.chance(0.5):
                            tour_status = "under_way"
                            status[vehicle_id] = "on_tour"
                    yield Tour(
                        draw.id("tou"), driver_id, person.name, city, destination, date, draw.integer(2, 14),
                        vehicle_id, tour_status,
                    )  # fmt: skip

            for vehicle_id, model, needs in vehicles:
                yield Vehicle(
                    vehicle_id, depot_id, city, model, plates[made % len(plates)], draw.integer(5, 98), needs,
                    status.get(vehicle_id, "free"),
                )  # fmt: skip
                made += 1


def _distance(origin: str, destination: str) -> float:
    """Kilometres between two cities on a flat map, by road about a quarter more than straight."""
    a, b = POSITIONS.get(origin, MIDDLE), POSITIONS.get(destination, MIDDLE)
    return round(140 * math.hypot(a[0] - b[0], 0.65 * (a[1] - b[1])))
