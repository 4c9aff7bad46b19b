"""The doctor's judgement as a pure function, its facts over fakes, and the listener probe on real sockets."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.adapters.kafka.listener_probe import probe_listener
from kafkakit.config.security import Mechanism, ProbedListener, Protocol, Secret, Security, parse_addresses
from kafkakit.core.cluster_facts import ClusterInfo, PartitionHealth, PartitionState, ResourceKind
from kafkakit.core.errors import ExitCode, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.model import Broker, BrokerState, TopicPartition
from kafkakit.core.programs import Versions
from kafkakit.doctor.act import DoctorSettings, FactSources, collect_facts
from kafkakit.doctor.decide import Check, DoctorFacts, Status, exit_code_of, judge
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore

VERSIONS = Versions(
    kafkakit="1", python="3.11.7", librdkafka="2.16", packages={"kafka-python": "3.0.12"}, schemas={"plan": 1}
)
PLAIN = ProbedListener(host="a", port=1, speaks_kafka=True)
SCRAM = Security(
    protocol=Protocol.SASL_SSL, sasl_mechanism=Mechanism.SCRAM_SHA_256, username="u", password=Secret("hunter2")
)
HEALTHY = DoctorFacts(
    versions=VERSIONS,
    extras={"sandbox": (), "spark": ("pyspark",)},
    java="Java 17",
    config_origin="no profile",
    bootstrap_servers="a:1",
    security=Security(),
    listeners=(PLAIN,),
    cluster=ClusterInfo(
        cluster_id="c1",
        controller_id=1,
        brokers=(Broker(id=1), Broker(id=2)),
        operations=frozenset({"describe", "describe_configs", "alter", "alter_configs", "create"}),
    ),
    partitions=PartitionHealth(
        topics=1, partitions=2, leaders={1: 1, 2: 1}, replicas={1: 2, 2: 2}, not_preferred=0, unwell={}
    ),
    topic_operations={"t": frozenset({"describe", "describe_configs", "alter_configs"})},
    data_brokers=(1, 2),
)


def faults(facts: DoctorFacts) -> list[tuple[str, str]]:
    return [(check.name, check.detail) for check in judge(facts) if check.status is Status.FAIL]


def check_of(facts: DoctorFacts, name: str) -> Check:
    return next(check for check in judge(facts) if check.name == name)


def test_a_healthy_visit_has_only_good_checks() -> None:
    checks = judge(HEALTHY)
    assert {check.status for check in checks} == {Status.OK}
    assert exit_code_of(checks) is ExitCode.DONE
    names = [check.name for check in checks]
    assert names[:5] == ["python", "packages", "extras", "sandbox java", "configuration"]
    assert names[5:9] == ["reach a:1", "protocol", "admin client", "brokers"]
    assert names[9:] == ["cluster health", "rights", "data client", "control store"]
    assert check_of(HEALTHY, "extras").detail == "installed: sandbox; not installed: spark"


@pytest.mark.parametrize(
    ("state", "minimum", "told"),
    [
        (PartitionState(replicas=(1, 2), isr=(), leader=None), 1, "t/0 has no leader; replicas: 1, 2"),
        (PartitionState(replicas=(1, 2), isr=(1,), leader=1), 2, "t/0: 1 in sync, needs 2; acks=all fails"),
    ],
)
def test_what_clients_fail_of_fails_and_names_the_command_that_tells_more(
    state: PartitionState, minimum: int, told: str
) -> None:
    assert HEALTHY.partitions is not None
    unwell = replace(HEALTHY.partitions, unwell={TopicPartition("t", 0): state})
    facts = replace(HEALTHY, partitions=unwell, min_isr={"t": minimum})
    assert faults(facts) == [("cluster health", told)]
    assert "kafkakit status" in (check_of(facts, "cluster health").hint or "")
    assert faults(replace(facts, min_isr={"t": 1})) == (faults(facts) if state.leader is None else [])


def test_nothing_that_listens_may_pass_by_itself() -> None:
    facts = replace(HEALTHY, listeners=(replace(PLAIN, speaks_kafka=False, refused="Connection refused"),))
    assert faults(facts) == [("reach a:1", "Connection refused")]
    assert exit_code_of(judge(facts)) is ExitCode.TRY_LATER


def test_one_dead_address_beside_a_live_one_is_told_and_the_rest_still_checked() -> None:
    dead = ProbedListener(host="b", port=2, refused="Connection refused")
    facts = replace(HEALTHY, listeners=(PLAIN, dead))
    assert faults(facts) == []
    assert check_of(facts, "reach b:2").status is Status.WARN
    assert check_of(facts, "reach b:2").detail == "Connection refused"
    assert exit_code_of(judge(facts)) is ExitCode.DONE
    assert check_of(facts, "data client").status is Status.OK


def test_something_else_that_listens_is_a_failure() -> None:
    facts = replace(HEALTHY, listeners=(ProbedListener(host="a", port=1),))
    assert faults(facts) == [("reach a:1", "a process listens there, but it is not Kafka")]
    assert exit_code_of(judge(facts)) is ExitCode.FAILED


@pytest.mark.parametrize(
    ("listener", "security", "detail"),
    [
        (replace(PLAIN, speaks_tls=True), Security(), "a:1 speaks SSL, the settings say PLAINTEXT"),
        (
            replace(PLAIN, speaks_tls=True, mechanisms=("PLAIN",)),
            Security(protocol=Protocol.SSL),
            "a:1 speaks SASL_SSL, the settings say SSL",
        ),
        (PLAIN, SCRAM, "a:1 speaks PLAINTEXT, the settings say SASL_SSL"),
        (
            replace(PLAIN, speaks_tls=True, mechanisms=("PLAIN", "SCRAM-SHA-512")),
            SCRAM,
            "a:1 takes PLAIN, SCRAM-SHA-512, the settings say SCRAM-SHA-256",
        ),
        (
            replace(PLAIN, speaks_tls=True, mechanisms=("SCRAM-SHA-256",), distrust="self-signed certificate"),
            SCRAM,
            "the certificate of a:1 is not trusted: self-signed certificate",
        ),
        (
            replace(PLAIN, speaks_tls=True, wants_certificate=True),
            Security(protocol=Protocol.SSL),
            "a:1 wants a client certificate, the settings have none",
        ),
        (
            replace(PLAIN, speaks_tls=True, wants_certificate=True),
            Security(),
            "a:1 speaks an encrypted protocol (SSL or SASL_SSL), the settings say PLAINTEXT",
        ),
    ],
)
def test_network_protocol_and_credentials_are_told_apart(
    listener: ProbedListener, security: Security, detail: str
) -> None:
    facts = replace(HEALTHY, listeners=(listener,), security=security, cluster=None, cluster_error="no")
    assert ("protocol", detail) in faults(facts)
    assert check_of(facts, "admin client").hint == "see the checks above"
    assert exit_code_of(judge(facts)) is ExitCode.FAILED


def test_where_address_and_protocol_fit_the_credentials_are_suspected() -> None:
    listener = replace(PLAIN, speaks_tls=True, mechanisms=("SCRAM-SHA-256",))
    facts = replace(HEALTHY, listeners=(listener,), security=SCRAM, cluster=None, cluster_error="cannot connect")
    assert check_of(facts, "protocol").status is Status.OK
    hint = check_of(facts, "admin client").hint
    assert hint is not None
    assert "check the credentials" in hint


def test_missing_rights_are_named() -> None:
    assert HEALTHY.cluster is not None
    facts = replace(HEALTHY, cluster=replace(HEALTHY.cluster, operations=frozenset({"describe"})))
    assert faults(facts) == [("rights", "missing on the cluster: ALTER, ALTER_CONFIGS, DESCRIBE_CONFIGS")]
    hint = check_of(facts, "rights").hint or ""
    assert "moves with a throttle" in hint
    assert "snapshots" not in hint, "that needs DESCRIBE alone, which is there"
    silent = replace(HEALTHY, cluster=replace(HEALTHY.cluster, operations=None))
    assert check_of(silent, "rights").status is Status.WARN
    assert exit_code_of(judge(silent)) is ExitCode.DONE


def test_missing_rights_on_topics_are_named() -> None:
    whole = frozenset({"describe", "describe_configs", "alter_configs"})
    seen = {"a": whole, "b": frozenset({"describe"}), "c": frozenset({"read", "describe_configs"})}
    facts = replace(HEALTHY, topic_operations=seen)
    words = "missing on topics: ALTER_CONFIGS on b, c; missing on topics: DESCRIBE_CONFIGS on b"
    assert faults(facts) == [("rights", words)]
    assert faults(replace(HEALTHY, topic_operations={"a": whole, "d": None})) == []


def test_brokers_that_are_away_are_a_warning() -> None:
    assert HEALTHY.cluster is not None
    brokers = (Broker(id=1), Broker(id=2, state=BrokerState.FENCED))
    check = check_of(replace(HEALTHY, cluster=replace(HEALTHY.cluster, brokers=brokers)), "brokers")
    assert (check.status, check.detail) == (Status.WARN, "not alive: 2")


def test_a_broker_that_hangs_is_a_failure_and_one_that_is_dead_is_named_once() -> None:
    assert HEALTHY.cluster is not None
    brokers = (Broker(id=1), Broker(id=2, state=BrokerState.FENCED))
    answers = {1: PLAIN, 2: replace(PLAIN, speaks_kafka=False, host="b", port=2)}
    hung = replace(HEALTHY, cluster=replace(HEALTHY.cluster, brokers=brokers), brokers=answers)
    assert faults(hung) == [("broker 2", "takes connections at b:2 and does not answer: it hangs")]
    assert exit_code_of(judge(hung)) is ExitCode.FAILED
    dead = replace(hung, brokers={1: PLAIN, 2: replace(answers[2], refused="Connection refused")})
    assert (faults(dead), exit_code_of(judge(dead))) == ([], ExitCode.DONE)
    cut_off = replace(dead, cluster=HEALTHY.cluster)
    assert faults(cut_off) == [("broker 2", "cannot be reached at b:2: Connection refused")]


def test_every_broker_is_asked_at_its_advertised_address() -> None:
    class Advertising(Cluster):
        def cluster(self) -> ClusterInfo:
            return replace(super().cluster(), brokers=(Broker(id=1, host="x", port=7), Broker(id=2)))

    facts = collect_facts(sources(PLAIN, Advertising()))
    assert facts.brokers == {1: replace(PLAIN, host="x", port=7)}


def test_the_pinned_cluster_is_compared() -> None:
    assert faults(replace(HEALTHY, pinned_cluster="c1")) == []
    assert faults(replace(HEALTHY, pinned_cluster="c2")) == [("cluster id", "the profile pins c2, this is c1")]


def test_the_control_store_is_asked_once_the_cluster_answers() -> None:
    assert check_of(replace(HEALTHY, control_store="file"), "control store").detail == "file, for this host only"
    detail = check_of(replace(HEALTHY, control_store="kafka"), "control store").detail
    assert detail == "kafka, for all hosts that use it"
    broken = replace(HEALTHY, control_store="zookeeper", control_error="gave no answer")
    assert faults(broken) == [("control store", "zookeeper: gave no answer")]
    assert "control store" not in [check.name for check in judge(replace(broken, data_brokers=None))]


def test_an_old_python_and_a_missing_package_fail() -> None:
    versions = replace(VERSIONS, python="3.10.1", packages={"kazoo": None})
    assert faults(replace(HEALTHY, versions=versions)) == [("python", "3.10.1"), ("packages", "missing: kazoo")]


def test_without_an_address_the_cluster_is_left_alone() -> None:
    facts = replace(HEALTHY, bootstrap_servers="", listeners=(), cluster=None)
    assert check_of(facts, "address").status is Status.WARN
    assert exit_code_of(judge(facts)) is ExitCode.DONE


class Cluster:
    def __init__(self) -> None:
        self.closed = False

    def cluster(self) -> ClusterInfo:
        assert HEALTHY.cluster is not None
        return HEALTHY.cluster

    def dynamic_configs(self, kind: ResourceKind, names: list[str]) -> dict[str, dict[str, str]]:
        return {}

    def partition_health(self) -> PartitionHealth:
        assert HEALTHY.partitions is not None
        return HEALTHY.partitions

    def topic_operations(self) -> dict[str, frozenset[str] | None]:
        return {"t": frozenset({"describe", "describe_configs", "alter_configs"})}

    def close(self) -> None:
        self.closed = True


class Data:
    def reach(self, timeout_s: float) -> tuple[int, ...]:
        raise TryLaterError("cannot reach the cluster")


def sources(listener: ProbedListener, cluster: Cluster) -> FactSources:
    def no_java() -> str:
        raise UsageError("found no Java")

    def admin() -> ClusterAdmin:
        return cluster  # type: ignore[return-value]

    def data() -> DataPlane:
        return Data()  # type: ignore[return-value]

    return FactSources(
        versions=VERSIONS,
        extras={},
        find_java=no_java,
        load_configuration=lambda: DoctorSettings(
            origin="here", bootstrap_servers="a:1", pinned_cluster=None, load_security=Security
        ),
        probe=lambda host, port, timeout_s, security: replace(listener, host=host, port=port),
        open_admin=admin,
        open_data=data,
        open_control=FakeControlStore,
    )


def test_a_visit_turns_failures_into_facts_and_lets_go() -> None:
    cluster = Cluster()
    facts = collect_facts(sources(PLAIN, cluster))
    assert (facts.java, facts.java_error) == (None, "found no Java")
    assert facts.cluster == HEALTHY.cluster
    assert facts.data_error == "cannot reach the cluster"
    assert cluster.closed
    assert facts.control_error is None


def test_a_control_store_that_is_away_is_a_finding() -> None:
    class Willing(Data):
        def reach(self, timeout_s: float) -> tuple[int, ...]:
            return (1,)

    store = FakeControlStore()
    store.away = True
    asking = replace(
        sources(PLAIN, Cluster()),
        open_data=Willing,  # type: ignore[arg-type]
        open_control=lambda: store,
    )
    assert collect_facts(asking).control_error == "the control store is away"
    store.away = False
    assert collect_facts(asking).control_error is None


def test_where_nobody_speaks_kafka_no_client_is_made() -> None:
    dead = ProbedListener(host="", port=0, refused="no")
    facts = collect_facts(replace(sources(dead, Cluster()), open_admin=lambda: pytest.fail("a client was made")))
    assert facts.listeners == (ProbedListener(host="a", port=1, refused="no"),)


def test_a_configuration_that_cannot_be_loaded_is_a_finding() -> None:
    def broken() -> DoctorSettings:
        raise UsageError("bad file", hint="repair it")

    facts = collect_facts(replace(sources(PLAIN, Cluster()), load_configuration=broken))
    assert faults(facts) == [("configuration", "bad file; repair it")]
    assert exit_code_of(judge(facts)) is ExitCode.FAILED


def test_addresses() -> None:
    assert parse_addresses("a:1, b.c:65535,[::1]:9092,") == (("a", 1), ("b.c", 65535), ("::1", 9092))
    assert parse_addresses("") == ()


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:0", "a:65536", "a:x", "::1:9092", "a:٣", "a:99999999999", "[]:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        parse_addresses(text)


@contextmanager
def serving(answer: bytes | None, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A listener on a free loopback port that answers each request alike, or hangs up when there is no answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    stream, _ = server.accept()
                except OSError:
                    return
                try:
                    with stream, context.wrap_socket(stream, server_side=True) if context else stream as talk:
                        talk.settimeout(60)
                        if talk.recv(1000) and answer is not None:
                            talk.sendall(answer)
                except OSError:
                    continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(60)


def handshake_answer(code: int, *mechanisms: str) -> bytes:
    body = struct.pack(">ihi", 1, code, len(mechanisms))
    body += b"".join(struct.pack(">h", len(name)) + name.encode() for name in mechanisms)
    return struct.pack(">i", len(body)) + body


def probe(port: int, ca_file: str | None = None) -> ProbedListener:
    return probe_listener("127.0.0.1", port, 60.0, ca_file, True)


def test_the_probe_sees_a_plain_listener() -> None:
    with serving(handshake_answer(34)) as port:
        assert probe(port) == ProbedListener(host="127.0.0.1", port=port, speaks_kafka=True)


def test_the_probe_sees_the_logins() -> None:
    with serving(handshake_answer(33, "SCRAM-SHA-512", "SCRAM-SHA-256")) as port:
        found = probe(port)
    assert found.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert found.protocol is Protocol.SASL_PLAINTEXT


@pytest.mark.parametrize(
    "answer",
    [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\x00" * 64, b"\x7f\xff\xff\xff" + b"x" * 100,
     struct.pack(">iihi", 10, 1, 0, 100), struct.pack(">iihih", 12, 1, 0, 1, 500), struct.pack(">iihi", 10, 1, 0, -1)],
)  # fmt: skip
def test_what_is_no_kafka_is_recognised(answer: bytes | None) -> None:
    with serving(answer) as port:
        assert probe(port) == ProbedListener(host="127.0.0.1", port=port)


def test_the_probe_says_why_nothing_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert probe(port).refused == "Connection refused"
    assert probe_listener("no-such-host.invalid", 1, 2.0, None, True).refused
    assert probe_listener("x" * 300, 1, 2.0, None, True).refused


def test_the_probe_sees_tls_and_whether_it_is_trusted(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(handshake_answer(0, "PLAIN"), context) as port:
        strange = probe(port)
        trusted = probe(port, str(certificate))
    assert strange.protocol is Protocol.SASL_SSL
    assert strange.distrust is not None
    assert "self-signed" in strange.distrust.replace("self signed", "self-signed")
    assert trusted.distrust is None
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate)
    with serving(handshake_answer(34), context) as port:
        mutual = probe(port, str(certificate))
    assert (mutual.speaks_tls, mutual.wants_certificate, mutual.distrust) == (True, True, None)


def make_certificate(folder: Path, *, address: str = "127.0.0.1", days: int = 36500) -> tuple[Path, Path]:
    x509 = pytest.importorskip("cryptography.x509")
    import datetime
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


def test_throttles_without_moves_are_a_warning() -> None:
    found = FakeCluster({1: "a", 2: "b"})
    found.add_topic("t", {0: (1, 2)}, configs={FOLLOWER_LIST: "0:2"})
    asking = replace(sources(PLAIN, Cluster()), open_admin=lambda: found)
    assert collect_facts(asking).idle_throttles == ""  # entries without a rate limit nothing
    found.brokers[2].configs[FOLLOWER_RATE] = "5000000"
    facts = collect_facts(asking)
    (check,) = (c for c in judge(facts) if c.name == "throttles")
    assert (check.status, check.detail) == (
        Status.WARN,
        f"left over: broker 2 ({FOLLOWER_RATE}) and topic t ({FOLLOWER_LIST})",
    )
    assert check.hint is not None
    assert "reassign cleanup" in check.hint
    found.fail_next("snapshot", OperationFailedError("not authorized"))
    assert collect_facts(asking).idle_throttles == ""
