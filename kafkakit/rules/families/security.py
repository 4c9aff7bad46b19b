"""S: rules of security."""

import re
from collections.abc import Iterator

from kafkakit.core.findings import shorten
from kafkakit.rules.cluster_facts import Listener, inter_broker_protocol, listener_items, listener_text, listeners_of
from kafkakit.rules.config_defs import ValueType, minor_key
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, to_items
from kafkakit.rules.rule import CORE, ERROR, STRICT, WARNING, Fix, Limits, Violation, Violations, broker_rule, set_to
from kafkakit.rules.subjects import LintBroker, LintCluster
from kafkakit.rules.values import HIDDEN, holds_literal_secret, is_reference, is_secret_key, literal_jaas_options

LEGACY_TLS = frozenset({"SSLv3", "TLSv1", "TLSv1.1"})
ANYONE = frozenset({"User:ANONYMOUS", "User:*"})
WITHDRAWN_AUTHORIZERS = {
    "kafka.security.auth.SimpleAclAuthorizer": "3.0",
    "kafka.security.authorizer.AclAuthorizer": "4.0",
}
CERTIFICATES = ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.engine.factory.class")
_COMMA_BEFORE_USER = re.compile(r"(?<!\\),\s*User:")
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"


@broker_rule("KKS801", ERROR, CORE)
def plaintext_listener(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A listener beyond loopback is not encrypted (production).

    Why: anyone on the network reads and changes records, and takes over sessions. Kafka's default is one
    PLAINTEXT listener on port 9092 of all interfaces.
    Source: Kafka documentation, "Security"; `listeners`.

    Bad:
        brokers: [{id: 1, config: {listeners: "PLAINTEXT://:9092"}}]

    Good:
        brokers: [{id: 1, config: {listeners: "SSL://:9093,PLAINTEXT://localhost:9092"}}]
    """
    if not cluster.is_prod:
        return
    plain = [x for x in listeners_of(broker.config.given()) if x.is_plain and not x.is_loopback]
    if plain:
        yield Violation(
            message=f"{_names(plain)} {'carries' if len(plain) == 1 else 'carry'} records over the network unencrypted",
            key="listeners",
            expected="SSL or SASL_SSL",
        )


@broker_rule("KKS802", WARNING, STRICT)
def plaintext_inter_broker(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers replicate to each other without encryption (production).

    Why: every record passes between brokers once for each follower.
    Source: Kafka documentation, `security.inter.broker.protocol`.

    Bad:
        brokers: [{id: 1, config: {security.inter.broker.protocol: PLAINTEXT}}]

    Good:
        brokers: [{id: 1, config: {security.inter.broker.protocol: SSL}}]
    """
    if not cluster.is_prod or not broker.is_broker:
        return
    config = broker.config.given()
    protocol = inter_broker_protocol(config)
    if protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        named = config.declared("inter.broker.listener.name") is not None
        yield Violation(
            message=f"brokers talk to each other by {protocol}: all records pass between them unencrypted",
            key="inter.broker.listener.name" if named else "security.inter.broker.protocol",
            expected="SSL or SASL_SSL",
        )


@broker_rule("KKS803", ERROR, CORE)
def sasl_plain_without_tls(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A SASL_PLAINTEXT listener accepts the mechanism PLAIN.

    Why: PLAIN sends the password as it is, so every connection shows it to the network.
    Source: Kafka documentation, "Use of SASL/PLAIN in production".

    Bad:
        config: {sasl.enabled.mechanisms: PLAIN}
        brokers: [{id: 1, config: {listeners: "SASL_PLAINTEXT://:9092"}}]

    Good:
        config: {sasl.enabled.mechanisms: PLAIN}
        brokers: [{id: 1, config: {listeners: "SASL_SSL://:9092"}}]
    """
    config = broker.config.given()
    open_ = [
        x
        for x in listeners_of(config)
        if x.protocol == "SASL_PLAINTEXT" and "PLAIN" in listener_items(config, x.name, "sasl.enabled.mechanisms")
    ]
    if open_:
        yield Violation(
            message=f"{_names(open_)} {'takes' if len(open_) == 1 else 'take'} passwords (PLAIN) without encryption",
            key="listeners",
            expected="SASL_SSL, or SCRAM-SHA-512",
        )


@broker_rule("KKS804", ERROR, CORE)
def inter_broker_mechanism(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers authenticate to each other by a mechanism that they do not accept.

    Why: a broker refuses to start: "sasl.mechanism.inter.broker.protocol must be included in
    sasl.enabled.mechanisms when SASL is used for inter-broker communication".
    Source: Kafka, `KafkaConfig.validateValues`.

    Bad:
        brokers:
          - id: 1
            config:
              security.inter.broker.protocol: SASL_SSL
              sasl.mechanism.inter.broker.protocol: PLAIN
              sasl.enabled.mechanisms: SCRAM-SHA-512

    Good:
        brokers:
          - id: 1
            config:
              security.inter.broker.protocol: SASL_SSL
              sasl.mechanism.inter.broker.protocol: SCRAM-SHA-512
              sasl.enabled.mechanisms: SCRAM-SHA-512
    """
    config = broker.config.given()
    if not inter_broker_protocol(config).startswith("SASL_"):
        return
    name = config.text("inter.broker.listener.name") or inter_broker_protocol(config)
    enabled = listener_items(config, name, "sasl.enabled.mechanisms")
    declared = config.declared(INTER_BROKER_MECHANISM)
    mechanism = declared.text if declared is not None else config.text(INTER_BROKER_MECHANISM)
    if mechanism not in enabled and not any(map(is_reference, (mechanism, *enabled))):
        yield Violation(
            message=f"brokers use {mechanism or 'no mechanism'} with each other, but accept "
            f"{', '.join(enabled) or 'nothing'}: they do not start",
            key=INTER_BROKER_MECHANISM,
            expected=f"one of {', '.join(enabled)}" if enabled else None,
            refused=True,
        )


@broker_rule("KKS805", WARNING, CORE)
def no_authorizer(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """No authorizer is set: every client may do everything (production).

    Why: without authorizer.class.name ACLs are neither stored nor checked; any client deletes any topic.
    Source: Kafka documentation, "Authorization and ACLs".

    Bad:
        brokers: [{id: 1, config: {num.io.threads: "8"}}]

    Good:
        config: {authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer}
        brokers: [{id: 1}]
    """
    if cluster.is_prod and not broker.config.given().text("authorizer.class.name").strip():
        yield Violation(
            message="every client that connects may read, write and delete everything",
            key="authorizer.class.name",
            expected="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        )


@broker_rule("KKS806", WARNING, CORE, fix=Fix.UNSAFE)
def allow_everyone(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Resources without an ACL are open to everyone.

    Why: a new topic, or one whose last ACL was removed, may be read, written and deleted by all.
    Source: Kafka, `StandardAuthorizer`, `allow.everyone.if.no.acl.found`.

    Bad:
        brokers: [{id: 1, config: {allow.everyone.if.no.acl.found: "true"}}]

    Good:
        brokers: [{id: 1, config: {allow.everyone.if.no.acl.found: "false"}}]
    """
    key = "allow.everyone.if.no.acl.found"
    declared = broker.config.declared(key)
    if declared is not None and declared.text.strip().lower() == "true":
        yield set_to(key, "false", "resources without an ACL are open to every client")


@broker_rule("KKS807", WARNING, STRICT, fix=Fix.UNSAFE)
def no_hostname_verification(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The host name in a TLS certificate is not verified.

    Why: with an empty ssl.endpoint.identification.algorithm a broker trusts any certificate of the authority as any
    host: a machine between two brokers reads all of their traffic.
    Source: Kafka documentation, `ssl.endpoint.identification.algorithm`.

    Bad:
        brokers: [{id: 1, config: {ssl.endpoint.identification.algorithm: ""}}]

    Good:
        brokers: [{id: 1, config: {ssl.endpoint.identification.algorithm: https}}]
    """
    for key, declared in _forms_of(broker.config, "ssl.endpoint.identification.algorithm"):
        if not declared.text.strip():
            yield set_to(key, "https", "the name in a certificate is not compared with the host's", observed="")


@broker_rule("KKS808", ERROR, CORE)
def literal_secret(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A password or key is written out in a file.

    Why: a secret in a repository is known to all who ever cloned it, and stays in its history. Kafka reads secrets
    through configuration providers: `${file:/run/secrets/kafka.properties:keystore}`, `${env:KEYSTORE_PASSWORD}`.
    The secret itself is printed in no report. Secrets among the options of `sasl.jaas.config` also count.
    Source: KIP-297, KIP-421.

    Bad:
        brokers: [{id: 1, config: {ssl.keystore.password: hunter2}}]

    Good:
        brokers: [{id: 1, config: {ssl.keystore.password: "${file:/run/secrets/kafka.properties:keystore}"}}]
    """
    for key, declared in broker.config.all_declared():
        if not _is_secret(broker.config, key) or not holds_literal_secret(key, declared.text):
            continue
        options = literal_jaas_options(declared.text) if key.endswith("sasl.jaas.config") else ()
        yield Violation(
            message=f"{key} holds a secret in plain text" + (f" ({', '.join(options)})" if options else ""),
            key=key,
            place=declared.place,
            observed=HIDDEN,
            expected="${provider:path:key}",
            hint="replace the secret with a reference to a configuration provider, and rotate it: it is exposed",
        )


@broker_rule("KKS809", ERROR, STRICT)
def anonymous_super_user(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Every client, or every one without a name, is a super user.

    Why: super users pass all ACLs. User:ANONYMOUS is every client of a PLAINTEXT listener.
    Source: Kafka documentation, "Authorization and ACLs".

    Bad:
        brokers: [{id: 1, config: {super.users: "User:admin;User:ANONYMOUS"}}]

    Good:
        brokers: [{id: 1, config: {super.users: "User:admin"}}]
    """
    declared = broker.config.declared("super.users")
    found = ANYONE.intersection(u.strip() for u in declared.text.split(";")) if declared is not None else ()
    if found:
        yield Violation(message=f"{', '.join(sorted(found))} may do everything", key="super.users")


@broker_rule("KKS810", ERROR, CORE)
def unroutable_advertised(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker tells its clients to connect to 0.0.0.0.

    Why: a broker refuses to start: "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0". Without
    advertised.listeners the addresses of `listeners` are the advertised ones.
    Source: Kafka, `KafkaConfig.validateValues`.

    Bad:
        brokers: [{id: 1, config: {listeners: "SSL://0.0.0.0:9093"}}]

    Good:
        brokers: [{id: 1, config: {listeners: "SSL://0.0.0.0:9093", advertised.listeners: "SSL://kafka-1:9093"}}]
    """
    config = broker.config.given()
    is_explicit = bool(config.text("advertised.listeners"))
    if not (is_explicit or broker.is_broker):
        return
    key = "advertised.listeners" if is_explicit else "listeners"
    # What is not advertised by itself is advertised as it listens, but for the controllers' listeners.
    left_out = () if is_explicit else {name.upper() for name in config.items("controller.listener.names")}
    for listener in listeners_of(config, key):
        if listener.host == "0.0.0.0" and listener.name.upper() not in left_out:
            yield Violation(
                message=f"listener {listener.name} is advertised as 0.0.0.0, which no client can connect to: "
                "the broker does not start",
                key=key,
                expected="a name or address that clients reach",
                subject=listener.name,
                refused=True,
            )


@broker_rule("KKS812", ERROR, CORE)
def withdrawn_authorizer(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The authorizer's class is not part of this version any more, or not of the one to upgrade to.

    Why: the node cannot load it and does not start. SimpleAclAuthorizer left with Kafka 3.0, AclAuthorizer, which
    kept its rules in ZooKeeper, with 4.0.
    Source: Kafka documentation, "Upgrading to 3.0", "Upgrading to 4.0".

    Bad:
        version: "4.0"
        brokers: [{id: 1, config: {authorizer.class.name: kafka.security.authorizer.AclAuthorizer}}]

    Good:
        version: "4.0"
        config: {authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer}
        brokers: [{id: 1}]
    """
    key = "authorizer.class.name"
    declared = broker.config.declared(key)
    gone = WITHDRAWN_AUTHORIZERS.get(declared.text.strip()) if declared is not None else None
    if gone is None:
        return
    for table, verb in ((cluster.table, "does"), (cluster.target, "will")):
        if table is not None and minor_key(table.version) >= minor_key(gone):
            yield Violation(
                message=f"Kafka {gone} and later do not have this authorizer: the node {verb} not start",
                key=key,
                expected="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            )
            return


@broker_rule("KKS813", ERROR, CORE, fix=Fix.UNSAFE)
def super_users_with_commas(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Super users are separated by commas instead of semicolons.

    Why: names of users may contain commas, so super.users is split at semicolons: "User:a,User:b" is one user with a
    strange name, and neither a nor b is a super user.
    Source: Kafka documentation, "Authorization and ACLs", `super.users`.

    Bad:
        brokers: [{id: 1, config: {super.users: "User:a,User:b"}}]

    Good:
        brokers: [{id: 1, config: {super.users: "User:a;User:b"}}]
    """
    declared = broker.config.declared("super.users")
    if declared is not None and _COMMA_BEFORE_USER.search(declared.text):
        wanted = _COMMA_BEFORE_USER.sub(";User:", declared.text)
        yield set_to("super.users", wanted, "users are separated by semicolons: with commas they are a single name")


@broker_rule("KKS814", WARNING, CORE)
def tls_without_certificate(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A TLS listener has no certificate of its own.

    Why: without a key store or a certificate the broker has nothing to show, and every connection fails at the
    handshake, unless the cluster's dynamic configuration brings one. Only files that a node starts with are looked at.
    Source: Kafka documentation, "Encryption and Authentication using SSL", `ssl.keystore.location`.

    Bad:
        --- server.properties
        process.roles=broker
        node.id=1
        listeners=SSL://:9093
        security.inter.broker.protocol=SSL

    Good:
        --- server.properties
        process.roles=broker
        node.id=1
        listeners=SSL://:9093
        security.inter.broker.protocol=SSL
        ssl.keystore.location=/etc/kafka/broker.p12
    """
    config = broker.config
    if not config.is_whole:
        return
    without = [
        listener
        for listener in listeners_of(config)
        if listener.protocol in ("SSL", "SASL_SSL")
        and not any(listener_text(config, listener.name, key).strip() for key in CERTIFICATES)
    ]
    if without:
        yield Violation(
            message=f"{_names(without)} {'has' if len(without) == 1 else 'have'} no certificate: unless the dynamic "
            "configuration brings one, no client can connect",
            key="listeners",
            expected="ssl.keystore.location, or ssl.keystore.certificate.chain",
        )


@broker_rule("KKS815", WARNING, CORE)
def advertised_loopback(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A listener of all interfaces is advertised as the machine itself (production).

    Why: clients on other machines, and other brokers, connect, are told `localhost`, and then look for the broker on
    their own machine.
    Source: Kafka documentation, `advertised.listeners`.

    Bad:
        brokers: [{id: 1, config: {listeners: "SSL://:9093", advertised.listeners: "SSL://localhost:9093"}}]

    Good:
        brokers: [{id: 1, config: {listeners: "SSL://:9093", advertised.listeners: "SSL://kafka-1:9093"}}]
    """
    if not cluster.is_prod or broker.config.declared("advertised.listeners") is None:
        return
    open_ = {x.name.upper() for x in listeners_of(broker.config) if not x.is_loopback}
    lost = [x for x in listeners_of(broker.config, "advertised.listeners") if x.is_loopback and x.name.upper() in open_]
    if lost:
        yield Violation(
            message=f"{_names(lost)} {'is' if len(lost) == 1 else 'are'} advertised as this machine: clients on others "
            "cannot connect",
            key="advertised.listeners",
            expected="a name that clients resolve",
        )


@broker_rule("KKS811", ERROR, STRICT, fix=Fix.UNSAFE)
def legacy_tls(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A version of TLS is enabled that is broken or withdrawn.

    Why: SSLv3, TLS 1.0 and TLS 1.1 are prohibited (RFC 7568, RFC 8996): known attacks read what they protect.
    Source: RFC 8996; Kafka documentation, `ssl.enabled.protocols`.

    Bad:
        brokers: [{id: 1, config: {ssl.enabled.protocols: "TLSv1.1,TLSv1.2"}}]

    Good:
        brokers: [{id: 1, config: {ssl.enabled.protocols: "TLSv1.2,TLSv1.3"}}]
    """
    for key, declared in _forms_of(broker.config, "ssl.enabled.protocols"):
        items = to_items(declared.text)
        legacy = [item for item in items if item in LEGACY_TLS]
        if legacy:
            kept = ",".join(item for item in items if item not in LEGACY_TLS) or "TLSv1.2,TLSv1.3"
            yield set_to(key, kept, f"{', '.join(legacy)} {'is' if len(legacy) == 1 else 'are'} enabled")


def _forms_of(config: BrokerConfig, key: str) -> Iterator[tuple[str, DeclaredValue]]:
    """The effective value of a key, and of each of its forms for a listener, where they are set."""
    names = {name: None for name, _ in config.all_declared() if name == key or _is_form(name, key)}
    for name in names:
        declared = config.declared(name)
        if declared is not None:
            yield name, declared


def _is_form(name: str, key: str) -> bool:
    return name.startswith("listener.name.") and name.endswith(f".{key}")


def _is_secret(config: BrokerConfig, key: str) -> bool:
    if is_secret_key(key):
        return True
    definition = config.table.broker.get(key)
    # Certificates are of Kafka's type PASSWORD, but public.
    return definition is not None and definition.type is ValueType.PASSWORD and "certificate" not in key


def _names(listeners: list[Listener]) -> str:
    named = [f"{x.name}://{x.host}:{x.port}" for x in listeners]
    return f"listener{'' if len(named) == 1 else 's'} {shorten(named)}"
