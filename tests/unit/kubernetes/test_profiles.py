"""Profiles from objects of Kubernetes: whose certificate is whose, which address fits, and that no secret is copied."""

from base64 import b64encode
from typing import Any

import pytest

from kafkakit.config.keys import SASL_PASSWORD
from kafkakit.core.errors import InputError
from kafkakit.kubernetes.profiles import (
    CA_FILE,
    CERT_FILE,
    KEY_FILE,
    KubernetesFile,
    forward_lines,
    host_lines,
    is_objects,
    read_profile,
    with_paths,
)
from tests.rigs.kubernetes import Thing, printed, stateful, thing

PEM = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ops" password="s3cret";'
OF_USER = {"labels": {"strimzi.io/kind": "KafkaUser", "strimzi.io/cluster": "prod"}}


def secret(name: str, data: dict[str, str], metadata: Thing | None = None) -> Thing:
    encoded = {key: b64encode(text.encode()).decode() for key, text in data.items()}
    return thing("Secret", name, metadata=metadata or {}, data=encoded)


SCRAM = secret("ops", {"password": "s3cret", "sasl.jaas.config": JAAS}, OF_USER)
# What Strimzi puts beside the certificate: the CA of clients, and the password of the store.
OF_STORE = {"ca.crt": "CLIENTS", "user.p12": "x", "user.password": "p"}
MTLS = secret("ops", {"user.crt": PEM, "user.key": "K", **OF_STORE}, OF_USER)
CA = secret("prod-cluster-ca-cert", {"ca.crt": PEM, "ca.p12": "x", "ca.password": "p"})
LISTENERS = {"plain": (9092, False, None), "tls": (9093, True, "tls"), "scram": (9094, True, "scram-sha-512")}


def kafka(*names: str, certificates: bool = False) -> Thing:
    specs: list[Thing] = []
    for name, (port, tls, kind) in LISTENERS.items():
        login = {"authentication": {"type": kind}} if kind else {}
        specs.append({"name": name, "port": port, "type": "internal", "tls": tls, **login})
    listeners: list[Thing] = []
    for name in names or LISTENERS:
        held = {"certificates": [PEM]} if certificates else {}
        listeners.append({"name": name, "bootstrapServers": f"b.example:{LISTENERS[name][0]}", **held})
    spec, status = {"kafka": {"listeners": specs}}, {"listeners": listeners}
    return thing("Kafka", "prod", "kafka.strimzi.io/v1beta2", spec=spec, status=status)


def service(*ports: tuple[str, int], ip: str = "None") -> Thing:
    spec = {"clusterIP": ip, "ports": [{"name": name, "port": port} for name, port in ports]}
    return thing("Service", "kafka-headless", spec=spec)


def imported(*items: Thing, has_address: bool = False, **choice: Any) -> KubernetesFile:
    given = {"name": None, "listener": None, **choice}
    found = read_profile(printed(items), "f", has_address=has_address, **given)
    assert "s3cret" not in repr(found)
    return found


def values(found: KubernetesFile) -> dict[str, str]:
    return {key: value for key, (value, _) in found.profiles[0].values.items()}


def test_a_strimzi_user_with_a_password_takes_its_own_listener() -> None:
    found = imported(SCRAM, CA, kafka())
    assert values(found) == {
        "bootstrap_server": "b.example:9094",
        "security.protocol": "SASL_SSL",
        "security.sasl.mechanism": "SCRAM-SHA-512",
        "security.sasl.username": "ops",
        "security.sasl.password_env": "KAFKA_PASSWORD_PROD",
    }
    assert {each.key: each.fetch for each in found.files} == {
        SASL_PASSWORD: "kubectl get secret ops -n kafka -o 'jsonpath={.data.password}' | base64 -d",
        CA_FILE: "kubectl get secret prod-cluster-ca-cert -n kafka -o 'jsonpath={.data.ca\\.crt}' | base64 -d",
    }
    placed = values(with_paths(found, "/k", with_password=True))
    assert (placed["security.sasl.password_file"], placed[CA_FILE]) == ("/k/password", "/k/ca.crt")
    assert "security.sasl.password_env" not in placed


def test_the_ca_of_clients_is_never_taken_for_that_of_brokers() -> None:
    alone = imported(MTLS, kafka())
    assert [(each.key, each.name) for each in alone.files] == [(CERT_FILE, "user.crt"), (KEY_FILE, "user.key")]
    both = imported(MTLS, CA, kafka())
    assert {each.key: each.data.reveal() for each in both.files} == {CERT_FILE: PEM, KEY_FILE: "K", CA_FILE: PEM}
    assert values(both)["bootstrap_server"] == "b.example:9093"
    assert values(both)["security.protocol"] == "SSL"
    clients = imported(SCRAM, secret("prod-clients-ca-cert", {"ca.crt": "CLIENTS"}), kafka())
    assert CA_FILE not in [each.key for each in clients.files]
    assert [key.why for key in clients.left_out] == ["of the operator itself: no client needs it"]


def test_the_listeners_own_certificate_stands_in_for_the_ca() -> None:
    (ca,) = [each for each in imported(SCRAM, kafka(certificates=True)).files if each.key == CA_FILE]
    assert ca.data.reveal() == PEM
    assert ca.fetch == (
        "kubectl get kafka prod -n kafka -o 'jsonpath={.status.listeners[?(@.name==\"scram\")].certificates[*]}'"
    )


