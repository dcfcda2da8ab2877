"""The simulated services. Adding one: a file with the class, and its name in the tuple below."""

from __future__ import annotations

from rods_env.apis.bank import Bank
from rods_env.apis.calendar import Calendar
from rods_env.apis.files import Files
from rods_env.apis.fleet import Fleet
from rods_env.apis.mail import Mail
from rods_env.apis.registry import register
from rods_env.apis.shop import Shop
from rods_env.apis.tickets import Tickets
from rods_env.apis.travel import Travel

for _api in (Files, Shop, Travel, Bank, Calendar, Mail, Tickets, Fleet):
    register(_api)
