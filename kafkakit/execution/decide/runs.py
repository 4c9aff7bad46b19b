"""Runs: what they are asked to do, what came out, which one is meant, and what they left if their journal is lost.

* If no plan file is named, journals tell which run is meant and what it has in flight.
* A running executor is asked through two small documents. The command writes the control request; the executor only
  reads it and writes its answer, which names the request's version, so a command can wait until its request was taken
  up. A request is for one run, by the fencing token of its lease: it does not outlive the run and cannot pause or
  abort the next one. The recorded names of both, and of where they are kept, are `wish` and `wish-answer`.
* Without a journal, or with a part of it, a run is recognised by its throttles. An entry names a partition and a
  broker. If all entries of a planned partition name brokers that the plan moves it between, they are the plan's. A
  rate is the plan's if only such entries name its broker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.documents import DocumentKind, decode_document, encode_document
from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import count_of
from kafkakit.core.text import ShellCommand
from kafkakit.execution.decide import throttle as keys
from kafkakit.execution.decide.journal import ConfigKey, Promise, RateHold, RunState, change_to_data, key_of
from kafkakit.execution.decide.plan_state import LiveState, PartitionVerdict, list_items
from kafkakit.execution.decide.run_rules import RunRules, ScheduleLimits
from kafkakit.execution.decide.schedule.work import BrokerRates, RateRequest, rates_to_data


class Direction(StrEnum):
    """Carry the plan out, undo it, or only look."""

    APPLY = "apply"
    ROLLBACK = "rollback"
    ABORT = "abort"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Command lines to paste, for hints: the program with its connection options, and the plan file, quoted.

    `run_options` are those given to this run that a next run of the plan needs as well, `throttle_options` its
    throttles: the journal remembers them for a run that continues, not for one that takes a finished run back.
    `operation` is the line that continues the operation on brokers that the plan is part of, if it is.
    """

    program: str
    plan: str
    run_options: tuple[str, ...] = ()
    throttle_options: tuple[str, ...] = ()
    operation: str = ""

    def line(self, verb: str, *options: str) -> str:
        """`kafkakit ... reassign VERB PLAN OPTIONS`."""
        return str(ShellCommand(f"reassign {verb}", program=self.program, typed=(self.plan, *options)))

    def run(self, direction: Direction, *options: str) -> str:
        """The line that runs the plan in that direction, unasked; an abort knows none of a run's options."""
        own = () if direction is Direction.ABORT else self.run_options
        throttle = self.throttle_options if direction is Direction.ROLLBACK else ()
        return self.line(direction.value, "--yes", *own, *throttle, *options)

    @property
    def replan(self) -> str:
        """The line that plans the rest of the operation anew; empty for a plan that is part of none."""
        return replan_line(self.operation)

    def cleanup(self) -> str:
        """The line that removes throttles of the plan, whether or not its journal is whole."""
        named = self.plan if self.plan.startswith("--run ") else f"--plan {self.plan}"
        return str(ShellCommand("reassign cleanup", program=self.program, typed=(named, "--yes")))


