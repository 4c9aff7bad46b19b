"""What `kafkakit doctor` finds, and its judgement: one check a question, each with what was found and what to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from kafkakit.config.security import ProbedListener, Security, misfits
from kafkakit.core.cluster_facts import ClusterInfo, PartitionHealth
from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import Severity
from kafkakit.core.model import BrokerState
from kafkakit.core.programs import Versions
from kafkakit.core.quantities import count_of
from kafkakit.core.rights import DOCTOR, Resource, lacking_on_topics, lacking_rights
from kafkakit.core.text import few_of, shell_command
from kafkakit.status.api import ClusterReading, judge_cluster

OLDEST_PYTHON = (3, 11)


class Status(StrEnum):
    """How a check ended; only `fail` makes the command fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One answered question; `unreachable` marks a failure that may pass by itself."""

    name: str
    status: Status
    detail: str
    hint: str | None = None
    unreachable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFacts:
    """All that was found; a `*_error` is why the fact beside it is missing.

    `extras` maps each extra to the packages of it that are missing, `brokers` each broker to what it answered.
    """

    versions: Versions
    extras: Mapping[str, tuple[str, ...]]
    java: str | None = None
    java_error: str | None = None
    config_origin: str = ""
    config_error: str | None = None
    bootstrap_servers: str = ""
    security: Security | None = None
    security_error: str | None = None
    pinned_cluster: str | None = None
    listeners: tuple[ProbedListener, ...] = ()
    cluster: ClusterInfo | None = None
    partitions: PartitionHealth | None = None
    min_isr: Mapping[str, int] = field(default_factory=dict)
    idle_throttles: str = ""
    cluster_error: str | None = None
    brokers: Mapping[int, ProbedListener] = field(default_factory=dict)
    topic_operations: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    data_brokers: tuple[int, ...] | None = None
    data_error: str | None = None
    control_store: str = ""
    control_error: str | None = None


def judge(facts: DoctorFacts) -> tuple[Check, ...]:
    """All checks, from the installation to the cluster, without those that an earlier failure rules out."""
    return tuple(_judge(facts))


def exit_code_of(checks: tuple[Check, ...]) -> ExitCode:
    """0 without a failure, 75 when all failures are of reachability, else 1."""
    failed = [check for check in checks if check.status is Status.FAIL]
    if not failed:
        return ExitCode.DONE
    return ExitCode.TRY_LATER if all(check.unreachable for check in failed) else ExitCode.FAILED


def _judge(facts: DoctorFacts) -> Iterator[Check]:
    yield from _installation(facts)
    if facts.config_error is not None:
        yield _fail("configuration", facts.config_error, "correct it, then run this again")
        return
    yield Check(name="configuration", status=Status.OK, detail=facts.config_origin)
    if facts.security is None:
        yield _fail(
            "security settings", facts.security_error or "unknown", "see where each is set: kafkakit profile show"
        )
        return
    if not facts.bootstrap_servers:
        hint = "pass --profile NAME or --bootstrap-server HOST:PORT to check a cluster"
        yield Check(name="address", status=Status.WARN, detail="none is configured", hint=hint)
        return
    # One address that answers is enough to connect, so a dead one beside it is no more than a warning.
    enough = any(listener.speaks_kafka for listener in facts.listeners)
    yield from (_check_reachable(listener, Status.WARN if enough else Status.FAIL) for listener in facts.listeners)
    if not enough:
        return
    yield from _protocol(facts.listeners, facts.security)
    yield from _cluster(facts)
    yield from _data(facts)
    if facts.cluster is not None and facts.data_brokers is not None:
        yield _control(facts)


def _installation(facts: DoctorFacts) -> Iterator[Check]:
    versions = facts.versions
    python = tuple(int(part) for part in versions.python.split(".")[:2] if part.isdecimal())
    status = Status.OK if python >= OLDEST_PYTHON else Status.FAIL
    yield Check(name="python", status=status, detail=versions.python)
    missing = [name for name, version in versions.packages.items() if version is None]
    known = ", ".join(f"{name} {version}" for name, version in versions.packages.items() if version)
    if missing:
        yield _fail("packages", f"missing: {', '.join(missing)}", "install kafkakit again, as docs/install.md says")
    elif versions.librdkafka is None:
        yield _fail("packages", "confluent-kafka is installed but cannot be loaded", "reinstall confluent-kafka")
    else:
        yield Check(name="packages", status=Status.OK, detail=f"{known}, librdkafka {versions.librdkafka}")
    complete = [extra for extra, absent in facts.extras.items() if not absent]
    partial = [extra for extra, absent in facts.extras.items() if absent]
    detail = f"installed: {', '.join(complete) or 'none'}; not installed: {', '.join(partial) or 'none'}"
    yield Check(name="extras", status=Status.OK, detail=detail)
    if facts.java is not None:
        yield Check(name="sandbox java", status=Status.OK, detail=facts.java)
    else:
        detail = facts.java_error or "unknown"
        hint = "only kafkakit sandbox needs it; pip install 'kafkakit[sandbox]' brings one"
        yield Check(name="sandbox java", status=Status.WARN, detail=detail, hint=hint)


def _check_reachable(listener: ProbedListener, otherwise: Status) -> Check:
    name = f"reach {listener.address}"
    if listener.refused is not None:
        hint = "check the address, the network and that the broker runs"
        return Check(name=name, status=otherwise, detail=listener.refused, hint=hint, unreachable=True)
    if not listener.speaks_kafka:
        return Check(
            name=name, status=otherwise, detail="a process listens there, but it is not Kafka", hint="check the port"
        )
    logins = f" with {', '.join(listener.mechanisms)}" if listener.mechanisms else ""
    wants = ", wants a client certificate" if listener.wants_certificate else ""
    return Check(name=name, status=Status.OK, detail=f"a Kafka listener, {listener.protocol}{logins}{wants}")


def _protocol(listeners: tuple[ProbedListener, ...], security: Security) -> Iterator[Check]:
    faults = [fault for listener in listeners if listener.speaks_kafka for fault in misfits(listener, security)]
    if not faults:
        yield Check(name="protocol", status=Status.OK, detail=f"{security.protocol} is what the brokers speak")
    for detail, hint in dict.fromkeys(faults):
        yield _fail("protocol", detail, hint)


def _cluster(facts: DoctorFacts) -> Iterator[Check]:
    info = facts.cluster
    if info is None:
        yield _fail("admin client", facts.cluster_error or "unknown", _login_hint(facts))
        return
    version = f", Kafka {info.kafka_version}" if info.kafka_version else ""
    detail = f"cluster {info.cluster_id}, {len(info.brokers)} brokers{version}"
    yield Check(name="admin client", status=Status.OK, detail=detail)
    if facts.pinned_cluster not in (None, info.cluster_id):
        detail = f"the profile pins {facts.pinned_cluster}, this is {info.cluster_id}"
        yield _fail("cluster id", detail, "check the address and the profile's cluster_id")
    away = [broker.id for broker in info.brokers if broker.state is not BrokerState.ALIVE]
    if away:
        names = ", ".join(str(broker) for broker in away)
        yield Check(name="brokers", status=Status.WARN, detail=f"not alive: {names}", hint="see the brokers' logs")
    else:
        yield Check(name="brokers", status=Status.OK, detail=f"all {len(info.brokers)} alive")
    yield from _answers(facts.brokers, frozenset(away))
    if facts.partitions is not None:
        yield _health(facts, info, facts.partitions)
    yield _rights(facts, info.operations)
    if facts.idle_throttles:
        hint = "see and remove all (without --all: throttles of runs on this host): kafkakit reassign cleanup --all"
        yield Check(name="throttles", status=Status.WARN, detail=f"left over: {facts.idle_throttles}", hint=hint)


def _health(facts: DoctorFacts, info: ClusterInfo, partitions: PartitionHealth) -> Check:
    """Whether clients can work with the cluster now: what `kafkakit status` calls an error fails."""
    reading = ClusterReading(
        profile="", at=datetime.fromtimestamp(0, UTC), info=info, partitions=partitions, min_isr=facts.min_isr
    )
    errors = [
        f.message
        for f in judge_cluster(reading).findings
        if f.severity is Severity.ERROR and not f.where.startswith("broker ")  # each has a check of its own
    ]
    if not errors:
        return Check(name="cluster health", status=Status.OK, detail=f"{partitions.partitions:,} partitions are led")
    return _fail("cluster health", "; ".join(errors), f"see what is wrong: {shell_command('status')}")


def _answers(brokers: Mapping[int, ProbedListener], away: frozenset[int]) -> Iterator[Check]:
    """Brokers that do not answer here, although another one lists them; a dead one that refuses is named before."""
    for broker, found in sorted(brokers.items()):
        if found.speaks_kafka or (found.refused is not None and broker in away):
            continue
        if found.refused is not None:
            detail = f"cannot be reached at {found.address}: {found.refused}"
            hint = "if it died just now, run doctor again in 20 seconds; otherwise check its advertised.listeners"
        else:
            detail = f"takes connections at {found.address} and does not answer: it hangs"
            hint = "look for a stopped process, a full disk or long pauses there, and restart it"
        yield _fail(f"broker {broker}", detail, hint)


def _rights(facts: DoctorFacts, operations: frozenset[str] | None) -> Check:
    if operations is None:
        return Check(name="rights", status=Status.WARN, detail="the cluster does not report what this user may do")
    on_cluster, on_topics = _needed_rights(Resource.CLUSTER), _needed_rights(Resource.TOPICS)
    absent, topics = lacking_rights(on_cluster, operations), lacking_on_topics(on_topics, facts.topic_operations)
    if not absent and not topics:
        seen = f"on {count_of(len(facts.topic_operations), 'topic')} that can be seen: {', '.join(sorted(on_topics))}"
        detail = f"on the cluster: {', '.join(sorted(on_cluster))}; {seen}"
        return Check(name="rights", status=Status.OK, detail=detail)
    words = [f"missing on the cluster: {', '.join(o.upper() for o in absent)}"] if absent else []
    words += [f"missing on topics: {operation.upper()} on {few_of(names)}" for operation, names in topics.items()]
    hurt = [
        duty.name
        for duty in DOCTOR
        if duty.rights[Resource.CLUSTER].intersection(absent) or duty.rights[Resource.TOPICS].intersection(topics)
    ]
    hint = f"grant them; needed for {', '.join(hurt)} (docs/acl.md lists the rights of each command)"
    return _fail("rights", "; ".join(words), hint)


def _needed_rights(resource: Resource) -> frozenset[str]:
    return frozenset[str]().union(*(duty.rights[resource] for duty in DOCTOR))


def _data(facts: DoctorFacts) -> Iterator[Check]:
    if facts.data_brokers is not None:
        yield Check(name="data client", status=Status.OK, detail=f"sees {len(facts.data_brokers)} brokers")
    else:
        yield _fail("data client", facts.data_error or "unknown", _login_hint(facts))


def _control(facts: DoctorFacts) -> Check:
    if facts.control_error is not None:
        return _fail(
            "control store",
            f"{facts.control_store}: {facts.control_error}",
            "correct it, or set control_store to another one",
        )
    reach = "this host only" if facts.control_store == "file" else "all hosts that use it"
    return Check(name="control store", status=Status.OK, detail=f"{facts.control_store}, for {reach}")


def _login_hint(facts: DoctorFacts) -> str:
    security = facts.security
    fits = security is not None and not any(
        True for listener in facts.listeners if listener.speaks_kafka for _ in misfits(listener, security)
    )
    if fits and security is not None and (security.protocol.uses_sasl or security.cert_file):
        return "address and protocol fit, so check the credentials (user name, password, client certificate)"
    return "see the checks above"


def _fail(name: str, detail: str, hint: str) -> Check:
    return Check(name=name, status=Status.FAIL, detail=detail, hint=hint)
