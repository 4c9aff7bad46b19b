"""Events of Datadog in kafka-kit's words: what a tick changed since the one before.

kafka-kit sends its events at every interval, also where nothing changed; these are sent for changes alone.
"""

from collections.abc import Iterable, Mapping

from kafkakit.autothrottle.decide.tick import Tick
from kafkakit.core.event import Event
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.execution.decide.throttle import LEADER_RATE

NAME = "kafka-autothrottle"
MB = 1_000_000


def event_tags(extra: str) -> tuple[str, ...]:
    """The tags of all events: the program's name and those of a comma list."""
    return (f"name:{NAME}", *(tag for part in extra.split(",") if (tag := part.strip())))


def events_of(before: Tick | None, tick: Tick) -> tuple[Event, ...]:
    """What is to be sent after a tick; `before` is the tick before it, None for the first.

    While a run of kafkakit has the rates (`requested_from`) there is nothing to tell of brokers.
    """
    found: list[Event] = []
    if before is not None and (done := sorted(set(before.topics) - set(tick.topics))):
        found.append(_event("Topics done reassigning", f"Topics done reassigning: {_list(done)}"))
    if tick.requested_from:
        return tuple(found)
    old: Mapping[ConfigKey, int] = {} if before is None else before.applied
    changed = {k: rate for k, rate in sorted(tick.applied.items()) if old.get(k) != rate}
    moving = {k: r for k, r in changed.items() if int(k.name) in tick.brokers}
    others = {k: r for k, r in changed.items() if k not in moving}
    if moving:
        topics = f"Topics currently undergoing replication: {_list(tick.topics)}"
        found.append(_event("Broker replication throttle set", _rates(moving) + topics))
    if others:
        found.append(_event("Broker level throttle override(s) configured", _rates(others)))
    if gone := sorted({int(k.name) for k in old} - {int(k.name) for k in tick.applied}):
        words = f"Replication throttle removed on the following brokers: {_list(gone)}"
        found.append(_event("Broker replication throttle removed", words))
    return tuple(found)


def _event(title: str, text: str) -> Event:
    return Event(title=f"[{NAME}] {title}", text=text)


def _rates(rates: Mapping[ConfigKey, int]) -> str:
    parts = [
        f"[{k.name}, {'leader' if k.key == LEADER_RATE else 'follower'}, {r / MB:.2f}], " for k, r in rates.items()
    ]
    return f"Replication throttles changes for brokers [ID, role, rate]: {''.join(parts)}\n"


def _list(items: Iterable[object]) -> str:
    return f"[{' '.join(map(str, items))}]"
