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
TLS = "listener.security.protocol.map: 'SSL:SSL,CONTROLLER:SSL'"
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
    *(
        ("KKQ854", node(BROKER + f", inter.broker.protocol.version: '{old}'", head=f'version: "{version}"\n'), mark)
        for version, old, mark in (("3.9", "3.2", "W"), ("3.9", "3.3-IV0", ""), ("3.9", "2.8", "E"), ("4.0", "3.2", ""))
    ),
    ("KKQ860", twins("b1", "b1"), ""),
    ("KKQ860", twins("b1", "b2"), "E"),
    ("KKQ860", twins("b1", "b2").replace("id: 1, config: {adv", "id: 2, config: {adv", 1), ""),
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
    ("KKQ854", node(BROKER, changed=("'PLAINTEXT://:9092'", f"'SSL://:9092', {TLS}")), "E"),
    ("KKQ854", node(BROKER, changed=("'PLAINTEXT://:9092'", "'SSL://:9092', inter.broker.listener.name: ssl")), "E"),
    (
        "KKQ854",
        node(BROKER, changed=("'PLAINTEXT://:9092'", f"'SSL://:9092', inter.broker.listener.name: ssl, {TLS}")),
        "",
    ),
    (
        "KKQ854",
        node(BROKER, changed=("'PLAINTEXT://:9092'", f"'SSL://:9092', security.inter.broker.protocol: SSL, {TLS}")),
        "",
    ),
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
    ("KKQ855", node("inter.broker.protocol.version: '3.9', zookeeper.session.timeout.ms: '1'"), ""),
    (
        "KKQ855",
        node("inter.broker.protocol.version: '3.9', zookeeper.session.timeout.ms: '1'", head='version: "4.0"\n'),
        "EE",
    ),
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


SOUND = """process.roles=broker
node.id=4
controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=PEERS:SSL,CONTROLLER:SSL
listeners=PEERS://:9092
advertised.listeners=PEERS://b4:9092
inter.broker.listener.name=PEERS
ssl.keystore.location=/k
log.dirs=/data
"""


AT_ROOT = "metadata.log.dir is empty: the node's metadata are kept in the root of the file system"
NO_SUCH_DIR = "cordoned.log.dirs has /d2, which log.dirs does not have: the broker does not start"
EVERY_AND_ONE = "cordoned.log.dirs has * beside other directories: the broker does not start"
NO_ROLES = "process.roles is not set: the node does not start"


def changed(before: str, after: str) -> dict[str, str]:
    assert before in SOUND
    return {"server.properties": SOUND.replace(before, after)}


@pytest.mark.parametrize(
    ("code", "files", "messages"),
    [
        ("KKQ859", changed("", ""), []),
        ("KKQ859", changed("node.id=4\n", ""), ["node.id is not set: the node does not start"]),
        ("KKQ859", changed("node.id=4\n", "broker.id=4\n"), []),
        ("KKQ859", changed("process.roles=broker\n", ""), ["process.roles is not set: the node does not start"]),
        ("KKQ859", {"x.yaml": "brokers: [{id: 1, config: {log.dirs: /data}}]"}, []),
        ("KKQ859", {"broker-common.properties": "log.dirs=/data\nnum.network.threads=3\n"}, []),
        ("KKQ859", {"server.properties.j2": "node.id={{ id }}\nlog.dirs=/data\n{{ more }}\n"}, []),
        ("KKQ859", {"server.properties": "node.id=1\nlog.dirs=/data\nssl.key.password=${file:/s:p}\n"}, [NO_ROLES]),
        ("KKQ859", changed("log.dirs", "metadata.log.dir=\nlog.dirs"), [AT_ROOT]),
        ("KKQ859", changed("log.dirs", "metadata.log.dir=/m\nlog.dirs"), []),
        ("KKQ859", changed("log.dirs", "cordoned.log.dirs=/data\nlog.dirs"), []),
        ("KKQ859", changed("log.dirs", "cordoned.log.dirs=*\nlog.dirs"), []),
        ("KKQ859", changed("log.dirs", "cordoned.log.dirs=${CORDONED}\nlog.dirs"), []),
        ("KKQ859", changed("log.dirs", "cordoned.log.dirs=/data,/d2\nlog.dirs"), [NO_SUCH_DIR]),
        ("KKQ859", changed("log.dirs", "cordoned.log.dirs=*,/data\nlog.dirs"), [EVERY_AND_ONE]),
        ("KKQ859", {"x.yaml": "brokers: [{id: 1, config: {cordoned.log.dirs: /data, process.roles: broker}}]"}, []),
        ("KKQ854", changed("PEERS:SSL,", "PEERS:TLS,"), ["TLS is not a security protocol: the node does not start"]),
        (
            "KKQ854",
            changed("log.dirs", "security.inter.broker.protocol=SSL\nlog.dirs"),
            [
                "both inter.broker.listener.name and security.inter.broker.protocol are set, "
                "but only one of them may be: the node does not start"
            ],
        ),
        ("KKS814", changed("", ""), []),
        (
            "KKS814",
            changed("ssl.keystore.location=/k\n", ""),
            [
                "listener PEERS://:9092 has no certificate: unless the dynamic configuration brings one, "
                "no client can connect"
            ],
        ),
        ("KKS814", changed("ssl.keystore.location", "listener.name.peers.ssl.keystore.location"), []),
        (
            "KKS815",
            changed("b4:9092", "localhost:9092"),
            ["listener PEERS://localhost:9092 is advertised as this machine: clients on others cannot connect"],
        ),
        ("KKS815", {"server.properties": SOUND.replace("b4:", "[::1]:").replace("//:9092", "//127.0.0.1:9092")}, []),
    ],
)
def test_what_a_node_does_not_start_with(code: str, files: dict[str, str], messages: list[str]) -> None:
    assert [f.message for f in findings(code, files)] == messages


def test_a_voter_listens_at_the_port_that_the_others_know() -> None:
    found = findings("KKQ854", node(CONTROLLER, changed=("CONTROLLER://:9093", "CONTROLLER://:9095")))
    assert [(f.severity.value, f.message.partition(" of this")[0]) for f in found] == [
        ("warning", "controller.quorum.voters sends the other nodes to port 9093")
    ]


@pytest.mark.parametrize(
    ("version", "target", "name", "found"),
    [
        ("3.9", None, "kafka.security.authorizer.AclAuthorizer", ""),
        ("3.9", "4.0", "kafka.security.authorizer.AclAuthorizer", "E"),
        ("4.0", None, "kafka.security.authorizer.AclAuthorizer", "E"),
        ("3.9", None, "kafka.security.auth.SimpleAclAuthorizer", "E"),
        ("4.4", None, "org.apache.kafka.metadata.authorizer.StandardAuthorizer", ""),
    ],
)
def test_authorizers_of_the_past(version: str, target: str | None, name: str, found: str) -> None:
    head = f'version: "{version}"\n'
    assert marks("KKS812", node(f"authorizer.class.name: {name}", head=head), target=target) == found


@pytest.mark.parametrize(
    ("users", "wanted"),
    [
        ("User:a,User:b", "User:a;User:b"),
        ("User:a;User:b", None),
        ("User:CN=a,O=b", None),
        ("User:CN=a,O=b, User:c", "User:CN=a,O=b;User:c"),
    ],
)
def test_super_users_are_separated_by_semicolons(users: str, wanted: str | None) -> None:
    found = findings("KKS813", node(f"super.users: '{users}'"))
    assert [f.setting.expected for f in found if f.setting] == ([wanted] if wanted else [])
