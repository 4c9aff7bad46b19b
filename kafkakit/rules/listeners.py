"""Listeners of a broker: names, addresses and security protocols, as `listeners` and its map give them."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.rules.effective import BrokerConfig, to_items

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOOPBACK = ("localhost", "::1", "0:0:0:0:0:0:0:1")


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener; `host` is empty for all interfaces, `protocol` where neither map nor name tell it."""

    name: str
    host: str
    port: str
    protocol: str

    @property
    def is_loopback(self) -> bool:
        """True when only processes of the same machine can connect."""
        return self.host.lower() in LOOPBACK or self.host.startswith("127.")

    @property
    def is_plain(self) -> bool:
        """True when what passes is not encrypted."""
        return self.protocol in ("PLAINTEXT", "SASL_PLAINTEXT")


def listeners_of(config: BrokerConfig, key: str = "listeners") -> tuple[Listener, ...]:
    """The listeners in a key's value; entries that are none (KKV002) are left out."""
    protocols = protocol_map(config)
    found = []
    for item in config.items(key):
        name, separator, address = item.partition("://")
        if separator:
            host, _, port = address.rpartition(":")
            own = name.upper() if name.upper() in PROTOCOLS else ""
            found.append(Listener(name, host.strip("[]"), port, protocols.get(name.upper(), own)))
    return tuple(found)


def protocol_map(config: BrokerConfig) -> Mapping[str, str]:
    """The security protocol of each listener name, in capitals.

    Where the map is not set, names that are protocols stand for themselves, and controller listeners are PLAINTEXT.
    """
    found: dict[str, str] = {}
    if config.declared("listener.security.protocol.map") is None:
        found.update({name: name for name in PROTOCOLS})
        found.update({name.upper(): "PLAINTEXT" for name in config.items("controller.listener.names")})
    for item in config.items("listener.security.protocol.map"):
        name, separator, protocol = item.partition(":")
        if separator:
            found[name.strip().upper()] = protocol.strip().upper()
    return found


def inter_broker_protocol(config: BrokerConfig) -> str:
    """The security protocol between brokers."""
    name = config.text("inter.broker.listener.name")
    return protocol_map(config).get(name.upper(), "") if name else config.text("security.inter.broker.protocol")


def listener_text(config: BrokerConfig, listener: str, key: str) -> str:
    """A key's value for one listener: its `listener.name.` form, else the general one."""
    own = config.declared(f"listener.name.{listener.lower()}.{key}")
    return own.text if own is not None else config.text(key)


def listener_items(config: BrokerConfig, listener: str, key: str) -> tuple[str, ...]:
    """As `listener_text`, as a list."""
    return to_items(listener_text(config, listener, key))
