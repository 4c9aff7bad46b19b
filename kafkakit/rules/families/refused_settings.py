"""C, D, B, G: settings that a broker checks against each other when it starts, and refuses."""

import re
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple

from kafkakit.core.quantities import count_of, format_bytes, format_span
from kafkakit.rules.cluster_facts import PROTOCOLS, Listener, listeners_of, protocol_map
from kafkakit.rules.config_defs import WITHOUT_ZOOKEEPER, minor_key
from kafkakit.rules.effective import BrokerConfig, ValueSource, to_int
from kafkakit.rules.families.kraft import (
    PROTOCOLS_OF_LISTENERS,
    early_faults,
    later_protocol,
    protocol_faults,
    require_names,
)
from kafkakit.rules.judging import DYNAMIC
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    WARNING,
    Edit,
    Fix,
    Limits,
    Violation,
    Violations,
    broker_rule,
    config_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.values import holds_placeholder

_ENDPOINT = re.compile(r".*://\[?[0-9a-zA-Z\-%._:]*\]?:-?[0-9]+")
"""As Kafka parses one; it reads a host in brackets and one without alike."""
MEBIBYTE = 2**20
SAFE_SHARE = 0.5


class _Lags(NamedTuple):
    least_key: str
    least: int | None
    most: int | None
    refused: bool


