"""The journal of a run: what its lines are about, and what they mean together.

The state says which throttles are ours, what they replaced, and what was submitted. `fold` takes one record at a
time, so the running command and a later resume hold the same state. States share memory: a new version of a mapping
shares nearly all of it with the one before. The form of the lines is that of `core/journal_lines.py`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.journal_lines import Grammar, Line, LinesText, RecordKind, decode_lines, read_data, replay_lines
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.schedule.work import BrokerRates, rates_from_data

COMPLETE, CLOSED = "complete", "closed"
ENDED = (COMPLETE, CLOSED)
"""Verdicts after which a run has nothing left to do; `closed` was given by an operator."""


class ConfigKey(NamedTuple):
    """One configuration key of one broker or topic."""

    kind: ResourceKind
    name: str
    key: str

    def as_data(self) -> dict[str, str]:
        """The key as journal data."""
        return {"kind": self.kind.value, "name": self.name, "key": self.key}


def key_of(change: ConfigChange) -> ConfigKey:
    """The key that a change is about."""
    return ConfigKey(change.kind, change.name, change.key)


def change_of(key: ConfigKey, value: str | None) -> ConfigChange:
    """The change that sets a key to a value; None takes away what is set."""
    kind, name, text = key
    op = ConfigOp.DELETE if value is None else ConfigOp.SET
    return ConfigChange(kind=kind, name=name, key=text, op=op, value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateHold:
    """A broker rate that we set or were about to set: the value before us, and every value of ours."""

    earlier: str | None
    ours: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a run said before its first byte: times in seconds from `made_at`, bytes to copy, requests to send.

    `least_s` and `most_s` are given where the basis was too thin for one time.
    """

    made_at: datetime
    promised_s: float
    bound_s: float
    total_bytes: int
    steps: int
    least_s: float | None = None
    most_s: float | None = None


class JournalSubject(StrEnum):
    """What a record is about; the first six are effects on the cluster, the rest are checks.

    `FOREIGN` is in the journal of what was done to moves of others: as they were before they were cancelled.
    """

    THROTTLE = "throttle"
    RESTORE = "restore"
    REASSIGN = "reassign"
    CANCEL = "cancel"
    ELECT = "elect"
    DIRS = "dirs"
    OPEN = "open"
    START = "start"
    SCHEDULE = "schedule"
    PAUSE = "pause"
    CONTINUE = "continue"
    RATES = "rates"
    RELEASED = "released"
    SALVAGED = "salvaged"
    OWED = "owed"
    END = "end"
    FOREIGN = "foreign"


Record: TypeAlias = Line[JournalSubject]
JournalText: TypeAlias = LinesText[JournalSubject]

K = TypeVar("K")
V = TypeVar("V")


