"""What Strimzi's operator sets on brokers itself, from the listeners, authorization and storage of its resources.

These are as effective as what a file sets, so they are part of the static configuration: without them a cluster
would look as if it had no authorizer or kept its logs in /tmp.
"""

import re
from collections.abc import Iterable

from kafkakit.core.findings import Place
from kafkakit.lint.decide.documents.tree import Mapping
from kafkakit.lint.decide.kinds.values import Reader
from kafkakit.rules.effective import Declared, Source
from kafkakit.rules.subjects import NO_HOST, HostFacts, LogDirFacts

_AUTHORIZERS = {
    "simple": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "opa": "org.openpolicyagent.kafka.OpaAuthorizer",
    "keycloak": "io.strimzi.kafka.oauth.server.authorizer.KeycloakAuthorizer",
}
_MECHANISMS = {"scram-sha-512": "SCRAM-SHA-512", "scram-sha-256": "SCRAM-SHA-256", "oauth": "OAUTHBEARER"}
_CONTROL, _REPLICATION = "CONTROLPLANE-9090", "REPLICATION-9091"
CONTROLLER_LISTENERS = f"{_CONTROL}://0.0.0.0:9090"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTPE]i?)?")
_UNITS = "KMGTPE"


def operator_settings(reader: Reader, kafka: Mapping, name: str, uses_zookeeper: bool) -> dict[str, Declared]:
    """The broker settings that follow from `spec.kafka`."""
    spec_place = reader.place(kafka)
    found: dict[str, Declared] = {}

    def put(key: str, text: str, place: Place = spec_place) -> None:
        found[key] = Declared(text, Source.STATIC, place)

    put("log.dirs", "/var/lib/kafka/data/kafka-log0")
    if uses_zookeeper:
        put("zookeeper.connect", f"{name}-zookeeper-client:2181")
    else:
        put("controller.quorum.bootstrap.servers", f"{name}-controllers:9090")
        put("controller.listener.names", _CONTROL)
    put("inter.broker.listener.name", _REPLICATION)
    put("ssl.client.auth", "required")
    ends = {_REPLICATION: 9091}
    protocols = {_CONTROL: "SSL", _REPLICATION: "SSL"}
    for node in reader.mappings(kafka, "listeners"):
        port = reader.integer(node, "port", 1)
        listener = f"{(node.text('name') or 'listener').upper()}-{port}"
        ends[listener] = port or 0
        protocols[listener] = _protocol(reader, node)
        mechanism = _mechanism(node)
        if mechanism:
            put(f"listener.name.{listener.lower()}.sasl.enabled.mechanisms", mechanism, reader.place(node))
    listeners = kafka.entries.get("listeners")
    place = reader.place(listeners.key) if listeners is not None else spec_place
    put("listeners", ",".join(f"{end}://0.0.0.0:{port}" for end, port in ends.items()), place)
    put("advertised.listeners", ",".join(f"{end}://{name}-kafka:{port}" for end, port in ends.items()), place)
    put("listener.security.protocol.map", ",".join(f"{end}:{how}" for end, how in protocols.items()), place)
    _put_authorizer(reader, kafka, found)
    return found


def _put_authorizer(reader: Reader, kafka: Mapping, found: dict[str, Declared]) -> None:
    authorization = reader.mapping(kafka, "authorization")
    if authorization is None:
        return
    place = reader.place(kafka.entries["authorization"].key)
    kind = authorization.text("type") or ""
    name = authorization.text("authorizerClass") or _AUTHORIZERS.get(kind)
    if name is not None:
        found["authorizer.class.name"] = Declared(name, Source.STATIC, place)
    users = reader.texts(authorization, "superUsers")
    if users:
        text = ";".join(user if user.startswith("User:") else f"User:{user}" for user in users)
        found["super.users"] = Declared(text, Source.STATIC, place)


def _protocol(reader: Reader, listener: Mapping) -> str:
    is_encrypted = bool(reader.flag(listener, "tls"))
    if _mechanism(listener):
        return "SASL_SSL" if is_encrypted else "SASL_PLAINTEXT"
    return "SSL" if is_encrypted else "PLAINTEXT"


def _mechanism(listener: Mapping) -> str | None:
    authentication = listener.mapping("authentication")
    return _MECHANISMS.get(authentication.text("type") or "") if authentication is not None else None


def storage_dirs(storage: Mapping | None) -> tuple[LogDirFacts, ...]:
    """The log dirs of a `storage` section with their sizes."""
    if storage is None:
        return ()
    volumes = [part for part in storage.sequence("volumes") if isinstance(part, Mapping)]
    if not volumes:
        return (LogDirFacts(path="/var/lib/kafka/data/kafka-log0", total_bytes=_bytes_of(storage.text("size"))),)
    return tuple(
        LogDirFacts(
            path=f"/var/lib/kafka/data-{volume.text('id') or number}/kafka-log0",
            total_bytes=_bytes_of(volume.text("size")),
        )
        for number, volume in enumerate(volumes)
    )


def pod_facts(*sections: Mapping | None) -> HostFacts:
    """Memory and heap of the pods that `resources` and `jvmOptions` of the first section that has them ask for."""
    memory = _first(s.mapping("resources", "limits") or s.mapping("resources", "requests") for s in sections if s)
    options = _first(s.mapping("jvmOptions") for s in sections if s)
    heap = options.text("-Xmx") if options is not None else None
    facts = HostFacts(
        memory_bytes=_bytes_of(memory.text("memory")) if memory is not None else None,
        heap_bytes=_bytes_of(heap.upper().rstrip("B") + "i" if heap and heap[-1:].isalpha() else heap),
    )
    return NO_HOST if facts == NO_HOST else facts


def _first(sections: Iterable[Mapping | None]) -> Mapping | None:
    return next((section for section in sections if section is not None), None)


def _bytes_of(text: str | None) -> int | None:
    """A quantity of Kubernetes in bytes."""
    found = _QUANTITY.fullmatch(text or "")
    if found is None:
        return None
    number, unit = float(found.group(1)), found.group(2) or ""
    if unit in ("", "m"):
        return int(number if not unit else number / 1000)
    base = 1024 if unit.endswith("i") else 1000
    return int(number * float(base) ** (_UNITS.index(unit[0].upper()) + 1))