def replan_line(operation: str) -> str:
    """The line of an operation on brokers that plans what is left of it anew; empty without an operation."""
    return operation if not operation or "--replan" in operation.split() else f"{operation} --replan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to run; `rates` is laid over the throttles of an interrupted run, `limits` are those of the schedule.

    `note_stop_words` is told what to say, and the hint, when the process is stopped too suddenly for the run to look:
    from the first effect on, None once it is over.
    """

    commands: Commands
    plan_path: str
    confirm: Callable[[], bool]
    pinned_cluster_id: str | None = None
    rates: RateRequest = field(default_factory=RateRequest)
    limits: ScheduleLimits = field(default_factory=ScheduleLimits)
    rules: RunRules = RunRules()
    dry_run: bool = False
    retry_limit_s: float = 90.0
    note_stop_words: Callable[[tuple[str, str] | None], None] = lambda words: None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What a run came to.

    `verdict` is one of `applied`, `already applied`, `rolled back`, `nothing to roll back`, `planned` (dry
    run), `aborted`, `nothing to abort`, `declined`, `incomplete`; from `verify`: `complete`, `incomplete`. `owed`
    names throttles of ours that could not be removed. `dirs_moved` counts copies that changed their log dir inside
    a broker. `promise` is what the run said before its first byte. `notes` are no problems, such as deleted topics.
    """

    direction: Direction
    verdict: str
    partitions: tuple[PartitionVerdict, ...]
    problems: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    submitted: int = 0
    copied_bytes: int = 0
    dirs_moved: int = 0
    seconds: float = 0.0
    rates: BrokerRates | None = None
    promise: Promise | None = None
    next_commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the command may exit with 0."""
        return not self.problems and not self.owed


_OF_FINISHED = ("apply", "rollback", "verify")
"""What can be done with a run that is finished."""


def choose_run(states: Sequence[RunState], wanted: str, token: int | None, command: str) -> RunState:
    """The run whose id begins with `wanted`; without that the active run, by its token, else the only unfinished one.

    `command` is the command line up to the run, for the hints. Raises `UsageError` when no run, or several, are meant.
    """
    begun = sorted((s for s in states if s.runs or s.is_lost), key=lambda s: (str(s.began_at), s.run_id))
    unfinished = [s for s in begun if s.unsettled]
    if wanted:
        found = [s for s in begun if s.run_id.startswith(wanted)]
        problem = f"no run on this host has the id {wanted}" if not found else f"{len(found)} runs have the id {wanted}"
    else:
        found = [s for s in unfinished if token is not None and s.token == token] or unfinished
        problem = "no unfinished run was started on this host"
        if found:
            problem = f"{len(found)} runs are unfinished: {'; '.join(s.name for s in found)}"
    if len(found) == 1:
        return found[0]
    known = found or unfinished or begun
    if not known:
        raise UsageError(problem, hint=f"name the plan file: {command} PLAN")
    last = f"the last one was {known[-1].name}"
    if known is begun and (wanted or command.rpartition(" ")[2] not in _OF_FINISHED):
        raise UsageError(problem, hint=f"{last}; it is finished")
    raise UsageError(problem, hint=f"{last}:\n{command} --run {known[-1].run_id}")


def moves_sent(state: RunState, live: LiveState) -> tuple[TopicPartition, ...]:
    """The running moves that a journal's runs sent."""
    running = sorted(live.running.items())
    return tuple(k for k, r in running if r.target in (state.submitted.get(k), *state.trail.get(k, ())))


def moves_under(state: RunState, live: LiveState) -> tuple[TopicPartition, ...]:
    """The running moves that a journal's runs sent, or that its throttle entries name."""
    named = {TopicPartition(k.name, int(e.split(":")[0])) for k, entries in state.entries.items() for e in entries}
    return tuple(sorted((named & set(live.running)) | set(moves_sent(state, live))))


