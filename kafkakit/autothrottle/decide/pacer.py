"""The pacer as values: what a tick found and did, what is kept between ticks, overrides, status, events, the HTTP API.

* What a pacer keeps and shows to other processes is one document of the control store.
* Overrides are rates that an operator set, for all brokers or for single ones; they override what a law decides.
* Events of Datadog are in kafka-kit's words. kafka-kit sends its events at every interval, also if nothing changed;
  these are sent only for changes since the tick before.
* The HTTP API is kafka-kit's admin API of overrides, as requests and replies; the same routes answer JSON if it is
  accepted. Replies in plain text have status 200 also for errors, as kafka-kit's do: only a wrong method (405) and an
  unknown path (404) differ. JSON replies have 400 for errors. Of kafka-kit's defects these are not repeated: `POST
  /throttle/all` made a znode `all` that broke the reading of all others, and negative rates and `00` were taken; each
  gets the error text of its parameter. `POST /throttle/remove/all` passes over children that are no broker ids. A
  POST does not wait for the tick that it causes. `rate` is in MB/s (1,000,000 bytes), for both directions.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kafkakit.autothrottle.decide.law import Memory, RateDecision, RateMemory, RateReason, Side
from kafkakit.core.documents import DocumentKind, decode_document, decode_json, encode_document, encode_json
from kafkakit.core.errors import InputError
from kafkakit.core.rpc import Event, HttpPage, HttpRequest
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.execution.decide.schedule.work import BrokerRates, rates_to_data
from kafkakit.execution.decide.throttle import LEADER_RATE

MB = 1_000_000
MAX_BROKERS = 1000
_Rate = Annotated[int, Meta(ge=1, le=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Bytes per second into and out of a broker, None: the law decides.

    With `autoremove` it ends with the moves; kafka-kit leaves that of a single broker.
    """

    into: _Rate | None = None
    out: _Rate | None = None
    autoremove: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """All overrides; `every` is for all brokers."""

    every: Override | None = None
    of: Annotated[Mapping[Annotated[int, Meta(ge=0, le=2**31 - 1)], Override], Meta(max_length=MAX_BROKERS)] = field(
        default_factory=dict
    )

    @property
    def ending_with_moves(self) -> tuple[int | None, ...]:
        """Which of them end with the moves, None for the one for all."""
        every = (None,) if self.every is not None and self.every.autoremove else ()
        return (*every, *(broker for broker, override in self.of.items() if override.autoremove))

    def with_one(self, broker: int | None, override: Override | None) -> "Overrides":
        """All overrides, of which one is replaced or removed; `broker` None is the one for all."""
        if broker is None:
            return replace(self, every=override)
        others = {b: o for b, o in self.of.items() if b != broker}
        return replace(self, of=dict(sorted((others if override is None else {**others, broker: override}).items())))

    def over(self, rates: BrokerRates | None, brokers: Collection[int]) -> BrokerRates | None:
        """The rates of a law with the overrides in their place, for each of these brokers; None: no rates at all."""
        every = self.every or Override()
        if rates is None and self.every is None and not self.of.keys() & set(brokers):
            return None
        law = rates or BrokerRates()
        into_of: dict[int, int] = {}
        out_of: dict[int, int] = {}
        for broker in sorted(brokers):
            own = self.of.get(broker, Override())
            into = own.into or every.into or law.into_broker(broker)
            out = own.out or every.out or law.out_of_broker(broker)
            if into is not None:
                into_of[broker] = into
            if out is not None:
                out_of[broker] = out
        return BrokerRates(into_of=into_of, out_of=out_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one tick found and did; `requested_from` names the run that got the rates.

    `news` are those of the notes that the tick before did not have. `topics` and `brokers` are those of the moves, and
    `applied` the rates of brokers that are set now, where this tick set them.
    """

    moves: int
    decision: RateDecision
    rates: BrokerRates | None = None
    left_bytes: int = 0
    writes: int = 0
    requested_from: str = ""
    notes: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    applied: Mapping[ConfigKey, int] = field(default_factory=dict)
    overrides: Overrides = field(default_factory=Overrides)

    @property
    def is_quiet(self) -> bool:
        """True when nothing was changed and there is nothing new to say."""
        return not (self.writes or self.news or self.owed)

    def with_settings(self, settings: Mapping[ConfigKey, int]) -> "Tick":
        """The tick with exactly these settings of brokers as rates, and the reasons for them."""
        sides = [(int(k.name), Side.OUT if k.key == LEADER_RATE else Side.INTO, r) for k, r in sorted(settings.items())]
        rates = BrokerRates(
            into_of={b: rate for b, side, rate in sides if side is Side.INTO},
            out_of={b: rate for b, side, rate in sides if side is Side.OUT},
        )
        named = {(broker, side) for broker, side, _ in sides}
        reasons = tuple(r for r in self.decision.reasons if (r.broker, r.side) in named)
        return replace(self, rates=rates, decision=replace(self.decision, reasons=reasons))


KIND = "autothrottle-state"
LIMIT_BYTES = 60_000
_RATE_FIELDS = tuple(f.name for f in fields(RateMemory))


class _KeptRate(msgspec.Struct):
    broker: int
    side: Side
    memory: RateMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTick:
    """One tick: when, by which process, what it found and set. `memory` is what the law remembers."""

    at: Annotated[datetime, Meta(tz=True)]
    by: str
    law: str
    token: int
    moves: int = 0
    rates: Mapping[str, Any] | None = None
    reasons: tuple[tuple[int, str, int, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    learnt: Mapping[str, Any] = field(default_factory=dict)
    memory: tuple[list[Any], ...] = ()


def encode_tick(tick: SavedTick) -> bytes:
    """The document; reasons, then the memory, are left out where they do not fit."""
    data = encode_document(KIND, tick)
    if len(data) > LIMIT_BYTES:
        data = encode_document(KIND, tick, leave_out=("reasons", "notes"))
    return data if len(data) <= LIMIT_BYTES else encode_document(KIND, tick, leave_out=("reasons", "notes", "memory"))


def decode_tick(data: bytes, source: str) -> SavedTick:
    """Read it; `InputError` when it is none."""
    return decode_document(data, KIND, SavedTick, source)


def reasons_data(reasons: tuple[RateReason, ...]) -> tuple[tuple[int, str, int, str, str], ...]:
    """Reasons as rows: broker, direction, rate, what limits it, why."""
    return tuple((r.broker, r.side.value, r.rate, r.binding, r.text) for r in reasons)


def rates_data(rates: BrokerRates | None) -> Mapping[str, Any] | None:
    """Rates as data, None for none."""
    return None if rates is None else rates_to_data(rates)


def memory_rows(memory: Memory) -> tuple[list[Any], ...]:
    """What a law remembers of single rates, as rows."""
    return tuple([b, s.value, *astuple(m)] for (b, s), m in sorted(memory.rates.items()))


def memory_rest(memory: Memory) -> Mapping[str, Any]:
    """What a law remembers beside that."""
    return {f.name: getattr(memory, f.name) for f in fields(Memory) if f.name != "rates"}


def memory_of(tick: SavedTick | None) -> Memory:
    """The law's memory as it was saved; an empty one where another version of kafkakit saved it."""
    if tick is None:
        return Memory()
    try:
        rates = [
            {"broker": b, "side": s, "memory": dict(zip(_RATE_FIELDS[: len(values)], values, strict=True))}
            for b, s, *values in tick.memory
        ]
        kept = msgspec.convert(rates, tuple[_KeptRate, ...])
        rest = msgspec.convert({"rates": {}, **tick.learnt}, Memory)
    except (ValueError, msgspec.ValidationError):
        return Memory()
    return replace(rest, rates={(k.broker, k.side): k.memory for k in kept})


OVERRIDES_DOCUMENT = DocumentKind("autothrottle-overrides", Overrides)


class _Znode(msgspec.Struct):
    rate: int = 0
    autoremove: bool = False


def encode_znode(override: Override | None) -> bytes:
    """kafka-kit's form, whole MB/s and one rate for both directions; None is its mark for a removal, rate 0.

    Raises `InputError` for what that form cannot say.
    """
    rate = 0 if override is None else override.into or 0
    if override is not None and (override.into != override.out or not rate or rate % MB):
        raise InputError(
            "the override",
            "kafka-kit's znodes hold whole MB/s, the same in and out",
            hint="leave out --zk-config-prefix",
        )
    return msgspec.json.encode(_Znode(rate // MB, override is not None and override.autoremove))


def decode_znode(data: bytes, source: str) -> Override | None:
    """Read kafka-kit's form, and the plain number of its first versions; None for no data and for a rate of 0."""
    if not data.strip():
        return None
    found = _Znode(rate=int(data)) if data.strip().isdigit() and len(data) < 12 else decode_json(data, _Znode, source)
    if found.rate <= 0:
        return None
    return Override(into=found.rate * MB, out=found.rate * MB, autoremove=found.autoremove)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerStatus:
    """`own` are the values that the pacer's journal names and the cluster has, `others` all other throttles.

    `unreached` are brokers that do not answer; `leader` and `run` name the processes that hold the two leases.
    """

    cluster_id: str
    moves: int
    own: Mapping[ConfigKey, str] = field(default_factory=dict)
    others: Mapping[ConfigKey, str] = field(default_factory=dict)
    overrides: Overrides = field(default_factory=Overrides)
    tick: SavedTick | None = None
    unreached: tuple[int, ...] = ()
    leader: str = ""
    run: str = ""


NAME = "kafka-autothrottle"


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


JSON_MEDIA = "application/json"
TEXT_MEDIA = "text/plain; charset=utf-8"
MAX_RATE_MB = 10_000_000
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
NO_BROKER = "broker param must be provided as integer or the string 'all'"


class Verb(StrEnum):
    """What a request is for."""

    READ = "read"
    SET = "set"
    REMOVE = "remove"
    REMOVE_ALL = "remove all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One sound request; `broker` None is the override for all brokers."""

    verb: Verb
    broker: int | None = None
    override: Override | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is not answered, with kafka-kit's status and that of the JSON variant."""

    text: str
    status: int = 200
    json_status: int = 400


def is_api(path: str) -> bool:
    """True for the paths of kafka-kit's API."""
    return path.split("/")[1:2] == ["throttle"]


def read_call(request: HttpRequest) -> ApiCall | Refusal:
    """The request as a call, or why it is none; parameters are checked in kafka-kit's order."""
    parts = [p for p in request.path.split("/") if p][1:]
    is_removal = parts[:1] == ["remove"]
    names = parts[1:] if is_removal else parts
    if len(names) > 1:
        return Refusal(text="404 page not found", status=404, json_status=404)
    if request.method != "POST" and (is_removal or request.method != "GET"):
        return Refusal(text="disallowed method", status=405, json_status=405)
    override: Override | None = None
    if request.method == "POST" and not is_removal:
        found = _override(request)
        if isinstance(found, Refusal):
            return found
        override = found
    if is_removal and names == ["all"]:
        return ApiCall(verb=Verb.REMOVE_ALL)
    broker = int(names[0]) if names and _INTEGER.fullmatch(names[0]) else None
    if names and (broker is None or not 0 <= broker < 2**31):
        return Refusal(text=NO_BROKER)
    verb = Verb.REMOVE if is_removal else Verb.SET if override is not None else Verb.READ
    return ApiCall(verb=verb, broker=broker, override=override)


def perform(
    call: ApiCall, read: Callable[[], Overrides], put: Callable[[int | None, Override | None], None], *, as_json: bool
) -> HttpPage:
    """Carry the call out and answer it; `put` sets one override, or removes it."""
    if call.verb is Verb.READ:
        overrides = read()
        found = overrides.every if call.broker is None else overrides.of.get(call.broker)
        return _reply(_name_broker(call.broker, read_text(found)), override=found, as_json=as_json)
    if call.verb is Verb.REMOVE_ALL:
        brokers = sorted(read().of, key=str)
        for broker in brokers:
            put(broker, None)
        return _reply("".join(_name_broker(b, "throttle removed\n") for b in brokers), as_json=as_json)
    put(call.broker, call.override)
    if call.override is None:
        return _reply(_name_broker(call.broker, "throttle removed\n"), as_json=as_json)
    words = f"throttle successfully set to {_rate_words(call.override)}\n"
    return _reply(_name_broker(call.broker, words), override=call.override, as_json=as_json)


def refusal_page(refusal: Refusal, *, as_json: bool) -> HttpPage:
    """The answer to a request that is none."""
    if as_json:
        return HttpPage(body=encode_json({"error": refusal.text}), media=JSON_MEDIA, status=refusal.json_status)
    return HttpPage(body=f"{refusal.text}\n".encode(), media=TEXT_MEDIA, status=refusal.status)


def read_text(override: Override | None) -> str:
    """kafka-kit's reply to a read."""
    if override is None:
        return "no throttle override is set\n"
    return f"a throttle override is configured at {_rate_words(override)}\n"


def _override(request: HttpRequest) -> Override | Refusal:
    text = request.query.get("rate", "")
    if not text:
        return Refusal(text="rate param must be specified")
    if not _INTEGER.fullmatch(text) or int(text) > MAX_RATE_MB:
        return Refusal(text="rate param must be supplied as an integer")
    if int(text) <= 0:
        return Refusal(text="rate param must be >0")
    auto = request.query.get("autoremove", "")
    if auto and auto not in (*_TRUE, *_FALSE):
        return Refusal(text="autoremove param must be a bool")
    rate = int(text) * MB
    return Override(into=rate, out=rate, autoremove=auto in _TRUE)


def _rate_words(override: Override) -> str:
    """The rate as kafka-kit prints it; it knows one for both directions, so the smaller is named where they differ."""
    rate = min(r for r in (override.into, override.out) if r is not None) / MB
    return f"{rate:g}MB/s, autoremove=={'true' if override.autoremove else 'false'}"


def _name_broker(broker: int | None, words: str) -> str:
    return words if broker is None else f"broker {broker}: {words}"


def _reply(text: str, *, override: Override | None = None, as_json: bool) -> HttpPage:
    if not as_json:
        return HttpPage(body=text.encode(), media=TEXT_MEDIA)
    data = None if override is None else {"in": override.into, "out": override.out, "autoremove": override.autoremove}
    return HttpPage(body=encode_json({"message": text.strip(), "override": data}), media=JSON_MEDIA)
