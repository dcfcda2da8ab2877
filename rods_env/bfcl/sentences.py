"""Sentences that users of BFCL's tasks post, send and file, by what they are for and what they are about."""

from __future__ import annotations

# For each use, from the particular to the general: words of which one must stand in the old sentence, and sentences
# that may stand for it. The last row of a use takes what no other row takes, if it has no words.
_POSTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("filled up the tank",), (
        "Full tank, good tires. The road is calling!", "Fuel is in and the tires are checked. Let the trip begin!",
        "Topped up and checked all four tires. What a good start!",
        "The tank is filled and the tires are fine. Off we go!",
        "Gas station done, tire check done. Time for new places!",
        "Fresh fuel and a tire check. I feel like a real mechanic!",
    )),
    (("tire", "tires"), (
        "All four tires look great!", "Tire check done, everything looks fine!", "Checked every tire today. All good!",
        "Tires inspected and the car feels great!", "My tires are in top shape!", "Just looked after my tires!",
        "Good tires make good trips!", "The tires got their checkup today!",
    )),
    (("trip", "journey", "road"), (
        "The bags are packed and the car is ready to roll!", "Off I go, with a car in top form!",
        "Leaving now, and I can hardly wait!", "Hitting the road today with a well-kept car!",
        "The road is waiting, and so am I!", "My car and I are ready for the long way!", "Here begins a long drive!",
    )),
    (("archive", "data"), (
        "All data files are safely stored now!", "Cleaned up my data files today!",
        "Another stack of data put in order!",
        "The data files have found their place!", "Sorted out our data at last!", "No data file left behind today!",
    )),
    (("adventure", "plans"), (
        "The next trip is almost here!", "Counting the days until I leave!", "New places, here I come!",
        "Can't wait to see something new!", "Soon I will be far away from my desk!", "Change of scenery ahead!",
    )),
)  # fmt: skip
_COMMENTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("tire", "safety"), (
        "A quick tire check can save lives.", "Never skip your tire checks!", "Please look after your tires, everyone.",
        "Good tires first, then the trip.", "Check your tires before every drive.", "Safe tires, safe trip!",
    )),
    (("adventure",), (
        "I can hardly wait for the trip!", "Off to new places!", "Who wants to come along?", "The road is calling!",
        "Here we go again!", "Adventure time!",
    )),
    ((), (
        "Well done, everyone!", "Great work by all of us!", "What a good day!", "Thanks to all who helped!",
        "One more thing off the list!", "Happy with how this went!", "That went well!", "Keep it up!",
    )),
)  # fmt: skip
_MESSAGES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("itinerary",), (
        "The route of our road trip has changed.", "New stops for the road trip.",
        "The road trip starts one day later.",
        "Here is the plan for the road trip.", "We take the scenic route on our road trip.", "Road trip plan is final.",
    )),
    (("on my way",), (
        "I am leaving now.", "I will be there soon.", "See you in a few hours.", "I just left home.",
        "I am on the road.", "Wait for me, I am coming.",
    )),
    (("report",), (
        "The report is done.", "The report is ready for you.", "We have completed the report.",
        "The final version of the report is ready.", "The report is complete at last.", "Work on the report is over.",
    )),
    (("stocks",), (
        "I am done with the falling stocks in my list.", "The weak stocks had to leave my list.",
        "I no longer follow the stocks that keep losing.", "I took the losing stocks off my list.",
        "My list is free of falling stocks now.",
    )),
    (("booking", "problems"), (
        "Here is what went wrong with my flight booking.", "My flight booking caused some trouble.",
        "There were problems with the payment of my flight.", "A summary of the trouble with my flight booking.",
        "What happened when I booked my flight.",
    )),
    (("plan", "details"), (
        "All numbers look right to me. Let us go on as planned.",
        "I went through everything. Please start with the plan.",
        "The details are fine. You can begin as agreed.", "I have no objections. Carry out the plan as agreed.",
        "Everything checks out. Let us do what we planned.", "I looked it all over. Go ahead as we agreed.",
    )),
    (("trip",), (
        "Our trip is booked and paid!", "All is ready for our trip!", "The trip is planned, just pack your bags!",
        "I have arranged everything for our trip!", "We are all set for the trip!", "Our trip is on!",
    )),
)  # fmt: skip
_TITLES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("tire", "tires"), (
        "Low Tire Pressure", "Tire Check Needed", "Problem with a Tire", "Tire Service Request", "Uneven Tire Pressure",
        "Tire Trouble",
    )),
    (("order",), (
        "Help with an Order", "Order Inquiry", "Open Order Question", "Urgent Order Support", "Order Needs Attention",
        "Problem with My Order",
    )),
    (("platform",), (
        "Trading Platform Fault", "Platform Problem", "Platform Malfunction", "Fault on the Platform",
        "Platform Trouble",
    )),
    (("cancellation", "cancelled"), (
        "Cancelled Flight", "Flight Cancellation Request", "Cancellation of My Flight", "Flight Cancellation Notice",
        "Cancellation Follow-up", "My Cancelled Flight", "Flight Cancellation Report",
    )),
    (("flight",), (
        "Problem with My Flight", "Flight Needs Attention", "Help with My Flight", "Pressing Flight Matter",
        "Flight Support Request", "Trouble with a Flight",
    )),
    (("invoice",), (
        "Wrong Invoice", "Invoice Question", "Invoice Mismatch", "Error in My Invoice", "Problem with an Invoice",
        "Invoice Complaint",
    )),
    (("travel",), (
        "Sudden Change of Travel Plans", "Travel Plans Have Changed", "New Travel Plans", "Change to My Trip",
        "My Trip Must Change",
    )),
)  # fmt: skip
_DESCRIPTIONS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("urgent assistance",), (
        "Please help as soon as you can.", "Quick help would be appreciated.", "I need an answer today.",
        "Please look into this at once.", "This cannot wait any longer.", "Immediate help is needed.",
    )),
    (("request to cancel",), (
        "Please cancel it.", "I wish to cancel.", "Asking for a cancellation.", "Cancellation requested.",
        "I want to call it off.",
    )),
    (("invoicing", "invoice"), (
        "The invoice does not look right.", "Something is wrong with the invoice.",
        "There is a mistake in the invoicing.",
        "I could not settle my invoice.", "The invoice and the booking do not match.",
    )),
    (("cancellation",), (
        "The cancellation did not go through as it should.", "Something went wrong when my flight was cancelled.",
        "The cancellation of my flight caused a lot of trouble.", "I had a bad experience with the cancellation.",
        "Cancelling the flight cost me time and money.",
    )),
)  # fmt: skip
_RESOLUTIONS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("manual",), (
        "Solved by going through the settings by hand.", "Repaired by hand after some trial and error.",
        "Fixed it myself, step by step.", "A manual restart solved it.", "Sorted out by hand, no parts needed.",
    )),
    (("platform",), (
        "Confirmed by the trading platform.", "Checked with the trading platform.",
        "The trading platform has confirmed it.",
        "Cleared up with the trading platform.", "Settled together with the trading platform.",
    )),
    (("self-resolved",), (
        "Solved by myself, help is not needed.", "Sorted it out alone, thank you.", "I found the answer on my own.",
        "Settled without support.", "No help needed any more, it works.",
    )),
)  # fmt: skip

_USES = {
    ("post_tweet", "content"): _POSTS, ("comment", "comment_content"): _COMMENTS, ("send_message",
     "message"): _MESSAGES,
    ("create_ticket", "title"): _TITLES, ("create_ticket", "description"): _DESCRIPTIONS,
    ("resolve_ticket", "resolution"): _RESOLUTIONS,
}  # fmt: skip


def sentences_like(tool: str, parameter: str, old: str) -> tuple[str, ...]:
    """Sentences that may stand for an argument of a function, the old one not among them; none if it has no row.

    A sentence of the rows is recognised by its row, whatever its words are: a variant can be varied again.
    """
    rows = _USES.get((tool, parameter), ())
    low = old.lower()
    row = next((new for _, new in rows if old in new), None)
    if row is None:
        row = next((new for words, new in rows if not words or any(word in low for word in words)), ())
    return tuple(sentence for sentence in row if sentence != old)
