"""What of a task may be called otherwise, and what must not: small tasks made by hand, one for each kind of entity."""

from __future__ import annotations

import pytest

pytest.importorskip("bfcl_eval")

from rods_env.bfcl.entities import entities_of, read_date
from rods_env.bfcl.tasks import build_task
from rods_env.bfcl.variants import BfclSynthesizer
from rods_env.errors import SynthesisError


def file(content=""):
    return {"type": "file", "content": content}


def folder(**contents):
    return {"type": "directory", "contents": contents}


def files_task(message, gold, **contents):
    config = {"GorillaFileSystem": {"root": {"home": folder(**contents)}}}
    return build_task("t_0", "base", ["GorillaFileSystem"], config, [message], [gold])


def task(api, config, message, gold):
    return build_task("t_0", "base", [api], {api: config}, [message], [gold])


def kinds(task):
    return {entity.old: entity.kind for entity in entities_of(task)}


def variant(task, seed=0):
    return BfclSynthesizer(seed).variant(task)


def said(task):
    return "\n".join(turn.message for turn in task.turns)


def test_files_and_folders():
    one = files_task("Copy 'notes_a.txt' into the archive folder.", ["cp(source='notes_a.txt', destination='archive')"],
                     **{"notes_a.txt": file("hi"), "archive": folder()})  # fmt: skip
    assert kinds(one) == {"notes_a.txt": "file", "archive": "folder", "home": "folder"}
    made = variant(one)
    source, destination = made.calls[0].arguments.values()
    assert source.endswith(".txt")
    assert source != "notes_a.txt"
    assert f"'{source}'" in said(made)
    assert f"{destination} folder" in said(made)
    assert destination in str(made.world.config)
    assert "notes_a.txt" not in str(made.world.config)


def test_a_folder_that_is_also_meant_as_a_word_stays():
    one = files_task("I need a document. Open the document folder and list it.", ["cd(folder='document')", "ls()"],
                     document=folder(**{"a.txt": file()}))  # fmt: skip
    assert "document" not in kinds(one)


def test_a_folder_stays_that_is_the_start_of_a_word():
    one = files_task("In the temp folder, attempt 'a_b.txt'.", ["cd(folder='temp')"], temp=folder())
    assert variant(one).turns[0].message.count("attempt") == 1


def test_a_file_without_an_ending_that_is_a_word_stays():
    one = files_task("Where is my notes?", ["cat(file_name='notes')"], notes=file("x"))
    with pytest.raises(SynthesisError):
        variant(one)


def test_files_that_are_counted_off_keep_their_order():
    contents = {f"file{n}.txt": file(str(n)) for n in (1, 2, 3)}
    one = files_task(
        "Show the second file and tell me of 'file1.txt'.", ["ls()", "cat(file_name='file2.txt')"], **contents
    )
    for made in BfclSynthesizer(1).variants(one, 5):
        (home,) = made.world.config["GorillaFileSystem"]["root"].values()
        names = list(home["contents"])
        assert names == sorted(names)
        assert made.calls[1].arguments["file_name"] == names[1]


def test_people_and_their_accounts():
    config = {"current_user": "Michael Thompson", "ticket_queue": [], "ticket_counter": 3}
    one = task("TicketAPI", config, "I am Michael Thompson, user 'mthompson', password 'pass123'. Log me in.",
               ["ticket_login(username='mthompson', password='pass123')"])  # fmt: skip
    assert kinds(one) == {"Michael": "person", "Thompson": "surname", "mthompson": "username", "pass123": "code"}
    made = variant(one)
    first, last = made.world.config["TicketAPI"]["current_user"].split()
    assert made.calls[0].arguments["username"] == first[0].lower() + last.lower()
    assert f"I am {first} {last}" in said(made)


def test_places_change_with_their_airports():
    message = "What is a business class flight from San Francisco (SFO) to Chicago on October 12th 2026?"
    gold = "get_flight_cost(travel_from='SFO', travel_to='ORD', travel_date='2026-10-12', travel_class='business')"
    one = task("TravelAPI", {}, message, [gold])
    assert kinds(one) == {"San Francisco": "place", "Chicago": "place", "2026-10-12": "date"}
    made = variant(one)
    assert f"({made.calls[0].arguments['travel_from']})" in said(made)
    assert "Chicago" not in said(made)
    assert read_date(said(made).split(" on ")[1]) == tuple(
        map(int, made.calls[0].arguments["travel_date"].split("-")[1:])
    )


