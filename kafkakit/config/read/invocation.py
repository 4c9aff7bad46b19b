"""What one invocation itself holds of the configuration: the command line, `--command-config`, the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkakit.config.keys import KEYS, Kind
from kafkakit.config.merge import Entry, Layer, Rank, parse_overrides
from kafkakit.config.read.files import read_properties_layer
from kafkakit.config.security import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkakit.config.read.settings import Given

_ADDRESS = "bootstrap_server"


def invocation_layers(given: Given, environment: Mapping[str, str], warn: Callable[[str], None]) -> list[Layer]:
    """What the command line, the file of `--command-config` and the environment hold."""
    layers = [
        _layer(Rank.FLAG, given.flags),
        _layer(Rank.OVERRIDE, {name: (value, f"-X {name}") for name, value in parse_overrides(given.overrides)}),
        _environment_layer(environment),
    ]
    if given.command_config is not None:
        layers.append(read_properties_layer(given.command_config, "--command-config", warn))
    return [_without_address(layer) for layer in layers] if given.without_address else layers


def names_address(layers: Iterable[Layer]) -> bool:
    """True when one of the layers says which Kafka cluster is meant."""
    return any(layer.entries[name].value for layer in layers for name in layer.entries if name == _ADDRESS)


def _without_address(layer: Layer) -> Layer:
    kept = {name: entry for name, entry in layer.entries.items() if name != _ADDRESS}
    return Layer(rank=layer.rank, entries=kept)


def _layer(rank: Rank, values: Mapping[str, tuple[str, str]]) -> Layer:
    entries = {name: Entry(value=value, origin=origin, rank=rank) for name, (value, origin) in values.items()}
    return Layer(rank=rank, entries=entries)


def _environment_layer(environment: Mapping[str, str]) -> Layer:
    entries: dict[str, Entry] = {}
    for key in KEYS:
        for variable in key.env:
            value = environment.get(variable, "")
            if value and key.name not in entries:
                shown = Secret(value) if key.kind is Kind.SECRET else value
                entries[key.name] = Entry(value=shown, origin=f"env {variable}", rank=Rank.ENVIRONMENT)
    return Layer(rank=Rank.ENVIRONMENT, entries=entries)
