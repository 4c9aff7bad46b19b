"""Random nodes: sound ones of each role, or of ZooKeeper, with up to three settings changed, added or left out."""

from collections.abc import Mapping
from random import Random

from kafkakit.rules.config_defs import WITHOUT_ZOOKEEPER, ConfigTable, minor_key
from tests.rigs.lint_random import random_static

KRAFT = (3, 3)
"""The first version whose KRaft was for production."""
DYNAMIC_QUORUM = (3, 9)
LISTENERS, VOTERS = "listener.security.protocol.map", "controller.quorum.voters"
_COMMON = {LISTENERS: "PLAINTEXT:PLAINTEXT,SSL:SSL,PEERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT,CTL:PLAINTEXT"}
_SOUND = (
    {
        "process.roles": "broker",
        "node.id": "4",
        "controller.quorum.voters": "1@a:9093,2@b:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092",
    },
    {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.voters": "1@a:9093,2@b:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://:9093",
    },
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@a:9093,2@b:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    },
)
_OF_ZOOKEEPER = (
    {"zookeeper.connect": "zk:2181", "broker.id": "1", "listeners": "PLAINTEXT://:9092"},
    {"zookeeper.connect": "zk:2181", "log.dirs": "/a,/b"},
)
_CHANGES: Mapping[str, tuple[str | None, ...]] = {
    "process.roles": (None, "broker", "controller", "controller,broker", "broker,broker", "brokers", "Broker"),
    "node.id": ("1", "2", "4", "-1", "x", "", None),
    "broker.id": ("1", "4", "9", "-1", "1001"),
    "reserved.broker.max.id": ("0", "2000"),
    "broker.id.generation.enable": ("false",),
    "zookeeper.connect": ("zk:2181",),
    "controller.quorum.voters": (
        "4@d:9093",
        "9@c:9093",
        "1@a:9093,4@d:9093",
        "1@a",
        "1@a:x",
        "x@a:9093",
        "1@a:9093,1@b:9093",
        "1@0.0.0.0:0",
        "-1@a:9093",
        "a:9093",
        "",
        None,
    ),
    "controller.quorum.bootstrap.servers": ("a:9093,b:9093", "a", "a:x", ""),
    "controller.listener.names": ("CTL", "controller", "CONTROLLER,CTL", "CONTROLLER,OTHER", "SSL", "", None),
    LISTENERS: (
        None,
        "",
        "PLAINTEXT:PLAINTEXT",
        "PLAINTEXT:PLAINTEXT,CONTROLLER:TLS",
        "PLAINTEXT:TLS,CONTROLLER:PLAINTEXT",
        "PLAINTEXT:plaintext,controller:ssl",
        "PLAINTEXT:PLAINTEXT,PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "PLAINTEXT,CONTROLLER:PLAINTEXT",
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SPARE:TLS",
        " PLAINTEXT : SSL , CONTROLLER : SSL ",
        "PLAINTEXT:PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT, , ",
        ",PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "PLAINTEXT:PLAINTEXT,,CONTROLLER:PLAINTEXT",
    ),
    "listeners": (
        "PLAINTEXT://:9092",
        "CONTROLLER://:9093",
        "PLAINTEXT://:9092,CONTROLLER://:9093",
        "PLAINTEXT://:9092,CONTROLLER://:9092",
        "PLAINTEXT://:9092,PLAINTEXT://:9093",
        "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092",
        "PLAINTEXT://:0,CONTROLLER://:0",
        "PLAINTEXT://:99999",
        "PLAINTEXT://:-1",
        "PLAINTEXT://a",
        "PLAINTEXT",
        "PLAINTEXT://:9092,",
        "",
        "://:9092",
        "SSL://:9094",
        "SSL://:9094,PLAINTEXT://:9092",
        "ssl://:9094,plaintext://:9092",
        "PLAINTEXT://:9092,CTL://:9095",
        "PLAINTEXT://:9092,PEERS://:9096",
        "PLAINTEXT://0.0.0.0:9092",
        "CONTROLLER://0.0.0.0:9093",
        None,
    ),
    "advertised.listeners": (
        "",
        "PLAINTEXT://b:9092",
        "SSL://b:9094",
        "PLAINTEXT://b:9092,SSL://b:9094",
        "PLAINTEXT://b:9092,SSL://b:9092",
        "PLAINTEXT://b:9092,PLAINTEXT://c:9092",
        "PLAINTEXT://b:9092,CONTROLLER://c:9093",
        "PLAINTEXT://0.0.0.0:9092",
        "PLAINTEXT://b:9092,CONTROLLER://0.0.0.0:9093",
        "PLAINTEXT://b",
        "b:9092",
    ),
    "inter.broker.listener.name": ("PLAINTEXT", "SSL", "CONTROLLER", "PEERS", "ssl", ""),
    "security.inter.broker.protocol": ("SSL", "TLS", "PLAINTEXT", "SASL_PLAINTEXT", "ssl", ""),
    "sasl.mechanism.inter.broker.protocol": ("PLAIN", ""),
    "sasl.mechanism.controller.protocol": ("PLAIN",),
    "sasl.enabled.mechanisms": ("PLAIN", "GSSAPI,PLAIN", ""),
    "early.start.listeners": ("CONTROLLER", "PLAINTEXT", "OTHER", ""),
    "control.plane.listener.name": ("PLAINTEXT", "CTL"),
    "log.dirs": ("", "/a,/a", "/a,", " "),
    "log.dir": ("",),
    "metadata.log.dir": ("", "/m"),
    "advertised.host.name": ("b",),
    "port": ("9092",),
    "inter.broker.protocol.version": ("3.9", "3.3", "4.0", "1.0", "x"),
    "max.connections.per.ip.overrides": ("a:1,", "a:1 , , ", "a:1,,b:2", ",a:1", "a:x", " , ", "a:1 , b:2", ""),
    "super.users": ("User:a,User:b",),
    "authorizer.class.name": ("",),
    "principal.builder.class": ("",),
}
_OF_KRAFT = frozenset(
    {
        "process.roles",
        "node.id",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
        "early.start.listeners",
        "metadata.log.dir",
        "sasl.mechanism.controller.protocol",
    }
)


