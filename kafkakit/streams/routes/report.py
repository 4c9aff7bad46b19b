"""Reports on routes: all streams of a store, one stream with what is behind it, its lanes, history and topics.

Topics are those that a command creates or deletes. Addresses and topics for clients that do not follow routes are
printed as Java properties or data, and as the settings of a consumer: librdkafka's, Java's, Spring's. Passwords are
never among them; what stands for one says where the profile has it from.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from kafkakit.config.security import Mechanism, Security
from kafkakit.core.errors import ExitCode, UsageError
from kafkakit.core.quantities import count_of
from kafkakit.core.text import plain_value, sanitize
from kafkakit.report.report import (
    Part,
    RawDocument,
    Remarks,
    Report,
    ResultTable,
    Section,
    attributes,
    records,
    text_of,
)
from kafkakit.streams.model.route import DLQ, Lane, Route, Segment
from kafkakit.streams.routes.decide import KeptChange, PlannedTopic, RouteFacts

LANE_COLUMNS = ("lane", "state", "weight", "segments", "writes to", "partitions", "quota_bytes_per_s")
READER_COLUMNS = ("topic", "group", "state", "members", "unread")
HISTORY_COLUMNS = ("epoch", "time", "by", "what", "in effect")
SHOWN_CHANGES = 50


def list_report(found: Mapping[str, Route | str]) -> Report:
    """The streams of a store; a text stands for a route that cannot be read, and makes the command exit with 1."""
    columns = ("stream", "epoch", "lanes", "segments", "clusters", "problem")
    empty = "there are no streams; to make one: kafkakit streams create NAME"
    table = ResultTable(columns, tuple(_list_row(name, route) for name, route in found.items()), empty=empty)
    return Report(
        command="streams list",
        data={"streams": table.records()},
        sections=(table,),
        code=ExitCode.FAILED if any(isinstance(route, str) for route in found.values()) else ExitCode.DONE,
    )


def show_report(route: Route, facts: RouteFacts) -> Report:
    """A stream with the state of its topics and its readers; a topic that is not as the route says makes it exit 1."""
    rows = tuple(
        (
            lane.name,
            segment.id,
            segment.state,
            segment.cluster,
            segment.topic,
            segment.partitions,
            facts.segments[segment.id].records,
            facts.segments[segment.id].problem,
        )
        for lane, segment in route.segments()
    )
    segments = ResultTable(("lane", "segment", "state", "cluster", "topic", "partitions", "records", "problem"), rows)
    topics = {segment.id: segment.topic for _, segment in route.segments()}
    readers = [(topics[r.segment], r.group, r.state, r.members, r.unread) for r in facts.readers]
    operation = route.operation
    is_open = [] if operation is None else [f"{operation.kind} {operation.id} is open, step {operation.step}"]
    left = [f"{lane.name}: {each.topic} on {each.cluster}" for lane, each in route.left()]
    return Report(
        command="streams show",
        data={"route": plain_value(route), "segments": segments.records(), "readers": facts.readers},
        sections=(
            f"stream {route.stream}, epoch {route.epoch}",
            *is_open,
            "",
            segments,
            ResultTable(LANE_COLUMNS, tuple(map(_lane_row, route.lanes)), "Lanes:"),
            Section("Kept for references to rejected records, read by no client:", left),
            Section("Rules:", (f"to {rule.lane}: where {rule.where}" for rule in route.rules)),
            Section("Groups that must read:", (f"{g.name} (seen epoch {g.ack_epoch})" for g in route.groups)),
            ResultTable(READER_COLUMNS, readers, "Readers:", empty="no group reads the stream"),
        ),
        warnings=tuple(f"the groups are not known: {reason}" for reason in facts.unknown),
        code=ExitCode.FAILED if any(row[-1] for row in rows) else ExitCode.DONE,
    )


def lanes_report(route: Route) -> Report:
    """The lanes of a stream."""
    lanes = ResultTable(LANE_COLUMNS, tuple(map(_lane_row, route.lanes)))
    return Report(
        command="streams lane list",
        data={"stream": route.stream, "epoch": route.epoch, "lanes": lanes.records()},
        sections=(lanes,),
    )


def history_report(stream: str, kept: Sequence[KeptChange]) -> Report:
    """The changes of a stream, newest last."""
    rows = tuple(
        (each.change.route.epoch, _time(each.change.at_ms), each.change.by, each.change.what, each.in_effect)
        for each in kept
    )
    shown = rows[-SHOWN_CHANGES:]
    sections: list[Part] = [ResultTable(HISTORY_COLUMNS, shown)]
    if len(rows) > len(shown):
        sections.insert(0, f"the last {len(shown)} of {count_of(len(rows), 'change')} (all of them with -o tsv)")
    if not all(each.in_effect for each in kept):
        sections.append("a change that is not in effect was cut before the route was written, or is being made now")
    return Report(
        command="streams history",
        data={"stream": stream, "changes": [_change_data(each) for each in kept]},
        sections=sections,
        table=ResultTable(HISTORY_COLUMNS, rows),
    )


def changed_report(command: str, stream: str, route: Route | None, before: Route | None, said: str) -> Report:
    """What a change made of a route, and in words; `route` None: nothing was done."""
    is_changed, left = route is not None and route != before, route or before
    epoch = None if left is None else left.epoch
    result = "done" if is_changed else "nothing to do" if route is not None else "nothing is done"
    return Report(
        command=command,
        data={"stream": stream, "changed": is_changed, "epoch": epoch, "route": plain_value(left)},
        sections=(f"{result}: {said}", f"stream {stream}, {'no epoch yet' if epoch is None else f'epoch {epoch}'}"),
        table=ResultTable(("stream", "epoch", "changed"), ((stream, epoch, is_changed),)),
    )


def _list_row(name: str, route: Route | str) -> tuple[object, ...]:
    if isinstance(route, str):
        return name, None, (), None, (), route
    lanes = tuple(lane.name for lane in route.lanes)
    return name, route.epoch, lanes, sum(1 for _ in route.segments()), tuple(sorted(route.clusters.values())), ""


def _lane_row(lane: Lane) -> tuple[object, ...]:
    active = lane.active
    state = "paused" if lane.is_paused else "open"
    topic, partitions = (active.topic, active.partitions) if active else (None, None)
    return lane.name, state, lane.weight, len(lane.segments), topic, partitions, lane.quota_bytes_per_s


def _change_data(each: KeptChange) -> dict[str, object]:
    change = each.change
    return {
        "epoch": change.route.epoch,
        **attributes(change, "from_epoch at_ms by what is_deletion"),
        "in_effect": each.in_effect,
        "route": plain_value(change.route),
    }


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)


COLUMNS = ("lane", "topic", "partitions", "replication", "quota_bytes_per_s", "configs", "action")


def plan_sections(planned: Sequence[PlannedTopic], leftovers: Sequence[str] = ()) -> Iterator[Part]:
    """The topics that are created or adopted."""
    yield ResultTable(COLUMNS, tuple(map(_row, planned)))
    yield Remarks("note", _notes(planned))
    if leftovers:
        yield f"not part of the stream, maybe left by an earlier run: {', '.join(leftovers)}"


def _notes(planned: Sequence[PlannedTopic]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for each in planned for note in each.notes))


def created_report(
    command: str,
    stream: str,
    cluster_id: str,
    profile: str,
    planned: Sequence[PlannedTopic],
    leftovers: Sequence[str],
    route: Route | None,
) -> Report:
    """The plan, and the route that came of it; None: nothing was done."""
    rows = tuple(map(_row, planned))
    count = count_of(len(planned), "topic")
    said = f"nothing is done: {count} planned" if route is None else f"done: {count}, epoch {route.epoch}"
    return Report(
        command=command,
        data={
            "cluster_id": cluster_id,
            "profile": profile,
            "stream": stream,
            "topics": [
                dict(record, replicas=each.lists) for record, each in zip(records(COLUMNS, rows), planned, strict=True)
            ],
            "leftovers": tuple(leftovers),
            "notes": _notes(planned),
            "route": None if route is None else plain_value(route),
        },
        sections=(f"stream {stream} on cluster {cluster_id}", said, "", *plan_sections(planned, leftovers)),
    )


def deleted_report(route: Route, results: Sequence[tuple[Segment, str]], *, is_done: bool) -> Report:
    """What became of a stream's topics; without any the topics stay."""
    rows = tuple((segment.topic, segment.cluster, result) for segment, result in results)
    topics = ResultTable(("topic", "cluster", "result"), rows)
    done = f"deleted: stream {route.stream}; its history stays" if is_done else "nothing is done"
    return Report(
        command="streams delete",
        data={"stream": route.stream, "deleted": is_done, "topics": topics.records()},
        sections=(done, "", topics),
    )