@pytest.mark.parametrize(
    ("text", "date"),
    [("October 12th 2026", (10, 12)), ("1st of December, 2026", (12, 1)), ("19th Sept 2026", (9, 19)), ("May", None)],
)
def test_dates_are_read_as_people_write_them(text, date):
    assert read_date(text) == date


def test_companies_change_places():
    stocks = {symbol: {"price": price, "percent_change": 0.1, "volume": 1.0, "MA(5)": 1.0, "MA(20)": 1.0}
              for symbol, price in (("AAPL", 200.0), ("TSLA", 300.0))}  # fmt: skip
    config = {"stocks": stocks, "watch_list": []}
    one = task("TradingBot", config, "How is Apple doing?", ["get_stock_info(symbol='AAPL')"])
    assert kinds(one) == {"AAPL": "ticker"}
    made = variant(one)
    symbol = made.calls[0].arguments["symbol"]
    assert "Apple" not in said(made)
    assert made.world.config["TradingBot"]["stocks"][symbol]["price"] == 200.0


@pytest.mark.parametrize("hint", ["Alphabet", "the maker of GPUs"])
def test_a_company_that_is_meant_without_its_name_stays(hint):
    config = {"stocks": {"ALPH": {"price": 1.0}}, "watch_list": []}
    one = task("TradingBot", config, f"Look up ALPH, that is {hint}.", ["get_stock_info(symbol='ALPH')"])
    assert kinds(one) == {}


def test_numbers_flow_into_later_calls():
    one = task("TravelAPI", {"access_token": "abc123", "token_expires_in": 9, "budget_limit": 0.0},
               "Turn 20,000 RMB into dollars and make it my budget; my token is abc123.",
               ["compute_exchange_rate(base_currency='RMB', target_currency='USD', value=20000.0)",
                "set_budget_limit(access_token='abc123', budget_limit=2857.14)"])  # fmt: skip
    made = variant(one)
    rate, budget = (call.arguments for call in made.calls)
    assert budget["budget_limit"] == round(rate["value"] / 7, 2) != 2857.14
    assert f"{rate['value']:,.0f} RMB" in said(made)
    assert budget["access_token"] in said(made)


def test_a_computed_number_keeps_all_numbers():
    one = task("TravelAPI", {"access_token": "abc123", "token_expires_in": 9},
               "Take a tenth of 20,000 dollars as my budget; my token is abc123.",
               ["set_budget_limit(access_token='abc123', budget_limit=2000.0)"])  # fmt: skip
    assert "20,000" in said(variant(one))


def test_texts_and_tags():
    message = "Tweet 'Tire pressures are optimal!' with #CarCare and mention @VehicleGuru."
    config = {"username": "john", "password": "x", "authenticated": True, "tweets": {}, "tweet_counter": 1}
    gold = "post_tweet(content='Tire pressures are optimal!', tags=['#CarCare'], mentions=['@VehicleGuru'])"
    one = task("TwitterAPI", config, message, [gold])
    assert kinds(one) == {"Tire pressures are optimal!": "sentence", "#CarCare": "tag", "@VehicleGuru": "handle",
                          "john": "person"}  # fmt: skip
    made = variant(one)
    arguments = made.calls[0].arguments
    assert all(text in said(made) for text in (arguments["content"], *arguments["tags"], *arguments["mentions"]))
    assert arguments["content"] != "Tire pressures are optimal!"
    assert "ire" in arguments["content"]


def test_a_full_tank_is_full():
    config = {"fuelLevel": 12.0, "frontLeftTirePressure": 32.0, "frontRightTirePressure": 32.0,
              "rearLeftTirePressure": 30.0, "rearRightTirePressure": 30.0}  # fmt: skip
    message = "Fill the tank completely. Is a tire below 40 PSI?"
    one = task("VehicleControlAPI", config, message, ["fillFuelTank(fuelAmount=38.0)", "check_tire_pressure()"])
    assert set(kinds(one).values()) == {"fuel", "threshold"}
    made = variant(one)
    assert made.calls[0].arguments["fuelAmount"] + made.world.config["VehicleControlAPI"]["fuelLevel"] == 50.0
    assert "40" not in said(made)
