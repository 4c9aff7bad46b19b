"""One operation on brokers: its record, what brokers hold, and whether a broker may be stopped for good.

The record says what was asked, which plans the operation has, and how far each of them is. The journal of each plan
remembers every effect on the cluster; the record only says which plan comes next. It is written before a plan is
begun and after it ended, so that a command after a crash finds the place to continue.

What brokers hold and lead now verifies an operation, and a broker that comes back waits for it. The check of safety
names what speaks against a stop, what to think of, and the last steps by hand.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import Any

from kafkakit.core.cluster_facts import cluster_id_problem
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.model import BrokerState, ClusterSnapshot, TopicPartition
from kafkakit.core.options import (
    OPTION,
    Completion,
    duration_option,
    not_typed,
    option,
    options_given,
    parsed_option,
    required_argument,
)
from kafkakit.core.selection import BrokerList, parse_broker_list
from kafkakit.core.text import few_of, quote, sanitize, shell_command
from kafkakit.placement.problem import PlaceBy

OPERATION_KIND = "broker-operation"
LIMIT_BYTES = 1 << 20
MOST_BROKERS = 100
MOST_LEGS = 1000
_LONGEST_NAME = 80
_FILE_NAME = re.compile(r"[A-Za-z0-9+._-]{1,160}")


class BrokerOperationKind(StrEnum):
    """What is done to the brokers."""

    DRAIN = "drain"
    REPLACE = "replace"
    DECOMMISSION = "decommission"
    LEADERS = "drain-leaders"
    """A drain of leaderships only, before a restart; planners go on to use the brokers."""

    @property
    def verb(self) -> str:
        """The word of the command line."""
        return "drain" if self is BrokerOperationKind.LEADERS else self.value

    @property
    def participle(self) -> str:
        """What a broker is afterwards."""
        return f"{self.verb.removesuffix('e')}ed"


class Stage(StrEnum):
    """Where an operation stands: plans are carried out, all of them ended, it is verified, or it is taken back."""

    MOVING = "moving"
    VERIFYING = "verifying"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class OperationPlanKind(StrEnum):
    """What a plan of the operation changes: who leads, or where copies are."""

    LEADERS = "leaders"
    COPIES = "copies"


class OperationPlanState(StrEnum):
    """Where one plan of the operation stands; a dropped one was given up for a newer one, begun or not."""

    OPEN = "open"
    DONE = "done"
    DROPPED = "dropped"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPlan:
    """One plan of an operation: the name of its file beside the record, and the identity its journal goes by."""

    kind: OperationPlanKind
    plan: str
    identity: str
    state: OperationPlanState = OperationPlanState.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOperation:
    """One drain, replacement or decommission; `onto` is the broker that replaces, `legs` are its plans in order.

    `number` tells operations of the same kind on the same brokers apart. `words` are the options as given. Brokers that
    are `rejoined` were taken back in, or off the cluster's list, since.
    """

    kind: BrokerOperationKind
    cluster_id: str
    brokers: tuple[int, ...]
    number: int
    created_at: datetime
    updated_at: datetime
    stage: Stage
    onto: int | None = None
    legs: tuple[OperationPlan, ...] = ()
    rejoined: tuple[int, ...] = ()
    words: Mapping[str, str]

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return f"{base_name(self.kind, self.brokers, self.onto)}.{self.number}"

    @property
    def is_open(self) -> bool:
        """True while the operation's own command has something to continue with."""
        return self.stage in (Stage.MOVING, Stage.VERIFYING)

    @property
    def throttle(self) -> str | None:
        """The throttle that the operation was begun with: plans that are not begun yet need it, too."""
        return self.words.get("throttle")

    def has_same_words(self, words: Mapping[str, str]) -> bool:
        """True when the options that shape the plans are the same; the throttle is not one of them."""
        return {**self.words, "throttle": ""} == {**words, "throttle": ""}

    @property
    def next_leg(self) -> int | None:
        """The place of the first plan that is not over."""
        return next((n for n, leg in enumerate(self.legs) if leg.state is OperationPlanState.OPEN), None)

    @property
    def last_to_undo(self) -> int | None:
        """The place of the last plan that may have changed something."""
        return next(
            (n for n in reversed(range(len(self.legs))) if self.legs[n].state is not OperationPlanState.UNDONE), None
        )

    def with_leg(self, place: int, state: OperationPlanState) -> "BrokerOperation":
        """The record with one plan's state changed."""
        legs = [replace(leg, state=state) if n == place else leg for n, leg in enumerate(self.legs)]
        return replace(self, legs=tuple(legs))

    def without_open(self) -> "BrokerOperation":
        """The record with every plan that is not over dropped."""
        legs = (
            replace(leg, state=OperationPlanState.DROPPED) if leg.state is OperationPlanState.OPEN else leg
            for leg in self.legs
        )
        return replace(self, legs=tuple(legs))


