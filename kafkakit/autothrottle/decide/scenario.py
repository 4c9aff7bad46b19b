"""A scenario: moves beside client traffic that changes over time, and the least time that any rates need for them.

Arrays are by direction (out, into), then by broker, then by piece of time. The file of a scenario is JSON or YAML:
brokers with capacities and client traffic, and the flows of moves.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from kafkakit.core.documents import decode_document, encode_document, encode_json, place_in
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import epoch_ms, parse_duration, parse_size
from kafkakit.core.yaml_json import Mapping as MappingNode
from kafkakit.core.yaml_json import Node, Scalar, list_of, read_json, sound_document
from kafkakit.simulator.flows import share

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
_DONE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Brokers, flows and what happens in each piece of time; bytes and bytes/s, brokers by position.

    `line` is the stated capacity, `real` what there is. `starts_s` are the first seconds of the pieces, from 0; the
    last one holds until `seconds`. `at_ms` is the time of day at the start. The law is told no totals where not
    `is_measured`, and no latencies where `idle_ms`, the produce p99 of an idle broker, is not known. `seen_until[t]` is
    the second up to which metrics reach that are there at second t, -1 for none; None: they are never late.
    """

    name: str
    broker_ids: tuple[int, ...]
    line: Floats
    real: Floats
    clients: Floats
    alive: NDArray[np.bool_]
    source: Ints
    target: Ints
    left: Floats
    ingest: Floats
    partitions: Ints
    starts_s: Ints
    seconds: int
    at_ms: int = 0
    is_measured: bool = True
    idle_ms: float | None = None
    seen_until: Ints | None = None

    def pieces(self, first_s: int, count: int) -> Ints:
        """The piece of each of `count` seconds."""
        return np.searchsorted(self.starts_s, np.arange(first_s, first_s + count), side="right") - 1


def with_factors(scenario: Scenario, factors: tuple[tuple[int, float], ...]) -> Scenario:
    """The scenario with client traffic times a factor from each of these seconds on; the first must be 0."""
    at = np.array([second for second, _ in factors])
    starts = np.union1d(scenario.starts_s, at)
    old = np.searchsorted(scenario.starts_s, starts, side="right") - 1
    factor = np.array([f for _, f in factors])[np.searchsorted(at, starts, side="right") - 1]
    return replace(
        scenario,
        starts_s=starts,
        clients=scenario.clients[:, :, old] * factor,
        real=scenario.real[:, :, old],
        alive=scenario.alive[:, old],
    )


def remaining_rates(scenario: Scenario, reserve: float) -> Floats:
    """What clients leave of the real lines less the reserve, bytes/s by (direction, broker, piece); 0 while dead."""
    left = (1 - reserve) * scenario.real - scenario.clients
    return np.maximum(0.0, left) * scenario.alive


def least_seconds(scenario: Scenario, reserve: float) -> int:
    """A lower bound on any law's time: no side, and no pair of brokers, can have passed its bytes earlier.

    `seconds` where that is longer. O(pieces x (brokers + flows)).
    """
    free = remaining_rates(scenario, reserve)
    longest = 0
    for side, ends in enumerate((scenario.source, scenario.target)):
        for broker in set(ends.tolist()):
            # Without what is written meanwhile, since a flow that has ended takes no more of it.
            size = float(scenario.left[ends == broker].sum())
            longest = max(longest, _first_second(scenario, size, 0.0, free[side, broker]))
    for s, d, size, grows in zip(scenario.source, scenario.target, scenario.left, scenario.ingest, strict=True):
        longest = max(longest, _first_second(scenario, float(size), float(grows), np.minimum(free[0, s], free[1, d])))
    return longest


def _first_second(scenario: Scenario, size: float, grows: float, rates: Floats) -> int:
    """The first second at whose end `size` and what it grows by a second have passed at the rates of the pieces."""
    ends = np.minimum(np.append(scenario.starts_s[1:], scenario.seconds), scenario.seconds)
    passed = np.cumsum(rates * np.diff(ends, prepend=0))
    reached = size + grows * ends <= passed + 1
    if not reached.any():
        return scenario.seconds
    piece = int(reached.argmax())
    begin = int(ends[piece - 1]) if piece else 0
    missing = size + grows * begin - (passed[piece - 1] if piece else 0.0) - 1
    return begin + max(1, int(np.ceil(missing / (rates[piece] - grows))) if missing > 0 else 1)