def random_nodes(table: ConfigTable, number: int, random: Random) -> list[dict[str, str]]:
    """Configurations of nodes, about half of which start; with ZooKeeper alone before KRaft was meant for use."""
    minor = minor_key(table.version)
    sound = (*(_SOUND if minor >= KRAFT else ()), *(_OF_ZOOKEEPER if minor < WITHOUT_ZOOKEEPER else ()))
    found = []
    for _ in range(number):
        node = {**_COMMON, **random.choice(sound)}
        changed = [key for key in sorted(_CHANGES) if minor >= KRAFT or key not in _OF_KRAFT]
        for key in random.sample(changed, random.choice((0, 1, 1, 2, 3))):
            value = random.choice(_CHANGES[key])
            node.pop(key, None)
            node |= {key: value} if value is not None else {}
        if random.random() < 0.2:
            node |= random_static(table, 1, random)[0]
        found.append(node)
    return found


_DIRS: Mapping[str, tuple[str | None, ...]] = {
    "log.dirs": (None, "", " ", ",", "{0}/a,{0}/b", "{0}/a,{0}/a", "{0}/a,", ",{0}/a", "{0}/a, {0}/b", "data"),
    "log.dir": (None, "", "{0}/c,{0}/d", "{0}/c,"),
    "metadata.log.dir": ("{0}/m", "{0}/a", "{0}/a,{0}/m", "meta"),
    "inter.broker.protocol.version": ("2.8", "3.0", "3.2-IV0", "3.3", "3.7-IV4", "3.9", "4.0", "4.4", "5.0", "x", ""),
    "unstable.feature.versions.enable": ("true",),
    "cordoned.log.dirs": ("{0}/a", "{0}/a/", "{0}/c", "{0}/a,{0}/a", "*", "*,*", "*,{0}/a", ""),
}


def random_storage(table: ConfigTable, number: int, random: Random, folder: str) -> list[tuple[bool, dict[str, str]]]:
    """Nodes of KRaft with directories below a folder, each with whether it is to be formatted as the only controller.

    Voters are named as in `random_nodes`, or else found by bootstrap servers, where a version has them. No directory is
    empty: the tool takes that for the root of the file system.
    """
    found = []
    for random_node in random_nodes(table, number, random):
        if "process.roles" not in random_node and minor_key(table.version) < WITHOUT_ZOOKEEPER:
            continue  # one of ZooKeeper, which has nothing to format
        node = {key: value for key, value in random_node.items() if key not in _DIRS}
        node |= {"log.dirs": f"{folder}/a", "log.dir": f"{folder}/c"}
        if minor_key(table.version) >= DYNAMIC_QUORUM and random.random() < 0.5:
            node.pop(VOTERS, None)
            node |= {"controller.quorum.bootstrap.servers": "a:9093,b:9093"}
        known = [key for key in sorted(_DIRS) if key != "cordoned.log.dirs" or key in table.broker]
        for key in random.sample(known, random.choice((0, 1, 1, 2))):
            value = random.choice(_DIRS[key])
            node.pop(key, None)
            node |= {key: value.format(folder)} if value is not None else {}
        if "log.dirs" not in node and "log.dir" not in node:
            node["log.dir"] = f"{folder}/c"  # the default is a folder outside
        is_alone = "controller" in node.get("process.roles", "") and not node.get(VOTERS)
        found.append((is_alone and minor_key(table.version) >= DYNAMIC_QUORUM, node))
    return found