def _row(planned: PlannedTopic) -> tuple[object, ...]:
    configs = tuple(f"{key}={value}" for key, value in planned.shape.configs)
    action = "adopt" if planned.is_there else "create"
    shape = planned.shape
    return shape.lane, planned.topic, shape.partitions, planned.replication, shape.quota_bytes_per_s, configs, action


LOST = (
    "a plain client does not follow changes of the route: restart it with new addresses after each",
    "a plain client has no out-of-order commits, retries, rejection to the dlq lane, lane weights or bomb guard",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCluster:
    """How clients reach a cluster; `is_checked`: an address answered with the cluster's id just now."""

    name: str
    cluster_id: str
    bootstrap_servers: str
    security_protocol: str
    is_checked: bool


def resolve_report(
    route: Route, lanes: Sequence[Lane], clusters: Sequence[ResolvedCluster], warnings: Sequence[str]
) -> Report:
    """The text is a file of Java properties without credentials; what plain clients lose goes to stderr."""
    rows = tuple(
        (lane.name, segment is lane.active, segment.cluster, segment.topic, segment.partitions)
        for lane in lanes
        for segment in lane.segments
    )
    return Report(
        command="streams resolve",
        data={
            **attributes(route, "stream epoch"),
            "clusters": {each.name: each for each in clusters},
            "lanes": {lane.name: _lane_data(lane) for lane in lanes},
            "lost": LOST,
        },
        sections=(RawDocument(text_of(_properties(route, lanes, clusters))),),
        table=ResultTable(("lane", "is_written", "cluster", "topic", "partitions"), rows),
        warnings=(*warnings, *LOST),
    )


def _lane_data(lane: Lane) -> dict[str, object]:
    active = None if lane.is_paused else lane.active
    return {
        "is_paused": lane.is_paused,
        "write": None if active is None else {"cluster": active.cluster, "topic": active.topic},
        "read": [{"cluster": segment.cluster, "topic": segment.topic} for segment in lane.segments],
    }


def _properties(route: Route, lanes: Sequence[Lane], clusters: Sequence[ResolvedCluster]) -> Iterator[str]:
    yield f"# stream {route.stream}, epoch {route.epoch}"
    if len(clusters) == 1:
        yield _line("bootstrap.servers", clusters[0].bootstrap_servers)
        yield _line("security.protocol", clusters[0].security_protocol)
    for each in clusters:
        start = f"stream.cluster.{each.name}"
        yield _line(f"{start}.id", each.cluster_id)
        yield _line(f"{start}.bootstrap.servers", each.bootstrap_servers)
        yield _line(f"{start}.security.protocol", each.security_protocol)
    yield _line("stream.name", route.stream)
    yield _line("stream.epoch", str(route.epoch))
    yield _line("stream.lanes", ",".join(lane.name for lane in lanes))
    for lane in lanes:
        start = f"stream.lane.{lane.name}"
        active = None if lane.is_paused else lane.active
        if active is not None:
            yield _line(f"{start}.write.cluster", active.cluster)
            yield _line(f"{start}.write.topic", active.topic)
        yield _line(f"{start}.read", ",".join(f"{segment.cluster}/{segment.topic}" for segment in lane.segments))


def _line(key: str, value: str) -> str:
    """A property; a backslash begins an escape in such files, and a key ends at `:`, `=` and a blank."""
    escaped = "".join(f"\\{char}" if char in "\\:= #!" else char for char in key)
    return f"{escaped}={sanitize(value.replace(chr(92), chr(92) * 2))}"


class SecretWay(StrEnum):
    """How a profile comes to a secret."""

    FILE = "file"
    ENV = "env"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """Where a profile has a secret from: a file's path, a variable's name, or words; never the secret."""

    way: SecretWay
    place: str

    @property
    def words(self) -> str:
        """Where it is, for a comment."""
        start = {SecretWay.FILE: "file ", SecretWay.ENV: "environment variable "}.get(self.way, "")
        return f"{start}{sanitize(self.place)}"

    def variable(self, otherwise: str) -> str:
        """The environment variable that holds it, or is to hold it."""
        return self.place if self.way is SecretWay.ENV else otherwise

    def in_shell(self, otherwise: str) -> str:
        """What a shell puts in its place; a variable that nothing sets yet if it is in no file and no variable."""
        if self.way is SecretWay.FILE:
            return f'"$(cat {shlex.quote(sanitize(self.place))})"'
        return f'"${self.variable(otherwise)}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAccess:
    """How a profile reaches its cluster, without secrets: `security` has none, and the references stand for them."""

    profile: str
    bootstrap_servers: str
    security: Security
    password: SecretReference | None = None
    key_password: SecretReference | None = None


def read_topics(route: Route, lanes: Sequence[Lane], profile: str | None) -> tuple[str, tuple[str, ...]]:
    """The profile of the one cluster that has all segments to read, or the one that is named; and its topics.

    The lane `dlq` is read only if it is the only one, as by the client. `UsageError` for several clusters, or none.
    """
    read = [lane for lane in lanes if lane.name != DLQ] or list(lanes)
    found: dict[str, list[str]] = {}
    for lane in read:
        for segment in lane.segments:
            found.setdefault(segment.cluster, []).append(segment.topic)
    if profile is None and len(found) == 1:
        profile = next(iter(found))
    if profile is None or profile not in found:
        names = ", ".join(sorted(found))
        raise UsageError(
            f"stream {route.stream} is read on clusters {names}, and a consumer's settings are for one"
            if profile is None
            else f"stream {route.stream} has no segment on cluster {profile}",
            hint=f"choose one with --cluster: {names}",
        )
    return profile, tuple(dict.fromkeys(found[profile]))


def consumer_report(base: Report, route: Route, topics: Sequence[str], access: ConsumerAccess, client: str) -> Report:
    """The settings of a consumer of these topics in place of the text of `base`, for one of the `CLIENTS`."""
    lines = CLIENTS[client]
    head = (
        f"# stream {route.stream}, epoch {route.epoch}, cluster {sanitize(access.profile)}: read all of these topics",
        f"# topics: {','.join(topics)}",
    )
    return replace(base, sections=(RawDocument(text_of((*head, *lines(route.epoch, topics, access)))),))


_READ = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
_STANDS_FOR = {"sasl.password": "KAFKA_PASSWORD", "ssl.key.password": "KAFKA_KEY_PASSWORD"}


def _librdkafka(epoch: int, topics: Sequence[str], access: ConsumerAccess) -> Iterator[str]:
    del epoch
    security, secrets = access.security, _secrets(access)
    more = "".join(f" -X {key}={secret.in_shell(_STANDS_FOR[key])}" for key, secret in secrets.items())
    yield f"# one topic:  kcat -F FILE{more} -C -t {topics[0]}"
    yield f"# as a group: kcat -F FILE{more} -G GROUP {' '.join(topics)}"
    for key, secret in secrets.items():
        yield f"# {key} is not printed; the profile has it from {secret.words}"
    yield f"bootstrap.servers={sanitize(access.bootstrap_servers)}"
    yield f"security.protocol={security.protocol}"
    values = {
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.cert_file,
        "ssl.key.location": security.key_file,
        "ssl.endpoint.identification.algorithm": _host_check(security, "none"),
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.username,
        **_READ,
    }
    yield from (f"{key}={sanitize(value)}" for key, value in values.items() if value is not None)


def _java(epoch: int, topics: Sequence[str], access: ConsumerAccess) -> Iterator[str]:
    """Kafka's DirectoryConfigProvider leaves the line end of a password's file, so passwords come from variables."""
    del epoch, topics
    security, secrets = access.security, _secrets(access)
    yield "#group.id=GROUP"
    for key, secret in secrets.items():
        name = secret.variable(_STANDS_FOR[key])
        yield f"# {key} is not printed; the profile has it from {secret.words}"
        if secret.way is SecretWay.FILE:
            yield f"# start the client with {name}={secret.in_shell(name)}"
        elif secret.way is SecretWay.OTHER:
            yield f"# start the client with it in the environment variable {name}"
    yield _line("bootstrap.servers", access.bootstrap_servers)
    yield _line("security.protocol", security.protocol)
    providers = {"directory": "DirectoryConfigProvider"} if security.cert_file else {}
    providers |= {"env": "EnvVarConfigProvider"} if secrets else {}
    if providers:
        yield _line("config.providers", ",".join(providers))
    for name, kind in providers.items():
        yield _line(f"config.providers.{name}.class", f"org.apache.kafka.common.config.provider.{kind}")
    given = {key: f"${{env:{secret.variable(_STANDS_FOR[key])}}}" for key, secret in secrets.items()}
    values = {
        "ssl.truststore.type": security.ca_file and "PEM",
        "ssl.truststore.location": security.ca_file,
        "ssl.keystore.type": security.cert_file and "PEM",
        "ssl.keystore.certificate.chain": _from_folder(security.cert_file),
        "ssl.keystore.key": _from_folder(security.key_file),
        "ssl.key.password": given.get("ssl.key.password"),
        "ssl.endpoint.identification.algorithm": _host_check(security, ""),
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.jaas.config": _jaas(security, given.get("sasl.password")),
        **_READ,
    }
    yield from (_line(key, value) for key, value in values.items() if value is not None)


def _spring_lines(epoch: int, topics: Sequence[str], access: ConsumerAccess) -> Iterator[str]:
    security, secrets = access.security, _secrets(access)
    for key, secret in secrets.items():
        yield f"# {key} is not printed; the profile has it from {secret.words}"
    files = [s.place for s in secrets.values() if s.way is SecretWay.FILE]
    folders = sorted({path.removesuffix(_split(path)[1]) or "./" for path in files})
    if security.ca_file or security.cert_file:
        yield "# for Spring Boot 3.2 or newer: Kafka's clients have no SSL bundles before"
    yield "stream:"
    yield "  # @KafkaListener(topics = \"#{'${stream.topics}'.split(',')}\")"
    yield f"  topics: {_quote_text(','.join(topics))}"
    yield f"  epoch: {epoch}"
    yield "spring:"
    if folders:
        yield "  config:"
        yield "    # each file in the folder, and in folders below it, is a property"
        yield "    import:"
        yield from (f"      - {_quote_text(f'configtree:{folder}')}" for folder in folders)
    if security.ca_file or security.cert_file:
        yield from ("  ssl:", "    bundle:", "      pem:", "        kafka:")
        if security.ca_file:
            yield from ("          truststore:", f"            certificate: {_quote_text('file:' + security.ca_file)}")
        if security.cert_file and security.key_file:
            yield from ("          keystore:", f"            certificate: {_quote_text('file:' + security.cert_file)}")
            yield f"            private-key: {_quote_text('file:' + security.key_file)}"
            if access.key_password is not None:
                stands = _spring_secret("ssl.key.password", access.key_password)
                yield f"            private-key-password: {_quote_text(stands)}"
    yield "  kafka:"
    yield f"    bootstrap-servers: {_quote_text(access.bootstrap_servers)}"
    yield from ("    security:", f"      protocol: {security.protocol}")
    if security.ca_file or security.cert_file:
        yield from ("    ssl:", "      bundle: kafka")
    yield "    consumer:"
    yield "      #group-id: GROUP"
    yield f"      auto-offset-reset: {_READ['auto.offset.reset']}"
    yield "      isolation-level: read-committed"
    password = None if access.password is None else _spring_secret("sasl.password", access.password)
    values = {
        "ssl.endpoint.identification.algorithm": _host_check(security, ""),
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.jaas.config": _jaas(security, password),
    }
    if any(value is not None for value in values.values()):
        yield "    properties:"
        yield from (f'      "[{key}]": {_quote_text(value)}' for key, value in values.items() if value is not None)


CLIENTS = {"librdkafka": _librdkafka, "java": _java, "spring": _spring_lines}
"""The clients of which a consumer's settings can be printed."""


def _secrets(access: ConsumerAccess) -> dict[str, SecretReference]:
    found = {"sasl.password": access.password, "ssl.key.password": access.key_password}
    return {key: secret for key, secret in found.items() if secret is not None}


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _from_folder(path: str | None) -> str | None:
    """A whole file, as Kafka's DirectoryConfigProvider reads it."""
    return None if not path else "${{directory:{}:{}}}".format(*_split(path))


def _spring_secret(key: str, secret: SecretReference) -> str:
    name = _split(secret.place)[1] if secret.way is SecretWay.FILE else secret.variable(_STANDS_FOR[key])
    return f"${{{name}}}"


def _host_check(security: Security, off: str) -> str | None:
    return off if security.protocol.uses_tls and not security.check_hostname else None


def _jaas(security: Security, password: str | None) -> str | None:
    if not security.protocol.uses_sasl or security.username is None or password is None:
        return None
    is_plain = security.sasl_mechanism is Mechanism.PLAIN
    module = "plain.PlainLoginModule" if is_plain else "scram.ScramLoginModule"
    user = security.username.replace("\\", "\\\\").replace('"', '\\"')
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'


def _quote_text(text: str) -> str:
    """A value of YAML in double quotes, which JSON's are."""
    return json.dumps(text)