def test_without_a_login_the_open_listener_is_taken() -> None:
    assert values(imported(kafka())) == {"bootstrap_server": "b.example:9092", "security.protocol": "PLAINTEXT"}
    assert values(imported(kafka(), listener="tls"))["security.protocol"] == "SSL"


def test_confluents_login_certificates_and_properties() -> None:
    plain = secret("credential", {"plain.txt": "username=kafka\npassword=s3cret\n"})
    tls = secret("tls-kafka", {"cacerts.pem": PEM})
    found = imported(plain, tls, has_address=True)
    assert values(found) == {
        "security.protocol": "SASL_SSL",
        "security.sasl.mechanism": "PLAIN",
        "security.sasl.username": "kafka",
        "security.sasl.password_env": "KAFKA_PASSWORD_CREDENTIAL",
    }
    assert found.files[0].fetch.endswith("| base64 -d | sed -n 's/^password=//p'")
    client = "bootstrap.servers=k:9092\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
    login = client + JAAS.replace("scram.Scram", "plain.Plain") + "\n"
    of_secret = imported(secret("client", {"kafka.properties": login}))
    assert values(of_secret)["bootstrap_server"] == "k:9092"
    assert values(of_secret)["security.sasl.password_env"] == "KAFKA_PASSWORD_CLIENT"
    broker = thing("ConfigMap", "broker", data={"server.properties": "process.roles=broker\nnode.id=1\n"})
    config = thing("ConfigMap", "client", data={"client.properties": "bootstrap.servers=c:1\n", "note.txt": "x"})
    mixed = imported(broker, config)
    assert values(mixed)["bootstrap_server"] == "c:1"
    assert [key.why for key in mixed.left_out] == ["configures a broker"]


def test_a_stateful_set_gives_the_names_of_its_pods() -> None:
    found = imported(stateful("kafka", 2, ordinals={"start": 1}), service(("client", 9092)))
    hosts = [f"kafka-{n}.kafka-headless.kafka.svc.cluster.local" for n in (1, 2)]
    assert values(found) == {"bootstrap_server": f"{hosts[0]}:9092,{hosts[1]}:9092"}
    assert list(forward_lines(found.forwards)) == [
        "kubectl port-forward -n kafka --address 127.0.1.1 pod/kafka-1 9092:9092 &",
        "kubectl port-forward -n kafka --address 127.0.1.2 pod/kafka-2 9092:9092 &",
    ]
    assert list(host_lines(found.forwards)) == [f"127.0.1.1 {hosts[0]}", f"127.0.1.2 {hosts[1]}"]
    assert found.notes == ("a StatefulSet does not say how clients log in: set it with -X security.protocol=...",)
    two = (("client", 9092), ("controller", 9093))
    assert values(imported(stateful("kafka", 1), service(*two), listener="client"))["bootstrap_server"].endswith(
        ":9092"
    )
    assert len(imported(stateful("kafka", 500), service(("c", 1))).forwards) == 10


@pytest.mark.parametrize(
    ("items", "choice", "message"),
    [
        ([kafka(), kafka() | {"metadata": {"name": "b"}}], {}, "holds 2 of a kind: kafka/prod, b"),
        ([kafka(), stateful("kafka", 1)], {}, "holds a Kafka and a StatefulSet"),
        ([SCRAM, kafka("plain")], {}, r"0 listeners for scram-sha-512 with an address; those with one: plain; .*--li"),
        ([kafka()], {"listener": "x"}, "0 listeners named x with an address"),
        ([kafka() | {"spec": {}}], {}, "3 listeners for clients without a login"),
        ([SCRAM, secret("other", {"user.crt": PEM, "user.key": "K"}, OF_USER)], {}, "of kafka/ops, kafka/other"),
        ([CA, secret("b-cluster-ca-cert", {"ca.crt": PEM})], {}, "several certificates for security.tls.ca_file"),
        ([stateful("kafka", 1)], {}, "Service kafka-headless of StatefulSet kafka/kafka is not in the file"),
        ([stateful("kafka", 1), service(("a", 1), ip="10.0.0.1")], {}, "kafka/kafka is not headless"),
        ([stateful("kafka", 1), service(("a", 1), ("b", 2))], {}, r"2 ports to choose from: a \(1\), b \(2\)"),
        ([secret("x", {"plain.txt": "username=a\n"})], {}, "plain.txt of secret kafka/x has no password"),
        ([secret("x", {"sasl.jaas.config": "no"})], {}, "sasl.jaas.config cannot be read"),
        ([secret("x", {"key": "v"})], {}, "holds no address, login or certificate of Kafka"),
        ([thing("Secret", "x", data={"plain.txt": "%"})], {}, "plain.txt of secret x is not base64"),
        ([stateful("k\x1b", 1), service(("a", 1))], {}, r"Service kafka-headless|Service k\\x1b-headless"),
        ([thing("Kafka", "a b", "kafka.strimzi.io/v1")], {"has_address": True}, "'a b' cannot name a profile"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused(items: list[Thing], choice: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        imported(*items, **choice)


def test_objects_are_told_from_files_of_clients() -> None:
    assert is_objects(printed([SCRAM]))
    assert is_objects(b"apiVersion: v1\nkind: Secret\n")
    assert not is_objects(b"contexts:\n  a: {brokers: [b:1]}\n")
    assert not is_objects(b"bootstrap.servers=a:1\n")