@config_rule("KKC303", ERROR, CORE)
def compaction_lag_inverted(subject: LintTopic | LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A record must wait longer before it is compacted than it may wait.

    Why: brokers refuse a topic whose min.compaction.lag.ms is above its max.compaction.lag.ms, and do not start with
    such defaults.
    Source: `LogConfig.validateValues`.

    Bad:
        topics:
          - {name: users, config: {min.compaction.lag.ms: "7200000", max.compaction.lag.ms: "3600000"}}

    Good:
        topics:
          - {name: users, config: {min.compaction.lag.ms: "3600000", max.compaction.lag.ms: "7200000"}}
    """
    lags = _of_topic(subject) if isinstance(subject, LintTopic) else _of_broker(subject.config)
    if lags is not None and lags.least is not None and lags.most is not None and lags.least > lags.most:
        yield Violation(
            message=f"records must wait {format_span(lags.least / 1000)} before they are compacted, but may wait "
            f"{format_span(lags.most / 1000)} only: "
            + ("brokers refuse it" if lags.refused else "brokers refuse every new topic"),
            key=lags.least_key,
            expected=f"at most {lags.most}",
            refused=lags.refused,
        )


def _of_topic(topic: LintTopic) -> _Lags | None:
    config = topic.config
    if "min.compaction.lag.ms" not in config.overrides and "max.compaction.lag.ms" not in config.overrides:
        return None
    least, most = config.sure_number("min.compaction.lag.ms"), config.sure_number("max.compaction.lag.ms")
    return _Lags("min.compaction.lag.ms", least, most, True)


def _of_broker(config: BrokerConfig) -> _Lags | None:
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    if config.declared(least) is None and config.declared(most) is None:
        return None
    # A running broker takes the pair, a starting one does not.
    is_static = not any(config.value(key).source in DYNAMIC for key in (least, most))
    return _Lags(least, config.number(least), config.number(most), is_static)


@broker_rule("KKC308", ERROR, CORE, fix=Fix.UNSAFE)
def dedupe_buffer_startup(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The log cleaner has no more than 1 MiB of deduplication buffer a thread.

    Why: the broker does not start; the buffer of log.cleaner.dedupe.buffer.size is shared by all cleaner threads.
    Source: `KafkaConfig.validateValues`.

    Bad:
        brokers:
          - {id: 1, config: {log.cleaner.dedupe.buffer.size: "4194304", log.cleaner.threads: "4"}}

    Good:
        brokers:
          - {id: 1, config: {log.cleaner.dedupe.buffer.size: "134217728", log.cleaner.threads: "4"}}
    """
    size, threads = broker.config.number("log.cleaner.dedupe.buffer.size"), broker.config.number("log.cleaner.threads")
    if size is None or threads is None or threads < 0:
        return
    if threads == 0:
        yield Violation(
            message="log.cleaner.threads is 0: the broker divides the deduplication buffer by it and does not start",
            key="log.cleaner.threads",
            expected="at least 1",
            edits=(Edit("log.cleaner.threads", "1"),),
            refused=True,
        )
    elif int(size / threads) <= MEBIBYTE:
        yield Violation(
            message=f"each of {threads} cleaner threads has {format_bytes(max(size // threads, 0))} of deduplication "
            "buffer, but needs more than 1 MiB: the broker does not start",
            key="log.cleaner.dedupe.buffer.size",
            expected=f"more than {threads * MEBIBYTE}",
            edits=(Edit("log.cleaner.dedupe.buffer.size", str(threads * (MEBIBYTE + 1))),),
            refused=True,
        )


@broker_rule("KKD116", ERROR, CORE, fix=Fix.UNSAFE)
def replica_fetch_wait_vs_lag(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Followers may wait nearly as long for data, or longer, as makes them count as out of sync.

    Why: a broker does not start with replica.fetch.wait.max.ms above replica.lag.time.max.ms; above half of it, one
    slow answer takes a follower of an idle partition out of the ISR.
    Source: `KafkaConfig.validateValues`.

    Bad:
        brokers:
          - {id: 1, config: {replica.fetch.wait.max.ms: "20000", replica.lag.time.max.ms: "15000"}}

    Good:
        brokers:
          - {id: 1, config: {replica.fetch.wait.max.ms: "500", replica.lag.time.max.ms: "30000"}}
    """
    wait, lag = broker.config.number("replica.fetch.wait.max.ms"), broker.config.number("replica.lag.time.max.ms")
    if wait is None or lag is None or wait <= min(lag, lag * SAFE_SHARE):
        return
    refused = wait > lag
    yield Violation(
        message=f"followers wait up to {wait} ms for data, and {lag} ms without an answer take them out of the ISR"
        + (": the broker does not start" if refused else ""),
        key="replica.fetch.wait.max.ms",
        expected=f"at most {int(lag * SAFE_SHARE)}",
        edits=(Edit("replica.fetch.wait.max.ms", str(int(lag * SAFE_SHARE))),),
        severity=None if refused else WARNING,
        refused=refused,
    )


@broker_rule("KKD117", ERROR, CORE, fix=Fix.UNSAFE)
def replica_socket_timeout(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A follower's connection times out before the answer that it waits for may come.

    Why: the broker does not start with replica.socket.timeout.ms below replica.fetch.wait.max.ms.
    Source: `KafkaConfig.validateValues`.

    Bad:
        brokers:
          - {id: 1, config: {replica.socket.timeout.ms: "400", replica.fetch.wait.max.ms: "500"}}

    Good:
        brokers:
          - {id: 1, config: {replica.socket.timeout.ms: "30000", replica.fetch.wait.max.ms: "500"}}
    """
    keys = "replica.socket.timeout.ms", "replica.fetch.wait.max.ms"
    timeout, wait = map(broker.config.number, keys)
    if wait is not None and timeout is not None and timeout < wait:
        is_wait_set = broker.config.declared(keys[0]) is None
        yield Violation(
            message=f"replica.socket.timeout.ms is {timeout}, below the {wait} ms that followers wait for data: "
            "the broker does not start",
            key=keys[is_wait_set],
            expected=f"at most {timeout}" if is_wait_set else f"at least {wait}",
            edits=(Edit(keys[is_wait_set], str(timeout if is_wait_set else wait)),),
            refused=True,
        )


@broker_rule("KKB508", ERROR, CORE, fix=Fix.UNSAFE)
def queued_bytes(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The queue of requests is smaller than the largest request.

    Why: the broker does not start with queued.max.request.bytes below socket.request.max.bytes; -1 means no limit.
    Source: `KafkaConfig.validateValues`.

    Bad:
        brokers:
          - {id: 1, config: {queued.max.request.bytes: "1048576"}}

    Good:
        brokers:
          - {id: 1, config: {queued.max.request.bytes: "1073741824"}}
    """
    queue, largest = broker.config.number("queued.max.request.bytes"), broker.config.number("socket.request.max.bytes")
    if queue is not None and largest is not None and 0 < queue < largest:
        yield Violation(
            message=f"the queue of requests holds {format_bytes(queue)}, one request may have {format_bytes(largest)}: "
            "the broker does not start",
            key="queued.max.request.bytes",
            expected=f"at least {largest}",
            edits=(Edit("queued.max.request.bytes", str(largest)),),
            refused=True,
        )


@broker_rule("KKB509", ERROR, CORE, fix=Fix.UNSAFE)
def heartbeat_vs_session(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker is fenced after fewer than two missed heartbeats.

    Why: one late heartbeat takes all its leaders away; Kafka 4.4 writes an error into its log but starts.
    Source: `KafkaConfig.validateValues` of Kafka 4.

    Bad:
        brokers:
          - {id: 1, config: {broker.heartbeat.interval.ms: "6000", broker.session.timeout.ms: "9000"}}

    Good:
        brokers:
          - {id: 1, config: {broker.heartbeat.interval.ms: "2000", broker.session.timeout.ms: "9000"}}
    """
    beat, session = (
        broker.config.number("broker.heartbeat.interval.ms"),
        broker.config.number("broker.session.timeout.ms"),
    )
    if beat is not None and session is not None and 2 * beat > session:
        yield Violation(
            message=f"a heartbeat every {beat} ms leaves fewer than two in the session of {session} ms",
            key="broker.heartbeat.interval.ms",
            expected=f"at most {session // 2}",
            edits=(Edit("broker.heartbeat.interval.ms", str(session // 2)),),
        )


@broker_rule("KKB514", ERROR, CORE, fix=Fix.UNSAFE)
def auth_delay_vs_idle(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """An idle connection is closed before a failed login is answered.

    Why: the broker does not start with connection.failed.authentication.delay.ms at or above
    connections.max.idle.ms, because the answer would never be sent.
    Source: `KafkaConfig.validateValues`.

    Bad:
        brokers:
          - {id: 1, config: {connection.failed.authentication.delay.ms: "1000", connections.max.idle.ms: "1000"}}

    Good:
        brokers:
          - {id: 1, config: {connection.failed.authentication.delay.ms: "100", connections.max.idle.ms: "600000"}}
    """
    config = broker.config
    delay, idle = config.number("connection.failed.authentication.delay.ms"), config.number("connections.max.idle.ms")
    if delay is not None and idle is not None and 0 <= idle <= delay:
        yield Violation(
            message=f"a failed login is answered after {delay} ms, but an idle connection is closed after {idle} ms: "
            "the broker does not start",
            key="connection.failed.authentication.delay.ms",
            expected=f"below {idle}",
            edits=(Edit("connection.failed.authentication.delay.ms", str(idle - 1)),) if idle > 0 else (),
            refused=True,
        )


class SettingOrder(NamedTuple):
    """`lower` may not be above `upper`, nor equal to it where `is_strict`; checked from the version `since` on.

    A broker starts with one that is broken where nothing is `refused`, and no client can join a group.
    """

    lower: str
    upper: str
    is_strict: bool = False
    since: str = "3.5"
    is_refused: bool = True


def _bounds() -> tuple[SettingOrder, ...]:
    found: list[SettingOrder] = []
    for kind in ("consumer", "share", "streams"):
        for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            least, value, most = (f"group.{kind}.{part}{name}" for part in ("min.", "", "max."))
            found += [SettingOrder(least, most), SettingOrder(least, value), SettingOrder(value, most)]
        strict = SettingOrder(f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms", True, "4.0")
        found.append(strict)
    for name, since in (
        ("record.lock.duration.ms", "3.9"),
        ("delivery.count.limit", "4.3"),
        ("partition.max.record.locks", "4.3"),
    ):
        least, value, most = (f"group.share.{part}{name}" for part in ("min.", "", "max."))
        found += [SettingOrder(least, value, since=since), SettingOrder(value, most, since=since)]
    found += [
        SettingOrder("group.share.max.size", "group.share.max.share.sessions", since="4.1"),
        SettingOrder("group.min.session.timeout.ms", "group.max.session.timeout.ms", is_refused=False),
        SettingOrder("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
        SettingOrder("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
        SettingOrder("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"),
    ]
    return tuple(found)


BOUNDS = _bounds()


@broker_rule("KKG707", ERROR, CORE)
def group_bounds(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A setting of the group coordinator is outside of the bounds that other settings give it.

    Why: the broker does not start, and refuses such a change while it runs: heartbeat intervals, session timeouts
    and assignment intervals of consumer, share and streams groups each have a minimum and a maximum of their own,
    and from 4.0 on a heartbeat interval has to be below the session timeout.
    Source: the `require`s of `GroupCoordinatorConfig` and `ShareGroupConfig`.

    Bad:
        brokers:
          - {id: 1, config: {group.consumer.session.timeout.ms: "90000"}}

    Good:
        brokers:
          - {id: 1, config: {group.consumer.session.timeout.ms: "45000"}}
    """
    config = broker.config
    minor = minor_key(config.table.version)
    for bound in BOUNDS:
        lower, upper = config.declared(bound.lower), config.declared(bound.upper)
        if (lower is None and upper is None) or minor < minor_key(bound.since):
            continue
        low, high = config.number(bound.lower), config.number(bound.upper)
        if low is None or high is None or low < high or (low == high and not bound.is_strict):
            continue
        relation = "is not below" if bound.is_strict else "is above"
        yield Violation(
            message=f"{bound.lower} ({low}) {relation} {bound.upper} ({high}): "
            + ("the broker does not start" if bound.is_refused else "no session timeout of a client is accepted"),
            key=bound.lower if lower is not None else bound.upper,
            expected=f"{'below' if bound.is_strict else 'at most'} {high}" if lower is not None else f"at least {low}",
            subject=f"{bound.lower}<{bound.upper}",
            refused=bound.is_refused,
        )
    yield from _group_lists(broker)


def _group_lists(broker: LintBroker) -> Violations:
    config = broker.config
    minor = minor_key(config.table.version)
    if config.declared("group.share.assignors") is not None and minor >= (4, 1):
        number = len(dict.fromkeys(config.items("group.share.assignors")))
        if number != 1:
            yield Violation(
                message=f"group.share.assignors has {number} assignors, but has to have one: the broker does not start",
                key="group.share.assignors",
                expected="one assignor",
                refused=number > 0,
            )
    acks = config.value("offsets.commit.required.acks")
    if acks.source is not ValueSource.DEFAULT and minor < WITHOUT_ZOOKEEPER:
        wanted = config.number("offsets.commit.required.acks")
        replicas = config.number("offsets.topic.replication.factor")
        if wanted is not None and replicas is not None and not -1 <= wanted <= replicas:
            yield Violation(
                message=f"offsets.commit.required.acks is {wanted}, but has to be -1 to {replicas}, the replication "
                "factor of __consumer_offsets: the broker does not start",
                key="offsets.commit.required.acks",
                expected=f"-1 to {replicas}",
                refused=True,
            )


@broker_rule("KKB515", ERROR, CORE)
def listener_endpoints(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A listener has no port, or two listeners have one name or one port.

    Why: a node does not start: "Each listener must have a different port", "Each listener must have a different name".
    From 3.6 on two listeners may share a port if one has an IPv4 address and the other an IPv6 address, and
    advertised.listeners may name a port twice.
    Source: Kafka, `SocketServerConfigs.listenerListToEndPoints`.

    Bad:
        brokers: [{id: 1, config: {listeners: "SSL://:9092,CLIENTS://:9092"}}]

    Good:
        brokers: [{id: 1, config: {listeners: "SSL://:9092,CLIENTS://:9093"}}]
    """
    config = broker.config.given()
    for key in ("listeners", "advertised.listeners"):
        listeners = listeners_of(config, key)
        for item in config.items(key):
            is_left_out = not item and minor_key(config.table.version) < (4, 2)
            if not is_left_out and not _ENDPOINT.fullmatch(item) and not holds_placeholder(item):
                yield Violation(
                    message=f"{key} has {item!r:.80}, which is not NAME://HOST:PORT: the node does not start",
                    key=key,
                    expected="NAME://HOST:PORT",
                    subject=f"item {item}",
                    refused=True,
                )
        names = Counter(listener.name.upper() for listener in listeners)
        for name in sorted(name for name, number in names.items() if number > 1):
            yield Violation(
                message=f"{key} has {count_of(names[name], 'listener')} of the name {name}: the node does not start",
                key=key,
                expected="a different name for each listener",
                subject=name,
                refused=True,
            )
    ports: dict[int, list[Listener]] = {}
    for listener in listeners_of(config):
        ports.setdefault(to_int(listener.port) or 0, []).append(listener)
    may_share = minor_key(config.table.version) >= (3, 6)
    for port, found in sorted(ports.items()):
        if port and len(found) > 1 and not (may_share and sorted(map(_ip_version, found)) == [4, 6]):
            yield Violation(
                message=f"listeners {' and '.join(f.name for f in found)} have port {port}: the node does not start",
                key="listeners",
                expected="a different port for each listener",
                subject=str(port),
                refused=True,
            )


def _ip_version(listener: Listener) -> int:
    """4 or 6 for an address, 0 for a name and for none."""
    try:
        return ip_address(listener.host).version
    except ValueError:
        return 0


@broker_rule("KKB518", ERROR, CORE)
def zookeeper_broker(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The listeners, the id or the protocol version of a broker with ZooKeeper do not fit, and it does not start.

    Why: Kafka checks at the start that each listener has a security protocol that exists, that the listener between
    brokers is named once and advertised, that only existing listeners are advertised, that the listener of the control
    plane is another one, and that broker.id is not among the ids that are given out (above reserved.broker.max.id).
    Source: Kafka 2.8 to 3.9, `KafkaConfig.validateValues`.

    Bad:
        --- server.properties
        zookeeper.connect=zk:2181
        listeners=SSL://:9092
        log.dirs=/data

    Good:
        --- server.properties
        zookeeper.connect=zk:2181
        listeners=SSL://:9092
        security.inter.broker.protocol=SSL
        log.dirs=/data
    """
    config = broker.config
    is_of_zookeeper = config.declared("process.roles") is None and config.declared("zookeeper.connect") is not None
    if not is_of_zookeeper or minor_key(config.table.version) >= WITHOUT_ZOOKEEPER:
        return
    require_names(config)
    yield from protocol_faults(config)
    yield from _names_with_zookeeper(config)
    yield from later_protocol(config, (0, 0))
    yield from _id_faults(config)
    if "consumer" in config.items("group.coordinator.rebalance.protocols"):
        yield Violation(
            message="the protocol consumer of groups needs KRaft: the broker does not start",
            key="group.coordinator.rebalance.protocols",
            refused=True,
        )


def _names_with_zookeeper(config: BrokerConfig) -> Iterator[Violation]:
    protocol = config.declared("security.inter.broker.protocol")
    if protocol is not None and protocol.text.strip().upper() not in PROTOCOLS:
        yield Violation(
            message=f"{protocol.text!r:.60} is not a security protocol: the broker does not start",
            key="security.inter.broker.protocol",
            expected=", ".join(PROTOCOLS),
            refused=True,
        )
    for key in ("listeners", "advertised.listeners"):
        empty = config.declared(key)
        if empty is not None and not empty.text.strip():
            yield Violation(f"{key} is empty: the broker does not start", key, subject="empty", refused=True)
    names = {found.name.upper() for found in listeners_of(config)} or {"PLAINTEXT"}
    advertised = {found.name.upper() for found in listeners_of(config, "advertised.listeners")} or names
    yield from early_faults(config, names)
    unmapped = (names | advertised) - protocol_map(config).keys()
    if unmapped:
        yield Violation(
            message=f"the listener {_join(unmapped)} has no protocol in {PROTOCOLS_OF_LISTENERS}: "
            "the broker does not start",
            key=PROTOCOLS_OF_LISTENERS,
            refused=True,
        )
    between = config.text("inter.broker.listener.name").strip() or config.text("security.inter.broker.protocol")
    if between.upper() not in advertised:
        yield Violation(
            message=f"the listener between brokers, {between}, is not advertised ({_join(advertised)}): "
            "the broker does not start",
            key="inter.broker.listener.name",
            refused=True,
        )
    if not advertised <= names:
        yield Violation(
            message=f"{_join(advertised - names)} is advertised, but not in listeners ({_join(names)}): "
            "the broker does not start",
            key="advertised.listeners",
            refused=True,
        )
    control = config.text("control.plane.listener.name").strip().upper()
    if control and (control == between.upper() or control not in advertised):
        yield Violation(
            message=f"control.plane.listener.name is {control}, which is "
            f"{'the listener between brokers' if control == between.upper() else 'not advertised'}: "
            "the broker does not start",
            key="control.plane.listener.name",
            refused=True,
        )


def _id_faults(config: BrokerConfig) -> Iterator[Violation]:
    key = "node.id" if config.declared("broker.id") is None and config.declared("node.id") is not None else "broker.id"
    own, reserved = config.number(key), config.number("reserved.broker.max.id")
    is_generating = config.is_true("broker.id.generation.enable")
    if own is None or reserved is None:
        return
    if own < -is_generating or (is_generating and own > reserved):
        wanted = f"-1 to {reserved} (reserved.broker.max.id), above which ids are given out"
        yield Violation(
            message=f"{key} is {own}, but has to be {wanted if is_generating else 'at least 0'}: "
            "the broker does not start",
            key=key,
            expected=f"at most {reserved}, or broker.id.generation.enable=false" if is_generating else "at least 0",
            refused=True,
        )


def _join(names: set[str]) -> str:
    return ", ".join(sorted(names))
