"""Rules of KRaft at their boundaries."""

import pytest

from tests.rigs.rule_cases import SKIPPED, findings, marks

THREE = '"1@a:9093,2@b:9093,3@c:9093"'
CONTROLLER = (
    "process.roles: controller, node.id: '1', listeners: 'CONTROLLER://:9093', controller.listener.names: CONTROLLER, "
    f"controller.quorum.voters: {THREE}"
)
BROKER = (
    "process.roles: broker, node.id: '4', listeners: 'PLAINTEXT://:9092', controller.listener.names: CONTROLLER, "
    f"controller.quorum.voters: {THREE}"
)
COMBINED = (
    "process.roles: 'broker,controller', node.id: '1', listeners: 'PLAINTEXT://:9092,CONTROLLER://:9093', "
    f"controller.listener.names: CONTROLLER, controller.quorum.voters: {THREE}"
)


def node(config: str, *, changed: tuple[str, str] = ("", ""), head: str = "") -> str:
    assert changed[0] in config
    return f"{head}brokers: [{{id: 1, config: {{{config.replace(*changed)}}}}}]"


def voters(number: int) -> str:
    return ",".join(f"{n}@h{n}:9093" for n in range(number))


def listed(number: int, more: str = "") -> str:
    return f"brokers: [{', '.join(f'{{id: {n}, roles: [controller]{more}}}' for n in range(number))}]"


def twins(one: str, other: str) -> str:
    hosts = (f"{{id: 1, config: {{advertised.listeners: 'SSL://{host}:9092'}}}}" for host in (one, other))
    return f"brokers: [{', '.join(hosts)}]"