CONTROL_REQUEST_KIND = "wish"

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Text = Annotated[str, Meta(max_length=500)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """What the run with the fencing token `token` is to do: stop starting steps, end early, keep to rates.

    `rates` None: no request about rates, the run keeps its own. `BrokerRates()` with nothing set: no throttle at all.
    `by` and `at` say for people who asked last.
    """

    token: _Count
    by: _Text
    at: Annotated[datetime, Meta(tz=True)]
    paused: bool = False
    abort: bool = False
    rates: BrokerRates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The executor has read the request of `version`; `refused` says why it will not follow it, empty when it does."""

    token: _Count
    version: _Count
    at: Annotated[datetime, Meta(tz=True)]
    refused: _Text = ""


ANSWER_DOCUMENT = DocumentKind("wish-answer", Answer)


def decode_control_request(data: bytes, source: str) -> ControlRequest:
    """Read a control request; `InputError` when it is none or of a newer schema. Unknown fields are ignored."""
    return decode_document(data, CONTROL_REQUEST_KIND, ControlRequest, source)


def encode_control_request(request: ControlRequest) -> bytes:
    """The document of a control request, brokers in order; `InputError` for one that its reader would refuse."""
    rates = request.rates
    if rates is not None:
        into_of, out_of = dict(sorted(rates.into_of.items())), dict(sorted(rates.out_of.items()))
        request = replace(request, rates=replace(rates, into_of=into_of, out_of=out_of))
    data = encode_document(CONTROL_REQUEST_KIND, request)
    decode_control_request(data, "the control request")
    return data


def change_request(
    request: ControlRequest | None,
    token: int,
    by: str,
    at: datetime,
    *,
    paused: bool | None = None,
    abort: bool | None = None,
    rates: BrokerRates | None = None,
) -> ControlRequest:
    """The present request for a run with what is given changed; one for another run counts as none."""
    base = request if request is not None and request.token == token else ControlRequest(token=token, by=by, at=at)
    return replace(
        base,
        by=by,
        at=at,
        paused=base.paused if paused is None else paused,
        abort=base.abort if abort is None else abort,
        rates=base.rates if rates is None else rates,
    )


Lists = Mapping[TopicPartition, tuple[int, ...]]
_LIST_OF = {keys.LEADER_RATE: keys.LEADER_LIST, keys.FOLLOWER_RATE: keys.FOLLOWER_LIST}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredThrottles:
    """Throttles, and the lists of planned partitions that a run must have sent; what the journal knows is left out.

    `earlier` has the values that stood before, as far as they are known.
    """

    rates: Mapping[ConfigKey, str] = field(default_factory=dict)
    entries: Mapping[ConfigKey, tuple[str, ...]] = field(default_factory=dict)
    lists: Lists = field(default_factory=dict)
    earlier: Mapping[ConfigKey, str] = field(default_factory=dict)

    @property
    def wanted(self) -> BrokerRates | None:
        """The rates for the rest of the run, the lowest that is set; None where none is."""
        values = {
            name: [int(v) for k, v in self.rates.items() if k.key == name and v.isdigit()] for name in keys.RATE_KEYS
        }
        into, out, inside = (
            min(values[n], default=None) for n in (keys.FOLLOWER_RATE, keys.LEADER_RATE, keys.INSIDE_RATE)
        )
        return BrokerRates(into=into, out=out, inside=inside) if self.rates else None

    @property
    def throttled(self) -> bool:
        """True when there are throttles."""
        return bool(self.rates or self.entries)

    def as_data(self) -> dict[str, Any]:
        """The fields of a journal's record; rates whose earlier value is not known are to be unset."""
        values = [(k, ConfigOp.SET, v) for k, v in sorted(self.rates.items())]
        values += [(k, ConfigOp.APPEND, ",".join(v)) for k, v in sorted(self.entries.items())]
        changes = [ConfigChange(kind=k.kind, name=k.name, key=k.key, op=op, value=v) for k, op, v in values]
        return {
            "changes": [change_to_data(c, self.earlier.get(key_of(c))) for c in changes],
            "rates": None if self.wanted is None else rates_to_data(self.wanted),
            "targets": [[*k, list(v)] for k, v in sorted(self.lists.items())],
        }


def sent_lists(plan: Plan, live: LiveState) -> Lists:
    """Present lists, and targets of running moves, that are neither end of a move but only have brokers of it."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for move in plan.moves:
        now, running = live.states.get(move.key), live.running.get(move.key)
        replicas = running.target if running else now.replicas if now else ()
        is_ours = bool(replicas) and set(replicas) <= {*move.before, *move.after}
        if is_ours and (running or replicas not in (move.before, move.after)):
            found[move.key] = replicas
    return found


def plan_entries(plan: Plan, state: RunState, topics: keys.Configs) -> dict[ConfigKey, tuple[str, ...]]:
    """The throttle entries on `topics` that are the plan's and not in the journal; O(moves + entries)."""
    brokers = {m.key: {*m.before, *m.after}.union(*state.trail.get(m.key, ())) for m in plan.moves}
    found: dict[ConfigKey, tuple[str, ...]] = {}
    for topic in sorted({m.topic for m in plan.moves} & topics.keys()):
        for name in keys.LIST_KEYS:
            groups: dict[int, dict[str, int]] = {}
            for entry in keys.split_list(topics[topic].get(name)):
                partition, _, broker = entry.partition(":")
                if partition.isdigit() and broker.isdigit():
                    groups.setdefault(int(partition), {})[entry] = int(broker)
            key = ConfigKey(ResourceKind.TOPIC, topic, name)
            held = {*state.entries.get(key, ()), *keys.split_list((state.baseline or {}).get(key))}
            ours = [
                e
                for partition, named in groups.items()
                if set(named.values()) <= brokers.get(TopicPartition(topic, partition), set())
                for e in named
                if e not in held
            ]
            if ours:
                found[key] = tuple(ours)
    return found


def topics_held(entries: Mapping[ConfigKey, Sequence[str]], brokers: keys.Configs) -> tuple[str, ...]:
    """The topics with entries that name a broker with a rate for their side: without a rate an entry limits nothing."""
    rate_of = {place: rate for rate, place in _LIST_OF.items()}
    return tuple(
        sorted(
            {
                key.name
                for key, held in entries.items()
                if any(rate_of[key.key] in brokers.get(e.partition(":")[2], {}) for e in held)
            }
        )
    )


def recover(
    plan: Plan, live: LiveState, state: RunState, brokers: keys.Configs, topics: keys.Configs, *, named: bool
) -> RecoveredThrottles:
    """What is on the cluster of the plan's runs; `topics` are those of the whole cluster.

    Rates are the plan's on brokers that only its entries name. Where the plan is `named` by an operator, or its run is
    known to be lost, those on all its brokers are that have a value of the run, as far as one is known: a run may have
    been cut before its entries. Lists on the way are taken for the plan's only then: another process may move a
    partition between the same brokers.
    """
    entries = plan_entries(plan, state, topics)
    ours = {(k.name, k.key, e) for source in (entries, state.entries) for k, held in source.items() for e in held}
    others: dict[str, set[str]] = {name: set() for name in keys.LIST_KEYS}
    mine: dict[str, set[str]] = {name: set() for name in keys.LIST_KEYS}
    for topic, values in topics.items():
        for name in keys.LIST_KEYS:
            for entry in keys.split_list(values.get(name)):
                side = mine if (topic, name, entry) in ours else others
                side[name].add(keys.WILDCARD if entry == keys.WILDCARD else entry.partition(":")[2])
    used = {str(b) for m in plan.moves for b in {*m.before, *m.after}}
    inside = {str(m.broker) for m in plan.dir_moves} if named or entries else set()
    known, earlier = _values_of(state), state.baseline or {}
    rates: dict[ConfigKey, str] = {}
    for broker, values in brokers.items():
        for name in keys.RATE_KEYS:
            key, place = ConfigKey(ResourceKind.BROKER, broker, name), _LIST_OF.get(name)
            if name not in values or key in state.rates or values[name] == earlier.get(key):
                continue
            among = broker in (inside if place is None else used)
            likely = named and among and (not known or values[name] in known)
            foreign = place is not None and not others[place].isdisjoint((broker, keys.WILDCARD))
            # A value of the run in place of another one that stood before it is the run's, whatever others throttle.
            replaced = state.baseline is not None and among and values[name] in known
            if replaced or (not foreign and (likely or (place is not None and broker in mine[place]))):
                rates[key] = values[name]
    return RecoveredThrottles(
        rates=rates, entries=entries, lists=sent_lists(plan, live) if named else {}, earlier=earlier
    )


def with_recovered(state: RunState, found: RecoveredThrottles) -> RunState:
    """The state as it is once what was found is in the journal."""
    rates = {k: RateHold(earlier=found.earlier.get(k), ours=frozenset({v})) for k, v in found.rates.items()}
    entries = {k: (*state.entries.get(k, ()), *v) for k, v in found.entries.items()}
    return replace(state, rates={**state.rates, **rates}, entries={**state.entries, **entries})


def _values_of(state: RunState) -> set[str]:
    """The values of rates that the run is known to have used."""
    wanted = state.wanted or BrokerRates()
    given = (wanted.into, wanted.out, wanted.inside, *wanted.into_of.values(), *wanted.out_of.values())
    return {str(v) for v in given if v is not None}.union(*(hold.ours for hold in state.rates.values()))


UNACCOUNTED = "throttles cover replicas of the plan"


def unaccounted_words(topics: Sequence[str]) -> tuple[str, ...]:
    """Throttles of the plan's replicas that no journal accounts for, as something that is owed."""
    return (
        (f"{UNACCOUNTED}, not set by a run that is recorded here: topics {list_items(list(topics))}",) if topics else ()
    )


def lost_words(state: RunState, found: RecoveredThrottles) -> tuple[str, ...]:
    """What to say before a run continues without a part of its journal."""
    words = [f"a part of the journal is lost: {state.salvaged}"] if state.salvaged else []
    if found.throttled:
        brokers = ", ".join(sorted({k.name for k in found.rates}, key=int))
        words.append(
            "taken for this run's, since they name exactly its replicas: throttle entries of "
            f"{count_of(len({k.name for k in found.entries}), 'topic')}"
            + (f", rates of brokers {brokers}" if brokers else "")
            + ("" if found.earlier or not brokers else ", which are unset at the end")
        )
    return tuple(words)
