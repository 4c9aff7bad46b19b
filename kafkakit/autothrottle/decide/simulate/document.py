"""The file of a scenario, JSON or YAML: brokers with capacities and client traffic, and the flows of moves."""

import re
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from yaml.nodes import MappingNode, Node, ScalarNode

from kafkakit.autothrottle.decide.simulate.scenario import Floats, Ints, Scenario
from kafkakit.config.yaml_text import yaml_items, yaml_list, yaml_root
from kafkakit.core.documents import decode_document, encode_document, encode_json
from kafkakit.core.durations import epoch_ms, parse_duration
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import parse_size

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
    if not data.lstrip().startswith(b"{"):
        data = encode_json(_plain(yaml_root(data, source), source))
    found = decode_document(data, KIND, _Document, source)
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


def _plain(node: Node, source: str) -> object:
    """A YAML node as a value; plain scalars that look like numbers and switches are such."""
    if isinstance(node, MappingNode):
        return {name: _plain(child, source) for name, _, child in yaml_items(node, source, "")}
    if not isinstance(node, ScalarNode):
        return [_plain(item, source) for item in yaml_list(node)]
    text: str = node.value
    if node.style is None and text in ("true", "false"):
        return text == "true"
    if node.style is None and _NUMBER.fullmatch(text):
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