def ideal_seconds(scenario: Scenario, reserve: float) -> int:
    """The time that ideal rates take: each second every side is set to exactly what clients leave in that second.

    Bytes are shared between flows as brokers share them; no quota window, no measurement, no delay. `seconds` where it
    is longer.
    """
    free, left = remaining_rates(scenario, reserve), scenario.left.copy()
    ends = np.minimum(np.append(scenario.starts_s[1:], scenario.seconds), scenario.seconds)
    t = 0
    for piece, end in enumerate(ends):
        out, into = free[0, :, piece], free[1, :, piece]
        while t < end:
            open_flows = left > _DONE
            left = np.where(open_flows, left + scenario.ingest, 0.0)
            got = share(left, scenario.source, scenario.target, out, into)
            left -= got
            t += 1
            if not (left > _DONE).any():
                return t
            # As long as each flow has twice of what it gets, its size does not count, and each gets the same again.
            shrinks = np.where(open_flows, got - scenario.ingest, 0.0)
            spare = left - 2 * got - shrinks
            if (spare[open_flows] > 0).all() and (shrinks > 0).any():
                calm = min(int((spare[shrinks > 0] / shrinks[shrinks > 0]).min()), int(end) - t)
                left -= max(0, calm) * shrinks
                t += max(0, calm)
    return scenario.seconds


KIND = "autothrottle-scenario"
LIMIT_BYTES = 16 << 20
MAX_BROKERS, MAX_FLOWS, MAX_POINTS = 1000, 100_000, 1_000_000
LEAST_CAPACITY, MAX_AMOUNT = 1000.0, 2.0**63
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")

_Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Amount = int | float | str


class _BrokerEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: _Id
    capacity: _Amount | None = None
    capacity_out: _Amount | None = None
    capacity_in: _Amount | None = None
    clients_out: _Amount | list[_Amount] = 0
    clients_in: _Amount | list[_Amount] = 0


class _FlowEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    source: _Id
    destination: _Id
    bytes: _Amount
    ingest: _Amount = 0
    partitions: Annotated[int, Meta(ge=1, le=10_000_000)] = 1