CASES = [
    *(("KKQ851", node(f"controller.quorum.voters: '{voters(n)}'"), "" if n % 2 else "W") for n in (1, 2, 3, 4, 5)),
    ("KKQ851", listed(3), ""),
    ("KKQ851", listed(4), "W"),
    ("KKQ851", listed(1, ", config: {controller.quorum.bootstrap.servers: 'a:1,b:1,c:1'}"), SKIPPED),
    ("KKQ851", "brokers: [{id: 1}]", SKIPPED),
    ("KKQ851", node("zookeeper.connect: 'zk:2181'", head='version: "3.9"\n'), ""),
    ("KKQ852", node(f"controller.quorum.voters: '{voters(1)}'"), "W"),
    ("KKQ852", node(f"controller.quorum.voters: '{voters(2)}'"), ""),
    ("KKQ852", node(f"controller.quorum.voters: '{voters(1)}'", head="env: dev\n"), ""),
    ("KKQ852", node("controller.quorum.voters: '${VOTERS}'"), SKIPPED),
    ("KKQ854", node(BROKER, changed=("'PLAINTEXT://:9092'", "'{{ listeners }}'")), SKIPPED),
    ("KKQ854", node(BROKER, changed=("process.roles: broker", "process.roles: '${ROLES}'")), SKIPPED),
    ("KKQ859", twins("b1", "b1"), ""),
    ("KKQ859", twins("b1", "b2"), "E"),
    ("KKQ859", twins("b1", "b2").replace("id: 1, config: {adv", "id: 2, config: {adv", 1), ""),
    ("KKQ853", node(COMBINED), "W"),
    ("KKQ853", "brokers: [{id: 1, roles: [broker, controller]}]", "W"),
    ("KKQ853", node(BROKER), ""),
    ("KKQ853", node(COMBINED, head="env: staging\n"), ""),
    ("KKQ854", node(CONTROLLER), ""),
    ("KKQ854", node(BROKER), ""),
    ("KKQ854", node(COMBINED), ""),
    ("KKQ854", node("node.id: '1'"), ""),
    ("KKQ854", node(CONTROLLER, changed=("node.id: '1'", "node.id: '7'")), "E"),
    ("KKQ854", node(BROKER, changed=("node.id: '4'", "node.id: '3'")), "E"),
    ("KKQ854", node(BROKER, changed=(f"controller.quorum.voters: {THREE}", "num.io.threads: '8'")), "E"),
    (
        "KKQ854",
        node(BROKER, changed=(f"voters: {THREE}", "bootstrap.servers: 'a:9093'")),
        "",
    ),
    ("KKQ854", node(BROKER, changed=("controller.listener.names: CONTROLLER, ", "")), "E"),
    ("KKQ854", node(BROKER, changed=("PLAINTEXT://:9092", "PLAINTEXT://:9092,CONTROLLER://:9093")), "E"),
    ("KKQ854", node(CONTROLLER, changed=("CONTROLLER://:9093", "PLAINTEXT://:9093")), "EE"),
    ("KKQ854", node(CONTROLLER, changed=("CONTROLLER://:9093", "CONTROLLER://:9093,PLAINTEXT://:9092")), "E"),
    ("KKQ854", node(COMBINED, changed=("CONTROLLER://:9093", "OTHER://:9093")), "EE"),
    ("KKQ854", node(BROKER, changed=("PLAINTEXT://:9092", "SSL://:9092")), "E"),
    ("KKQ854", node(BROKER, changed=("'PLAINTEXT://:9092'", "'SSL://:9092', inter.broker.listener.name: ssl")), ""),
    ("KKQ854", node(BROKER, changed=("'PLAINTEXT://:9092'", "'SSL://:9092', security.inter.broker.protocol: SSL")), ""),
    (
        "KKQ854",
        node(BROKER, changed=("'PLAINTEXT://:9092'", "'PLAINTEXT://:9092', advertised.listeners: 'PLAINTEXT://b:1'")),
        "",
    ),
    (
        "KKQ854",
        node(
            BROKER,
            changed=("'PLAINTEXT://:9092'", "'PLAINTEXT://:9092', advertised.listeners: 'PLAINTEXT://b:1,SSL://b:2'"),
        ),
        "E",
    ),
    ("KKQ855", node("zookeeper.connect: 'zk:2181'", head='version: "4.0"\n'), "E"),
    ("KKQ855", node("zookeeper.connect: 'zk:2181'", head='version: "3.9"\n'), ""),
    ("KKQ855", node("inter.broker.protocol.version: '3.9', zookeeper.session.timeout.ms: '1'"), "EE"),
    ("KKQ855", node(BROKER), ""),
    ("KKQ856", "broker_count: 3\nobserved: {metadata_behind_days: 14}", ""),
    ("KKQ856", "broker_count: 3\nobserved: {metadata_behind_days: 14.5}", "W"),
    ("KKQ856", "broker_count: 3", SKIPPED),
    ("KKQ857", node("process.roles: broker, log.dirs: '/a,/b'"), "N"),
    ("KKQ857", node("process.roles: broker, log.dirs: '/a'"), ""),
    ("KKQ857", node("process.roles: broker, log.dirs: '/a,/b', metadata.log.dir: /m"), ""),
    ("KKQ857", "brokers: [{id: 1}]", SKIPPED),
    ("KKQ858", "brokers: [{config: {node.id: '1', broker.id: '2'}}]", "E"),
    ("KKQ858", "brokers: [{config: {node.id: '1', broker.id: '-1'}}]", "E"),
    ("KKQ858", "brokers: [{config: {node.id: '1', broker.id: '01'}}]", ""),
    ("KKQ858", "brokers: [{config: {broker.id: '2'}}]", ""),
]


@pytest.mark.parametrize(("code", "text", "expected"), CASES)
def test_kraft_at_its_boundaries(code: str, text: str, expected: str) -> None:
    assert marks(code, text) == expected


def test_leftovers_break_an_upgrade_to_4_0() -> None:
    assert marks("KKQ855", node("zookeeper.connect: 'zk:2181'", head='version: "3.9"\n'), target="4.0") == "E"


def test_the_message_about_four_controllers_compares_with_three() -> None:
    (found,) = findings("KKQ851", listed(4))
    assert found.message == "4 controllers tolerate 1 failure, exactly like 3"