class Layers(Mapping[K, V]):
    """An immutable mapping; adding n entries one after the other costs O(n log n) in all, a look-up O(log n).

    The newest layer wins. Layers are merged when a newer one has grown to half of the older one's size, so that there
    are few of them, each at least twice as large as the next.
    """

    __slots__ = ("_layers",)

    def __init__(self, layers: tuple[dict[K, V], ...] = ()) -> None:
        self._layers = layers

    def plus(self, more: Mapping[K, V]) -> "Layers[K, V]":
        """A new mapping with these entries added or replaced."""
        if not more:
            return self
        layers = [*self._layers, dict(more)]
        while len(layers) > 1 and len(layers[-2]) <= 2 * len(layers[-1]):
            newer = layers.pop()
            layers[-1] = layers[-1] | newer
        return Layers(tuple(layers))

    def __getitem__(self, key: K) -> V:
        for layer in reversed(self._layers):
            if key in layer:
                return layer[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def __bool__(self) -> bool:
        return bool(self._layers)

    def __repr__(self) -> str:
        return f"Layers({self._whole()!r})"

    def _whole(self) -> dict[K, V]:
        whole: dict[K, V] = {}
        for layer in self._layers:
            whole |= layer
        return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The journal folded up.

    `rates` and `entries` are the throttles that may be on the cluster because of us; a list without entries
    is one that we emptied and that may still have to be deleted. `submitted` holds the last target per
    partition, `trail` all lists sent since the plan was last wholly at one end, `dirs_sent` the log dirs likewise.
    `unsettled` says that the last run did not end, or not complete. `wanted` are the throttles that the last run was
    asked for, as changed while it ran (None: no throttle). `token` is the last run's fencing token (None: made
    without a lease), `promise` what it said before its first byte, `link_bytes_per_s` what the busiest broker reached
    in a run without throttle, `paused` that it starts nothing new, `began_at` when the last run began. `salvaged` says
    which lines were lost, until a run is complete. `baseline` are the throttles that stood before the first of the runs
    that belong together (None: not recorded). `operation` is the command that continues the operation on brokers which
    the last run is part of, as printed then. `copied` says that starts are kept a second time (`keep_begun`).
    """

    cluster_id: str = ""
    fingerprint: str = ""
    plan_path: str = ""
    runs: int = 0
    began_at: datetime | None = None
    direction: str = ""
    rate: int | None = None
    wanted: BrokerRates | None = None
    rates: Mapping[ConfigKey, RateHold] = field(default_factory=dict)
    entries: Mapping[ConfigKey, tuple[str, ...]] = field(default_factory=dict)
    submitted: Layers[TopicPartition, tuple[int, ...]] = field(default_factory=Layers)
    trail: Layers[TopicPartition, tuple[tuple[int, ...], ...]] = field(default_factory=Layers)
    dirs_sent: Layers[TopicPartitionReplica, tuple[str, ...]] = field(default_factory=Layers)
    token: int | None = None
    promise: Promise | None = None
    link_bytes_per_s: float | None = None
    paused: bool = False
    cancelled: bool = False
    unsettled: bool = False
    salvaged: str = ""
    baseline: Mapping[ConfigKey, str] | None = None
    verdict: str = ""
    operation: str = ""
    copied: bool = False
    open_intents: Mapping[int, Record] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """What the plan's runs are called on the command line: the beginning of the plan's identity."""
        return run_id_of(self.fingerprint)

    @property
    def name(self) -> str:
        """The last run for people."""
        return f"run {self.run_id} ({self.direction or 'run'} of {self.plan_path})"

    @property
    def is_lost(self) -> bool:
        """True when lines are missing, also where that was closed since: lists may stand that no line tells of."""
        return bool(self.salvaged) or (not self.runs and self.verdict == CLOSED)

    @property
    def throttled(self) -> bool:
        """True when something of ours may still be set on the cluster."""
        return bool(self.rates or self.entries)


def run_id_of(identity: str, length: int = 8) -> str:
    """The id of a plan's runs, from `plan.identity_of`; names of files and ids of rollouts have more digits."""
    return identity.removeprefix("sha256:")[:length]


def replay(records: Iterable[Record], source: str) -> RunState:
    """Fold all records; raises `InputError` naming `source` when one does not have its fields."""
    return replay_lines(records, source, RunState(), fold, DAMAGED_HINT)


def fold(state: RunState, record: Record) -> RunState:
    """Take one more record into account.

    An intent counts as made from its line on, with or without its effect; only `RESTORE` counts by its effect.
    `open_intents` only pairs the lines: what really happened is read from the cluster (`plan_state.py`).
    """
    if record.kind is RecordKind.INTENT:
        opened = {**state.open_intents, record.seq: record}
        return _take_intent(replace(state, open_intents=opened), record)
    if record.kind is RecordKind.EFFECT:
        intent = state.open_intents[record.of if record.of is not None else -1]
        left = {seq: r for seq, r in state.open_intents.items() if seq != record.of}
        state = replace(state, open_intents=left)
        return _take_restored(state, intent, record) if intent.what is JournalSubject.RESTORE else state
    return _take_check(state, record)


def change_to_data(change: ConfigChange, earlier: str | None = None) -> dict[str, Any]:
    """A config change as journal data; `earlier` is the value it replaces."""
    body: dict[str, Any] = {"kind": change.kind.value, "name": change.name, "key": change.key, "op": change.op.value}
    return body | {"value": change.value, "earlier": earlier}


def _take_intent(state: RunState, record: Record) -> RunState:
    data = record.data
    if record.what is JournalSubject.THROTTLE:
        rates, entries = dict(state.rates), dict(state.entries)
        for body in data["changes"]:
            key = _key_of(body)
            if key.kind is ResourceKind.BROKER:
                hold = rates.get(key) or RateHold(earlier=body["earlier"], ours=frozenset())
                rates[key] = replace(hold, ours=hold.ours | {body["value"]})
            else:
                entries[key] = tuple(dict.fromkeys([*entries.get(key, ()), *body["value"].split(",")]))
        return replace(state, rates=rates, entries=entries)
    if record.what is JournalSubject.REASSIGN:
        moved = {TopicPartition(t, p): tuple(target) for t, p, target in data["targets"]}
        trail = {k: tuple(dict.fromkeys([*state.trail.get(k, ()), target])) for k, target in moved.items()}
        return replace(state, submitted=state.submitted.plus(moved), trail=state.trail.plus(trail))
    if record.what is JournalSubject.DIRS:
        sent: dict[TopicPartitionReplica, tuple[str, ...]] = {}
        for topic, partition, broker, path in data["replicas"]:
            replica = TopicPartitionReplica(topic, partition, broker)
            known = sent.get(replica) or state.dirs_sent.get(replica, ())
            sent[replica] = tuple(dict.fromkeys([*known, path]))
        return replace(state, dirs_sent=state.dirs_sent.plus(sent))
    if record.what is JournalSubject.CANCEL:
        return replace(state, cancelled=True)
    return state