class _Document(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    brokers: Annotated[list[_BrokerEntry], Meta(max_length=MAX_BROKERS)]
    flows: Annotated[list[_FlowEntry], Meta(max_length=MAX_FLOWS)]
    kafkakit: dict[str, str | int] | None = None
    step: str = ""
    at: Annotated[datetime, Meta(tz=True)] | None = None
    measured: bool = True


def read_scenario(data: bytes, source: str, seconds: int) -> Scenario:
    """The scenario in a file, played for at most `seconds`.

    Raises `InputError` that names the entry: wrong types, unknown keys and brokers, amounts out of range, limits.
    """
    document = None
    if not data.lstrip().startswith(b"{"):
        document = sound_document(data, source)
        data = encode_json(_plain_value(document.root))
    try:
        found = decode_document(data, KIND, _Document, source)
    except InputError as error:
        document = document or read_json(source, data.decode("utf-8", "replace"))
        raise InputError(place_in(document, error.problem), error.problem, hint=error.hint) from None
    at = {entry.id: n for n, entry in enumerate(found.brokers)}
    if len(at) < len(found.brokers):
        twice = next(e.id for n, e in enumerate(found.brokers) if at[e.id] != n)
        raise InputError(source, f"broker {twice} is listed twice")
    for n, flow in enumerate(found.flows):
        for word, broker in (("source", flow.source), ("destination", flow.destination)):
            if broker not in at:
                raise InputError(source, f"flows[{n}].{word}: broker {broker} is not among the brokers")
        if flow.source == flow.destination:
            raise InputError(source, f"flows[{n}] is from broker {flow.source} to itself")
    line = [
        [_capacity(e, n, getattr(e, f"capacity_{way}"), source) for n, e in enumerate(found.brokers)]
        for way in ("out", "in")
    ]
    starts, clients = _traffic(found, source)
    pieces = 2, len(found.brokers), len(starts)
    return Scenario(
        name=source,
        broker_ids=tuple(at),
        line=np.array(line),
        real=np.broadcast_to(np.array(line)[..., None], pieces),
        clients=clients,
        alive=np.ones(pieces[1:], dtype=bool),
        source=np.array([at[f.source] for f in found.flows], dtype=np.intp),
        target=np.array([at[f.destination] for f in found.flows], dtype=np.intp),
        left=np.array([_amount(f.bytes, f"flows[{n}].bytes", source) for n, f in enumerate(found.flows)]),
        ingest=np.array([_amount(f.ingest, f"flows[{n}].ingest", source) for n, f in enumerate(found.flows)]),
        partitions=np.array([f.partitions for f in found.flows], dtype=np.intp),
        starts_s=starts,
        seconds=seconds,
        at_ms=0 if found.at is None else epoch_ms(found.at),
        is_measured=found.measured,
    )


def encode_scenario(scenario: Scenario) -> bytes:
    """The scenario as a file, with the client traffic of its first piece of time."""
    brokers = [
        _BrokerEntry(
            id=broker,
            capacity_out=float(scenario.line[0, n]),
            capacity_in=float(scenario.line[1, n]),
            clients_out=float(scenario.clients[0, n, 0]),
            clients_in=float(scenario.clients[1, n, 0]),
        )
        for n, broker in enumerate(scenario.broker_ids)
    ]
    flows = [
        _FlowEntry(
            source=scenario.broker_ids[scenario.source[n]],
            destination=scenario.broker_ids[scenario.target[n]],
            bytes=float(scenario.left[n]),
            ingest=float(scenario.ingest[n]),
            partitions=int(scenario.partitions[n]),
        )
        for n in range(len(scenario.source))
    ]
    at = datetime.fromtimestamp(scenario.at_ms / 1000, UTC)
    document = _Document(brokers=brokers, flows=flows, at=at, measured=scenario.is_measured)
    return encode_document(KIND, document, leave_out=("kafkakit",))


def _plain_value(node: Node) -> object:
    """A YAML node as a value; plain scalars that look like numbers and switches are such."""
    if isinstance(node, MappingNode):
        return {name: _plain_value(entry.value) for name, entry in node.entries.items()}
    if not isinstance(node, Scalar):
        return [_plain_value(item) for item in list_of(node)]
    text = node.text
    if node.is_plain and text in ("true", "false"):
        return text == "true"
    if node.is_plain and _NUMBER.fullmatch(text):
        return float(text) if set(text) & set(".eE") else int(text[:20])
    return text


def _capacity(entry: _BrokerEntry, n: int, own: _Amount | None, source: str) -> float:
    stated = entry.capacity if own is None else own
    where = f"brokers[{n}].capacity"
    if stated is None:
        raise InputError(source, f"{where}: broker {entry.id} has no capacity for each direction")
    found = _amount(stated, where, source)
    if found < LEAST_CAPACITY:
        raise InputError(source, f"{where}: {found:g} bytes/s is below {LEAST_CAPACITY:g}")
    return found


def _traffic(found: _Document, source: str) -> tuple[Ints, Floats]:
    """The pieces of time, and client traffic in each of them; the last value of a list holds on."""
    lists = [[e.clients_out if isinstance(e.clients_out, list) else [e.clients_out] for e in found.brokers]]
    lists += [[e.clients_in if isinstance(e.clients_in, list) else [e.clients_in] for e in found.brokers]]
    count = max((len(values) for row in lists for values in row), default=1)
    if count * len(found.brokers) > MAX_POINTS:
        raise InputError(source, f"{count} values for each of {len(found.brokers)} brokers are more than {MAX_POINTS}")
    if count > 1 and not found.step:
        raise InputError(source, "step is missing: how long each value of clients_out and clients_in holds")
    clients = np.zeros((2, len(found.brokers), count))
    for way, (word, row) in enumerate(zip(("out", "in"), lists, strict=True)):
        for n, values in enumerate(row):
            where = f"brokers[{n}].clients_{word}"
            if not values:
                raise InputError(source, f"{where} is empty")
            numbers = [_amount(v, where, source) for v in values]
            clients[way, n] = numbers + numbers[-1:] * (count - len(numbers))
    return np.arange(count) * _step(found.step, source), clients


def _step(text: str, source: str) -> int:
    try:
        seconds = parse_duration(text, "step") if text else 1.0
    except UsageError as error:
        raise InputError(source, error.message, hint=error.hint) from None
    if seconds < 1 or seconds != int(seconds):
        raise InputError(source, f"step {text[:40]!r} is not a number of whole seconds")
    return int(seconds)


def _amount(value: _Amount, where: str, source: str) -> float:
    """Bytes, or bytes a second, as a number or as people write them."""
    if isinstance(value, str):
        try:
            value = parse_size(value.removesuffix("/s"), where)
        except UsageError as error:
            raise InputError(source, error.message, hint=error.hint) from None
    if not 0 <= value < MAX_AMOUNT:
        raise InputError(source, f"{where}: {str(value)[:24]} is not from 0 up to 2^63")
    return float(value)
