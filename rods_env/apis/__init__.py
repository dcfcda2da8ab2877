"""The simulated services. Adding one: a file with the class, and its name in the tuple below."""

from __future__ import annotations

from rods_env.apis.registry import register
from rods_env.apis.shop import Shop

for _api in (Shop,):
    register(_api)