def _take_restored(state: RunState, intent: Record, effect: Record) -> RunState:
    """Forget the throttles that the effect record says are gone (`refused` lists indexes that failed)."""
    refused = set(effect.data.get("refused", ()))
    rates, entries = dict(state.rates), dict(state.entries)
    for index, body in enumerate(intent.data["changes"]):
        if index in refused:
            continue
        key = _key_of(body)
        if key.kind is ResourceKind.BROKER:
            rates.pop(key, None)
        elif body["op"] == ConfigOp.SUBTRACT.value:
            gone = set(body["value"].split(","))
            entries[key] = tuple(e for e in entries.get(key, ()) if e not in gone)
        else:
            entries.pop(key, None)
    return replace(state, rates=rates, entries=entries)


def _take_check(state: RunState, record: Record) -> RunState:
    data = record.data
    if record.what is JournalSubject.OPEN:
        return replace(state, cluster_id=data["cluster_id"], fingerprint=data["fingerprint"])
    if record.what is JournalSubject.START:
        return replace(
            state,
            runs=state.runs + 1,
            began_at=record.time,
            baseline=_baseline(data) if "baseline" in data else state.baseline,
            direction=data["direction"],
            plan_path=data["plan_path"],
            rate=data["rate"],
            wanted=_wanted_rates(data),
            unsettled=True,
            token=data.get("token"),
            copied=bool(data.get("copied")),
            operation=data.get("operation") or (state.operation if state.direction == data["direction"] else ""),
            promise=None,
            paused=False,
            # Applying again after a rollback starts afresh.
            cancelled=state.cancelled and state.unsettled,
            trail=state.trail if state.unsettled else Layers(),
            dirs_sent=state.dirs_sent if state.unsettled else Layers(),
        )
    if record.what is JournalSubject.SALVAGED:
        lost = _take_intent(state, replace(record, what=JournalSubject.THROTTLE))
        return replace(
            _take_intent(lost, replace(record, what=JournalSubject.REASSIGN)),
            salvaged=data["problem"],
            unsettled=True,
            plan_path=state.plan_path or data.get("plan_path", ""),
            wanted=state.wanted or _wanted_rates(data),
        )
    if record.what is JournalSubject.SCHEDULE:
        # A run that continues in a second round still has to keep what it said first.
        return replace(state, promise=state.promise or read_data({**data, "made_at": record.time}, Promise))
    if record.what in (JournalSubject.PAUSE, JournalSubject.CONTINUE):
        return replace(state, paused=record.what is JournalSubject.PAUSE)
    if record.what is JournalSubject.RATES:
        return replace(state, wanted=_wanted_rates(data))
    if record.what is JournalSubject.RELEASED:
        keys = {_key_of(body) for body in data["keys"]}
        return replace(
            state,
            rates={k: v for k, v in state.rates.items() if k not in keys},
            entries={k: v for k, v in state.entries.items() if k not in keys},
        )
    if record.what is JournalSubject.END:
        ended = data["verdict"] in ENDED
        return replace(
            state,
            unsettled=not ended,
            verdict=data["verdict"],
            salvaged="" if ended else state.salvaged,
            link_bytes_per_s=data.get("link_bytes_per_s", state.link_bytes_per_s),
        )
    return state


def _baseline(data: Mapping[str, Any]) -> dict[ConfigKey, str]:
    return {ConfigKey(ResourceKind(k), str(name), str(key)): str(v) for k, name, key, v in data["baseline"]}


def _wanted_rates(data: Mapping[str, Any]) -> BrokerRates | None:
    """The rates of a record; journals of runs with one rate for all have it as `rate`."""
    if data.get("rates") is not None:
        return rates_from_data(data["rates"])
    rate = data.get("rate")
    return None if rate is None else BrokerRates(into=rate, out=rate)


def _key_of(body: Mapping[str, Any]) -> ConfigKey:
    return ConfigKey(ResourceKind(body["kind"]), str(body["name"]), str(body["key"]))


HEADER = {"kind": "journal", "schema": 1}

DAMAGED_HINT = "what its runs left is removed by: kafkakit reassign cleanup --plan PLAN"
GRAMMAR = Grammar(header=HEADER, words=JournalSubject, damaged_hint=DAMAGED_HINT, salvaged=True)


def decode_journal(data: bytes, source: str) -> JournalText:
    """Read a journal; a torn last line is left out, any other damage raises `InputError`."""
    return decode_lines(data, source, GRAMMAR)
