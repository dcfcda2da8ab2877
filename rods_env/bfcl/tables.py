"""The fixed tables of BFCL's simulators, found out by asking them: cities, airports, zip codes, routes, companies."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from rods_env.bfcl.simulators import load
from rods_env.bfcl.source import part_of_package

# The cities that the docs of `get_nearest_airport_by_city` and `get_zipcode_based_on_city` name.
_CITIES = (
    "Rivermist", "Stonebrook", "Maplecrest", "Silverpine", "Shadowridge", "London", "Paris", "Sunset Valley",
    "Oakendale", "Willowbend", "Crescent Hollow", "Autumnville", "Pinehaven", "Greenfield", "San Francisco",
    "Los Angeles", "New York", "Chicago", "Boston", "Beijing", "Hong Kong", "Rome", "Tokyo",
)  # fmt: skip
_COMPANIES = (
    "Apple", "Google", "Tesla", "Microsoft", "Nvidia", "Zeta Corp", "Alpha Tech", "Omega Industries", "Quasar Ltd.",
    "Neptune Systems", "Synex Solutions", "Amazon", "Gorilla",
)  # fmt: skip
# Other ways in which people write the cities that the tables name.
_ALSO = {
    "San Francisco": ("SF",), "New York": ("New York City", "NYC", "John F. Kennedy"),
    "Los Angeles": ("Los Angeles Internationa",), "London": ("London Heathrow", "Heathrow"),
    "Paris": ("Paris Charles de Gaulle", "Charles de Gaulle"),
}  # fmt: skip
_NO_ZIP = "00000"


class Place(NamedTuple):
    """A city: its airport's code and its zip code as the simulators have them ("" for none), and other spellings."""

    city: str
    code: str
    zip: str
    also: tuple[str, ...] = ()


@cache
def places() -> tuple[Place, ...]:
    """All cities of the two simulators that know cities."""
    travel, car = _simulator("TravelAPI"), _simulator("VehicleControlAPI")
    found = []
    for city in _CITIES:
        code = travel.get_nearest_airport_by_city(city)["nearest_airport"]
        number = car.get_zipcode_based_on_city(city)["zipcode"]
        found.append(Place(city, code, "" if number == _NO_ZIP else number, _ALSO.get(city, ())))
    return tuple(found)


@cache
def flies(start: str, end: str) -> bool:
    """Whether there is a flight between two airports."""
    try:
        _simulator("TravelAPI").get_flight_cost(start, end, "2026-01-01", "economy")
    except ValueError:
        return False
    return True


@cache
def miles(start: str, end: str) -> float | None:
    """The distance between two zip codes; None if the simulator knows none."""
    found = _simulator("VehicleControlAPI").estimate_distance(start, end).get("distance")
    return None if found is None else float(found)


@cache
def companies() -> dict[str, str]:
    """Symbols to names of companies."""
    bot = _simulator("TradingBot")
    return {str(bot.get_symbol_by_name(name)["symbol"]): name for name in _COMPANIES}


@cache
def padding() -> tuple[str, frozenset[str]]:
    """What long contexts add to the content of files, and the names of the files that are spared."""
    module = part_of_package("eval_checker.multi_turn_eval.func_source_code.long_context")
    return str(module.FILE_CONTENT_EXTENSION), frozenset(module.FILES_TAIL_USED)


@cache
def _simulator(api: str) -> Any:
    return load(api, {}, False)
