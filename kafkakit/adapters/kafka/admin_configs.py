"""Configurations of topics and brokers: read what is set on the resource itself, change it bit by bit."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafkakit.adapters.kafka import admin_read as read
from kafkakit.adapters.kafka import admin_write as write
from kafkakit.adapters.kafka.errors import error_from
from kafkakit.adapters.kafka.session import KafkaSession
from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    ConfigChange,
    ConfigOp,
    ItemError,
    LayeredValue,
    ResourceKind,
)

NAMES_PER_REQUEST = 500
REFUSES_OVERGROWN = (4,)
"""From this release on a broker refuses to let a list grow above 32,767 bytes."""

ItemResult = ItemError | None


def read_configs(session: KafkaSession, kind: ResourceKind, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Values set on each named resource; absent: what does not exist and brokers that do not answer."""
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[kind]
    wanted = sorted(set(names))
    results: list[Any] = []
    if kind is ResourceKind.BROKER:
        requests = {int(n): DescribeConfigsRequest(resources=[(code, n, None)]) for n in wanted if n.isdigit()}
        for answer in (session.request_brokers(requests) if requests else {}).values():
            results += [] if isinstance(answer, Exception) else answer.results
        if CLUSTER_DEFAULT in wanted:
            request = DescribeConfigsRequest(resources=[(code, CLUSTER_DEFAULT, None)])
            results += session.request("read configurations", request).results
    else:
        for start in range(0, len(wanted), NAMES_PER_REQUEST):
            results += _topic_results(session, wanted[start : start + NAMES_PER_REQUEST])
    return dict(sorted(read.configs_of(kind, results).items()))


def read_settings(session: KafkaSession, brokers: Collection[int], keys: Collection[str]) -> dict[int, dict[str, str]]:
    """The values in force of the named keys, wherever they were set; absent: silent brokers and unset keys."""
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[ResourceKind.BROKER]
    names = sorted(set(keys))
    requests = {b: DescribeConfigsRequest(resources=[(code, str(b), names)]) for b in sorted(set(brokers))}
    found: dict[int, dict[str, str]] = {}
    for broker, answer in (session.request_brokers(requests) if requests and names else {}).items():
        if not isinstance(answer, Exception):
            found[broker] = {
                entry.name: entry.value
                for result in answer.results
                if result.error_code == 0
                for entry in result.configs
                if entry.name in names and entry.value is not None
            }
    return found


def read_layers(
    session: KafkaSession, brokers: Collection[int], *, defaults: bool
) -> dict[int, dict[str, LayeredValue]]:
    """Every value of each broker, `defaults` too where wanted, with where it was set; absent: silent brokers."""
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[ResourceKind.BROKER]
    requests = {b: DescribeConfigsRequest(resources=[(code, str(b), None)]) for b in sorted(set(brokers))}
    found: dict[int, dict[str, LayeredValue]] = {}
    for broker, answer in (session.request_brokers(requests) if requests else {}).items():
        if not isinstance(answer, Exception):
            found[broker] = read.layers_of(answer.results, defaults=defaults)
    return found


def alter_configs(session: KafkaSession, changes: Sequence[ConfigChange]) -> dict[ConfigChange, ItemResult]:
    """Apply changes in order; one answer each. Changes of one resource in a request succeed or fail together."""
    reported: dict[ConfigChange, ItemResult] = {c: error for c in changes if (error := write.too_long(c))}
    for wanted in write.config_rounds([c for c in changes if c not in reported]):
        overgrown = _overgrown(session, wanted)
        reported |= overgrown
        to_brokers: dict[int, tuple[Any, dict[tuple[int, str], write.Changes]]] = {}
        for broker, request, groups in write.config_batches([c for c in wanted if c not in overgrown]):
            if broker is None:
                response = session.request("change configurations", request)
                reported |= write.config_results(response, groups)
            else:
                to_brokers[broker] = (request, groups)
        reported |= _alter_brokers(session, to_brokers)
    return {change: reported[change] for change in changes}


def _alter_brokers(
    session: KafkaSession, batches: Mapping[int, tuple[Any, dict[tuple[int, str], write.Changes]]]
) -> dict[ConfigChange, ItemResult]:
    reported: dict[ConfigChange, ItemResult] = {}
    answers = session.request_brokers({b: request for b, (request, _) in batches.items()}) if batches else {}
    for broker, answer in answers.items():
        groups = batches[broker][1]
        if isinstance(answer, Exception):
            reported |= dict.fromkeys([c for group in groups.values() for c in group], error_from(answer))
        else:
            reported |= write.config_results(answer, groups)
    return reported


def _topic_results(session: KafkaSession, names: list[str]) -> list[Any]:
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[ResourceKind.TOPIC]
    request = DescribeConfigsRequest(resources=[(code, name, None) for name in names])
    results = list(session.request("read configurations", request).results)
    if len(names) > 1 and any(result.error_code == read.UNKNOWN_FAULT for result in results):
        # On Kafka 3.9 one topic with a value above 32,767 bytes spoils the answer for all of them.
        middle = len(names) // 2
        return _topic_results(session, names[:middle]) + _topic_results(session, names[middle:])
    return results


def _overgrown(session: KafkaSession, changes: Sequence[ConfigChange]) -> dict[ConfigChange, ItemResult]:
    # Kafka 3.9 lets a list grow above the limit and then cannot read the topic's configuration any more.
    growing = [c for c in changes if c.kind is ResourceKind.TOPIC and c.op is ConfigOp.APPEND]
    if not growing or (session.version or (0,)) >= REFUSES_OVERGROWN:
        return {}
    now = read_configs(session, ResourceKind.TOPIC, {change.name for change in growing})
    refusals = {c: write.too_long(c, now.get(c.name, {}).get(c.key, "")) for c in growing}
    return {change: refusal for change, refusal in refusals.items() if refusal}