def emptied_by(operations: Iterable[BrokerOperation]) -> dict[int, BrokerOperation]:
    """Each broker that is being emptied, or was, with the operation that did it; those taken back in are absent."""
    found: dict[int, BrokerOperation] = {}
    for operation in sorted(operations, key=lambda o: (o.created_at, o.number, o.name)):
        if operation.kind is BrokerOperationKind.LEADERS:
            continue
        undone = operation.stage in (Stage.UNDOING, Stage.UNDONE)
        for broker in operation.brokers:
            if undone or broker in operation.rejoined:
                found.pop(broker, None)
            else:
                found[broker] = operation
    return found


def mark_leaving(snapshot: ClusterSnapshot, emptied: Mapping[int, BrokerOperation]) -> ClusterSnapshot:
    """The cluster with its live brokers among the emptied ones as draining; planners leave those out."""
    brokers = tuple(
        replace(b, state=BrokerState.DRAINING) if b.id in emptied and b.is_alive else b for b in snapshot.brokers
    )
    return replace(snapshot, brokers=brokers)


def leaving_words(snapshot: ClusterSnapshot, emptied: Mapping[int, BrokerOperation], program: str) -> tuple[str, ...]:
    """Why brokers are left out of a plan, one line each."""
    return tuple(
        f"broker {broker} is excluded from plans {_since_text(emptied.get(broker), snapshot)}; "
        f"to include it again: {shell_command('broker rejoin', str(broker), program=program)}"
        for broker in sorted(snapshot.leaving)
    )


def cordoned_words(snapshot: ClusterSnapshot, program: str) -> tuple[str, ...]:
    """Why brokers get no new replica, one line each; those that are not alive get none anyway."""
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    return tuple(
        f"broker {broker} is cordoned{f' ({sanitize(reason)})' if reason else ''} and gets no new replica; "
        f"to end that: {shell_command('broker uncordon', str(broker), program=program)}"
        for broker, reason in sorted(snapshot.cordoned.items())
        if broker in alive
    )


def _since_text(operation: BrokerOperation | None, snapshot: ClusterSnapshot) -> str:
    if operation is None:
        return f"since {snapshot.source} has it as draining"
    began = f"{operation.created_at:%Y-%m-%d %H:%M}Z"
    if operation.stage is not Stage.DONE:
        return f"while it is being {operation.kind.participle} (begun {began}, {operation.stage})"
    return f"since it was {operation.kind.participle} on {began}"


def base_name(kind: BrokerOperationKind, brokers: tuple[int, ...], onto: int | None) -> str:
    """How files of such operations begin: `drain-1001+1002`, `replace-1001+by+1009`; long lists are hashed."""
    listed = "+".join(map(str, brokers)) + (f"+by+{onto}" if onto is not None else "")
    if len(listed) > _LONGEST_NAME:
        listed = f"{len(brokers)}-brokers-{sha256(listed.encode()).hexdigest()[:16]}"
    return f"{kind.value}-{listed}"


def encode_operation(operation: BrokerOperation) -> bytes:
    """The record as a kafkakit file."""
    return encode_document(OPERATION_KIND, operation, leave_out=() if operation.rejoined else ("rejoined",))


def decode_operation(data: bytes, source: str) -> BrokerOperation:
    """Read a record; raises `InputError` for one that is invalid: it may have been edited."""
    operation = decode_document(data, OPERATION_KIND, BrokerOperation, source)
    if problem := _problem(operation):
        raise InputError(source, problem, hint="move the file away; the cluster itself shows what is left to do")
    return operation


def _problem(operation: BrokerOperation) -> str | None:
    ids = operation.brokers if operation.onto is None else (*operation.brokers, operation.onto)
    if problem := cluster_id_problem(operation.cluster_id):
        return problem
    if not operation.brokers or len(operation.brokers) > MOST_BROKERS:
        return f"names {len(operation.brokers)} brokers, expected 1 to {MOST_BROKERS}"
    if min(ids) < 0 or max(ids) >= 2**31 or len(set(ids)) != len(ids):
        return "its brokers are not a list of distinct broker ids"
    if (operation.onto is not None) != (operation.kind is BrokerOperationKind.REPLACE):
        return f"a {operation.kind} and its brokers do not fit together"
    if operation.number < 1 or len(operation.legs) > MOST_LEGS:
        return "its number or its list of plans is out of range"
    bad = next((leg.plan for leg in operation.legs if not _is_file_name(leg.plan)), None)
    return None if bad is None else f"{bad!r:.80} is not the name of a plan file beside it"


