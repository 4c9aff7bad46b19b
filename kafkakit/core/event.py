"""An event for people, as a service of metrics keeps it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event without its tags."""

    title: str
    text: str
