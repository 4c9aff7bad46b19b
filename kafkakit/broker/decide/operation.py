"""The record of one operation on brokers: what was asked, which plans it has, and how far each of them is.

The journal of each plan remembers every effect on the cluster; this record only says which plan comes next. It is
written before a plan is begun and after it ended, so that a command after a crash finds the place to continue.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from kafkakit.core.cluster_id import cluster_id_problem
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError
from kafkakit.core.model import BrokerState, ClusterSnapshot

OPERATION_KIND = "broker-operation"
LIMIT_BYTES = 1 << 20
MOST_BROKERS = 100
MOST_LEGS = 1000
_LONGEST_NAME = 80
_FILE_NAME = re.compile(r"[A-Za-z0-9+._-]{1,160}")


class Kind(StrEnum):
    """What is done to the brokers; the words of the command line."""

    DRAIN = "drain"
    REPLACE = "replace"
    DECOMMISSION = "decommission"


class Stage(StrEnum):
    """Where an operation stands: plans are carried out, all of them ended, it is verified, or it is taken back."""

    MOVING = "moving"
    VERIFYING = "verifying"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class LegKind(StrEnum):
    """What a plan of the operation changes: who leads, or where copies are."""

    LEADERS = "leaders"
    COPIES = "copies"


class LegState(StrEnum):
    """Where one plan of the operation stands; a dropped one was given up for a newer one, begun or not."""

    OPEN = "open"
    DONE = "done"
    DROPPED = "dropped"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One plan of an operation: the name of its file beside the record, and the identity its journal goes by."""

    kind: LegKind
    plan: str
    identity: str
    state: LegState = LegState.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One drain, replacement or decommission; `onto` is the broker that replaces, `legs` are its plans in order.

    `number` tells operations of the same kind on the same brokers apart. `words` are the options as given. Brokers that
    are `rejoined` were taken back in, or off the cluster's list, since.
    """

    kind: Kind
    cluster_id: str
    brokers: tuple[int, ...]
    number: int
    created_at: datetime
    updated_at: datetime
    stage: Stage
    onto: int | None = None
    legs: tuple[Leg, ...] = ()
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
        return next((n for n, leg in enumerate(self.legs) if leg.state is LegState.OPEN), None)

    @property
    def last_to_undo(self) -> int | None:
        """The place of the last plan that may have changed something."""
        return next((n for n in reversed(range(len(self.legs))) if self.legs[n].state is not LegState.UNDONE), None)

    def with_leg(self, place: int, state: LegState) -> "Operation":
        """The record with one plan's state changed."""
        legs = [replace(leg, state=state) if n == place else leg for n, leg in enumerate(self.legs)]
        return replace(self, legs=tuple(legs))

    def without_open(self) -> "Operation":
        """The record with every plan that is not over dropped."""
        legs = (replace(leg, state=LegState.DROPPED) if leg.state is LegState.OPEN else leg for leg in self.legs)
        return replace(self, legs=tuple(legs))


def emptied_by(operations: Iterable[Operation]) -> dict[int, Operation]:
    """Each broker that is being emptied, or was, with the operation that did it; those taken back in are absent."""
    found: dict[int, Operation] = {}
    for operation in sorted(operations, key=lambda o: (o.created_at, o.number, o.name)):
        undone = operation.stage in (Stage.UNDOING, Stage.UNDONE)
        for broker in operation.brokers:
            if undone or broker in operation.rejoined:
                found.pop(broker, None)
            else:
                found[broker] = operation
    return found


def mark_leaving(snapshot: ClusterSnapshot, emptied: Mapping[int, Operation]) -> ClusterSnapshot:
    """The cluster with its live brokers among the emptied ones as draining; planners leave those out."""
    brokers = tuple(
        replace(b, state=BrokerState.DRAINING) if b.id in emptied and b.is_alive else b for b in snapshot.brokers
    )
    return replace(snapshot, brokers=brokers)


def leaving_words(snapshot: ClusterSnapshot, emptied: Mapping[int, Operation], program: str) -> tuple[str, ...]:
    """Why brokers are left out of a plan, one line each."""
    return tuple(
        f"broker {broker} is left out unless it is named: {_since(emptied.get(broker), snapshot)}; "
        f"to take it back in: {program} broker rejoin {broker}"
        for broker in sorted(snapshot.leaving)
    )


def _since(operation: Operation | None, snapshot: ClusterSnapshot) -> str:
    if operation is None:
        return f"{snapshot.source} has it as draining"
    return f"{operation.kind} of {operation.created_at:%Y-%m-%d %H:%M}Z ({operation.stage})"


def base_name(kind: Kind, brokers: tuple[int, ...], onto: int | None) -> str:
    """How files of such operations begin: `drain-1001+1002`, `replace-1001+by+1009`; long lists are hashed."""
    listed = "+".join(map(str, brokers)) + (f"+by+{onto}" if onto is not None else "")
    if len(listed) > _LONGEST_NAME:
        listed = f"{len(brokers)}-brokers-{sha256(listed.encode()).hexdigest()[:16]}"
    return f"{kind.value}-{listed}"


def encode_operation(operation: Operation) -> bytes:
    """The record as a kafkakit file."""
    return encode_document(OPERATION_KIND, operation, leave_out=() if operation.rejoined else ("rejoined",))


def decode_operation(data: bytes, source: str) -> Operation:
    """Read a record; raises `InputError` for one that is invalid: it may have been edited."""
    operation = decode_document(data, OPERATION_KIND, Operation, source)
    if problem := _problem(operation):
        raise InputError(source, problem, hint="move the file away; the cluster itself shows what is left to do")
    return operation


def _problem(operation: Operation) -> str | None:
    ids = operation.brokers if operation.onto is None else (*operation.brokers, operation.onto)
    if problem := cluster_id_problem(operation.cluster_id):
        return problem
    if not operation.brokers or len(operation.brokers) > MOST_BROKERS:
        return f"names {len(operation.brokers)} brokers, expected 1 to {MOST_BROKERS}"
    if min(ids) < 0 or max(ids) >= 2**31 or len(set(ids)) != len(ids):
        return "its brokers are not a list of distinct broker ids"
    if (operation.onto is not None) != (operation.kind is Kind.REPLACE):
        return f"a {operation.kind} and its brokers do not fit together"
    if operation.number < 1 or len(operation.legs) > MOST_LEGS:
        return "its number or its list of plans is out of range"
    bad = next((leg.plan for leg in operation.legs if not _is_file_name(leg.plan)), None)
    return None if bad is None else f"{bad!r:.80} is not the name of a plan file beside it"


def _is_file_name(name: str) -> bool:
    return bool(_FILE_NAME.fullmatch(name)) and not name.startswith(".")
