"""A mapping that grows by new versions, each of which shares nearly all of its memory with the one before it."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Layers(Mapping[K, V]):
    """An immutable mapping; adding n entries one after the other costs O(n log n) in all, a look-up O(log n).

    The newest layer wins. Layers are merged when a newer one has grown to half of the older one's size, so that there
    are few of them, each at least twice as large as the next.
    """

    __slots__ = ("_layers",)

    def __init__(self, layers: tuple[dict[K, V], ...] = ()) -> None:
        self._layers = layers

    def plus(self, more: Mapping[K, V]) -> "Layers[K, V]":
        """A new mapping with these entries added or replaced."""
        if not more:
            return self
        layers = [*self._layers, dict(more)]
        while len(layers) > 1 and len(layers[-2]) <= 2 * len(layers[-1]):
            newer = layers.pop()
            layers[-1] = layers[-1] | newer
        return Layers(tuple(layers))

    def __getitem__(self, key: K) -> V:
        for layer in reversed(self._layers):
            if key in layer:
                return layer[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def __bool__(self) -> bool:
        return bool(self._layers)

    def __repr__(self) -> str:
        return f"Layers({self._whole()!r})"

    def _whole(self) -> dict[K, V]:
        whole: dict[K, V] = {}
        for layer in self._layers:
            whole |= layer
        return whole