def _is_file_name(name: str) -> bool:
    return bool(_FILE_NAME.fullmatch(name)) and not name.startswith(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCounts:
    """One broker: its state, and how many replicas, leaderships and copies out of sync it has."""

    broker: int
    rack: str | None
    state: BrokerState
    replicas: int
    leaders: int
    out_of_sync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What some brokers have: each list of partitions is sorted.

    `held` have a replica there, `led` are led from there, `lagging` have a copy there that is not in sync, `due`
    have their first replica there, in sync, and are led from elsewhere. `passing` are led from there although their
    first replica is elsewhere and in sync. `moving` are reassigned just now.
    """

    held: tuple[TopicPartition, ...] = ()
    led: tuple[TopicPartition, ...] = ()
    lagging: tuple[TopicPartition, ...] = ()
    due: tuple[TopicPartition, ...] = ()
    passing: tuple[TopicPartition, ...] = ()
    moving: tuple[TopicPartition, ...] = ()
    brokers: tuple[BrokerCounts, ...] = ()

    @property
    def absent(self) -> tuple[int, ...]:
        """Those of the brokers that are not alive."""
        return tuple(b.broker for b in self.brokers if b.state is not BrokerState.ALIVE)


def holdings_of(snapshot: ClusterSnapshot, brokers: Collection[int]) -> Holdings:
    """Collect what the brokers hold; O(replicas) for those that hold something, O(partitions) for the rest."""
    goal = frozenset(brokers)
    held, led, lagging, due, passing, moving = [], [], [], [], [], []
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    under_way = {TopicPartition(r.topic, r.partition) for r in snapshot.reassignments}
    for topic, partition in snapshot.partitions():
        here = goal.intersection(partition.replicas)
        if not here and partition.leader not in goal:
            continue
        key = TopicPartition(topic, partition.partition)
        in_sync = frozenset(partition.isr or ())
        late = here - in_sync
        first = partition.replicas[0] if partition.replicas else None
        held += [key] if here else []
        lagging += [key] if late else []
        led += [key] if partition.leader in goal else []
        due += [key] if first in goal and first in in_sync and partition.leader != first else []
        if partition.leader in goal and first not in goal and first in in_sync:
            passing.append(key)
        moving += [key] if key in under_way else []
        replicas.update(here)
        behind.update(late)
        if partition.leader in goal:
            leaders[partition.leader] += 1
    known = snapshot.broker_by_id()
    return Holdings(
        held=tuple(sorted(held)),
        led=tuple(sorted(led)),
        lagging=tuple(sorted(lagging)),
        due=tuple(sorted(due)),
        passing=tuple(sorted(passing)),
        moving=tuple(sorted(moving)),
        brokers=tuple(
            BrokerCounts(
                broker=b,
                rack=known[b].rack if b in known else None,
                state=known[b].state if b in known else BrokerState.MISSING,
                replicas=replicas[b],
                leaders=leaders[b],
                out_of_sync=behind[b],
            )
            for b in sorted(goal)
        ),
    )


ROLES = "process.roles"
ZOOKEEPER = "zookeeper.connect"
FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
SETTING_KEYS = (ROLES, ZOOKEEPER, *FACTORS)

IN_BOTH = "broker,controller"
"""The roles of a node that is a broker and a controller."""

Settings = Mapping[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """`problems` forbid stopping the brokers, `cautions` are worth a thought, `steps` are what is left to do by hand.

    A step is a sentence ending with a colon or full stop, or a command on a line of its own.
    """

    problems: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def judge_safety(
    snapshot: ClusterSnapshot,
    brokers: Collection[int],
    holdings: Holdings,
    settings: Settings,
    bootstrap: str,
    again: str,
) -> Safety:
    """Judge whether the brokers may be stopped for good.

    `settings` are the values in force of the brokers that answered, for `SETTING_KEYS`. A broker that is down tells no
    role: then the steps ask for a look at the quorum. `again` is the command that unregisters stopped brokers.
    """
    ids = sorted(brokers)
    voters = voters_among(settings, ids)
    problems = []
    if holdings.held:
        problems.append(_still_on(holdings.held, "replica is", "replicas are", ids))
    if holdings.led:
        problems.append(_still_on(holdings.led, "leadership is", "leaderships are", ids))
    if voters:
        them = "it" if len(voters) == 1 else "them"
        problems.append(
            f"broker {few_of(voters)} is also a controller: stopping {them} takes a vote out of the quorum; "
            "let other nodes be controllers first"
        )
    return Safety(
        problems=tuple(problems),
        cautions=_cautions(snapshot, ids, settings),
        steps=_steps(snapshot, ids, voters, settings, bootstrap, again),
    )


def voters_among(settings: Settings, brokers: Collection[int]) -> list[int]:
    """Those of the brokers that say they are controllers (KRaft's combined mode)."""
    return [b for b in sorted(brokers) if "controller" in settings.get(b, {}).get(ROLES, "")]


def with_votes(
    settings: Settings, brokers: Collection[int], voters: Collection[int] | None
) -> dict[int, dict[str, str]]:
    """The settings with the roles of silent brokers, as far as the quorum's voters show them (None: no quorum told)."""
    told = {b: dict(values) for b, values in settings.items()}
    if voters is None:
        return told
    for broker in brokers:
        known = told.setdefault(broker, {})
        known[ROLES] = known.get(ROLES) or (IN_BOTH if broker in voters else "broker")
    return told


def to_unregister(snapshot: ClusterSnapshot, brokers: Collection[int], settings: Settings) -> list[int]:
    """The brokers that are stopped, and known to be no controllers: KRaft may forget them."""
    known = snapshot.broker_by_id()
    stopped = [b for b in sorted(brokers) if b not in known or not known[b].is_alive]
    return [b for b in stopped if settings.get(b, {}).get(ROLES) == "broker"]


def _still_on(keys: tuple[TopicPartition, ...], one: str, many: str, brokers: list[int]) -> str:
    return f"{len(keys)} {one if len(keys) == 1 else many} still on broker {few_of(brokers)}: {few_of(keys)}"


def _cautions(snapshot: ClusterSnapshot, leaving: list[int], settings: Settings) -> tuple[str, ...]:
    """What the cluster cannot do any more once the brokers are gone."""
    staying = [b for b in snapshot.brokers if b.is_alive and b.id not in leaving]
    lines = []
    for key in FACTORS:
        wanted = max((int(v[key]) for v in settings.values() if v.get(key, "").isdigit()), default=0)
        if wanted > len(staying):
            lines.append(f"{key} is {wanted}, and {len(staying)} live brokers stay: such topics cannot be created")
    wide = [t.name for t in snapshot.topics if any(len(p.replicas) > len(staying) for p in t.partitions)]
    if wide:
        lines.append(f"more replicas than the {len(staying)} live brokers that stay: topic {few_of(wide)}")
    known = snapshot.broker_by_id()
    lost = {known[b].rack for b in leaving if b in known} - {b.rack for b in staying} - {None, ""}
    if lost:
        lines.append(f"no broker stays in rack {few_of(sorted(str(r) for r in lost))}")
    return tuple(lines)


def _steps(
    snapshot: ClusterSnapshot, ids: list[int], voters: list[int], settings: Settings, bootstrap: str, again: str
) -> tuple[str, ...]:
    known = snapshot.broker_by_id()
    at = f"--bootstrap-server {quote(bootstrap)}"
    quorum = f"bin/kafka-metadata-quorum.sh {at} describe --status"
    in_zookeeper = any(v.get(ZOOKEEPER) and not v.get(ROLES) for v in settings.values())
    steps: list[str] = []
    if voters:
        steps += ["Take it out of the quorum (its directory id is in `describe --replication`):", quorum]
    elif not in_zookeeper and any(not settings.get(b, {}).get(ROLES) for b in ids):
        steps += ["Its role is unknown (is it down?): make sure that CurrentVoters does not name it:", quorum]
    running = [known[b] for b in ids if b in known and known[b].is_alive]
    if running:
        where = few_of(f"{b.id} ({b.host})" if b.host else f"{b.id}" for b in running)
        steps.append(f"Stop the process of broker {where} and keep it from starting again.")
    if in_zookeeper:
        return tuple(steps)
    if running:
        steps += [
            "Then take it off the cluster's list; this does so once it is stopped:",
            again,
            "Or Kafka's own tool:",
        ]
    else:
        steps.append("Then take it off the cluster's list, with Kafka's own tool:")
    steps += [f"bin/kafka-cluster.sh unregister {at} --id {b}" for b in ids]
    return tuple(steps)


BROKER_IDS: Mapping[str, Any] = {"metavar": "ID,...", "completion": Completion.BROKERS}
LEADERS_ONLY = "--leaders-only"
_WHERE_TO = ("--to", "--exclude-receivers", "--placement", "--min-rack-ids", "--with", "--spread")
RECORDED = (*_WHERE_TO, "--ignore-warns", LEADERS_ONLY)


def broker_ids(text: str, flag: str, most: int = MOST_BROKERS) -> tuple[int, ...]:
    """Broker ids of a comma list, sorted; `UsageError` for anything else."""
    listed = parse_broker_list(text, flag)
    if listed.where is not None:
        raise UsageError(f"{flag}: queries are not taken here", hint="give the ids of the brokers")
    if listed.existing or listed.everything:
        raise UsageError(f"{flag}: name the brokers, -1 and -2 mean many of them")
    if len(listed.ids) > most:
        raise UsageError(f"{flag}: {len(listed.ids)} brokers are named, at most {most} can be")
    return tuple(sorted(listed.ids))


def _read_list(text: str, flag: str) -> BrokerList | None:
    return BrokerList(ids=broker_ids(text, flag)) if text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationGoal:
    """Which brokers are to be emptied, and where their replicas may go.

    `onto` is the one broker that takes them all in place; else `receiving`, or every other live one, none of them
    in `exclude_receivers`. `placement` None means by bytes where sizes are known, by counts where not. With `replan`
    an interrupted operation is planned again. `words` are those of its record.
    """

    brokers: tuple[int, ...] = required_argument(
        parse=partial(broker_ids, flag="ID"), **BROKER_IDS, help="Brokers to empty; they may be dead."
    )
    onto: int | None = not_typed(None)
    placement: PlaceBy | None = option(
        None, help="What to balance: free bytes, or counts. Default: storage if all sizes are known, else counts."
    )
    min_rack_ids: int = option(
        0,
        min=0,
        help="Minimum number of racks per partition before two replicas may share one; 0 means never share.",
    )
    replan: bool = option(
        False,
        "--replan",
        help="Cancel the running moves of an interrupted operation, or of its undoing, and plan the rest again.",
    )
    receiving: BrokerList | None = parsed_option(
        "",
        "--to",
        parse=partial(_read_list, flag="--to"),
        **BROKER_IDS,
        help="Brokers that may take the replicas; all other live ones if not given.",
    )
    exclude_receivers: BrokerList | None = parsed_option(
        "",
        "--exclude-receivers",
        parse=partial(_read_list, flag="--exclude-receivers"),
        **BROKER_IDS,
        help="Brokers that get no copies.",
    )
    spread: bool = option(
        False, "--spread", help="Instead, let the replicas of a partition per rack differ by at most one."
    )
    ignore_warns: bool = option(False, "--ignore-warns", help="Move the other replicas although some cannot be moved.")
    leaders_only: bool = option(
        False,
        LEADERS_ONLY,
        help="Move only leaderships, and no data; `broker rejoin ID --restore leaders` moves them back.",
    )
    given: tuple[tuple[str, str | None], ...] = options_given()
    words: Mapping[str, str] = field(default_factory=dict, metadata={OPTION: None})

    def recorded(self, kind: BrokerOperationKind, throttle: str | None) -> "OperationGoal":
        """The goal with its words: what was typed, without options that were not given."""
        given, listed = dict(self.given), ",".join(map(str, self.brokers))
        placing = [f for f in _WHERE_TO if f in given]
        if self.leaders_only and placing:
            raise UsageError(f"{LEADERS_ONLY} moves no data, {' and '.join(placing)} cannot be given with it")
        options = {"throttle": throttle} | {f[2:]: given[f] or str(True) for f in RECORDED if f in given}
        words = {"command": f"broker {kind.verb}", "brokers": listed} | {
            name: word for name, word in options.items() if word
        }
        return replace(self, words=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionPace:
    """How many leaderships pass at once, and how long is waited between such groups."""

    group: int = option(50, "--leaders-at-once", min=1, max=5000, help="Leaderships that are moved at the same time.")
    pause_s: float = duration_option(
        "1s",
        "--leaders-pause",
        may_be_zero=True,
        help="How long to wait between such groups of leaderships; 0: not at all.",
    )
