"""Random KRaft nodes: sound ones of each role with up to two settings changed or left out."""

from collections.abc import Mapping
from random import Random

LISTENERS = "listener.security.protocol.map"
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
_CHANGES: Mapping[str, tuple[str | None, ...]] = {
    "node.id": ("1", "2", "4"),
    "controller.quorum.voters": ("4@d:9093", "9@c:9093", "1@a:9093,4@d:9093", None),
    "controller.quorum.bootstrap.servers": ("a:9093,b:9093",),
    "controller.listener.names": ("CTL", "controller", "CONTROLLER,CTL", "CONTROLLER,OTHER", "SSL", None),
    "listeners": (
        "PLAINTEXT://:9092",
        "CONTROLLER://:9093",
        "PLAINTEXT://:9092,CONTROLLER://:9093",
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
        "PLAINTEXT://b:9092",
        "SSL://b:9094",
        "PLAINTEXT://b:9092,SSL://b:9094",
        "PLAINTEXT://b:9092,CONTROLLER://c:9093",
        "PLAINTEXT://0.0.0.0:9092",
        "PLAINTEXT://b:9092,CONTROLLER://0.0.0.0:9093",
    ),
    "inter.broker.listener.name": ("PLAINTEXT", "SSL", "CONTROLLER", "PEERS", "ssl"),
    "security.inter.broker.protocol": ("SSL",),
    "sasl.mechanism.inter.broker.protocol": ("PLAIN",),
    "sasl.enabled.mechanisms": ("PLAIN", "GSSAPI,PLAIN"),
}


def random_nodes(number: int, random: Random) -> list[dict[str, str]]:
    """Configurations of nodes, about half of which start."""
    found = []
    for _ in range(number):
        node = {**_COMMON, **random.choice(_SOUND)}
        for key in random.sample(sorted(_CHANGES), random.randint(0, 2)):
            value = random.choice(_CHANGES[key])
            node.pop(key, None)
            node |= {key: value} if value is not None else {}
        if "inter.broker.listener.name" in node:  # KKS804 and others are about both together
            node.pop("security.inter.broker.protocol", None)
        found.append(node)
    return found
