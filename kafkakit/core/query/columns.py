"""What queries look at: objects as columns, so that a filter costs a few passes over arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kafkakit.core.query.nodes import Node, keys_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask: TypeAlias = NDArray[np.bool_]
    Codes: TypeAlias = NDArray[np.int64]

CONFIG = "config."
_DIGITS = 18  # fewer than 64 bits
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Texts: `codes[i]` is the place of object i's text in `values`, which are distinct; -1 where it has none."""

    codes: Codes
    values: tuple[str, ...]
    _wholes: list[NumberColumn] = field(default_factory=list, compare=False)

    @property
    def present(self) -> Mask:
        """Which objects have a value."""
        found: Mask = self.codes >= 0
        return found

    @property
    def wholes(self) -> NumberColumn:
        """The values that are whole numbers of up to 18 digits, one a value. Read once."""
        if not self._wholes:
            digits = (v.removeprefix("-") for v in self.values)
            whole = [d.isdecimal() and d.isascii() and len(d) <= _DIGITS for d in digits]
            self._wholes.append(number_column([int(v) if w else None for v, w in zip(self.values, whole, strict=True)]))
        return self._wholes[0]

    def value(self, row: int) -> str | None:
        """The text of an object."""
        code = int(self.codes[row])
        return self.values[code] if code >= 0 else None


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Whole numbers; those of objects that are not `present` mean nothing."""

    numbers: Codes
    present: Mask

    def value(self, row: int) -> str | None:
        """The number of an object as text."""
        return str(int(self.numbers[row])) if self.present[row] else None

    def as_text(self) -> TextColumn:
        """The numbers as texts."""
        import numpy as np

        found, codes = np.unique(self.numbers, return_inverse=True)
        return TextColumn(np.where(self.present, codes, -1), tuple(map(str, found.tolist())))


Column: TypeAlias = TextColumn | NumberColumn
Makers: TypeAlias = Mapping[str, Callable[[Sequence[Any]], Column]]
"""What makes the column of each attribute from the objects."""


def text_column(texts: Sequence[str | None]) -> TextColumn:
    """The column of these texts. O(objects)."""
    import numpy as np

    places: dict[str, int] = {}
    codes = [-1 if t is None else places.setdefault(t, len(places)) for t in texts]
    return TextColumn(np.array(codes, dtype=np.int64), tuple(places))


def number_column(numbers: Sequence[int | None]) -> NumberColumn:
    """The column of these numbers. O(objects)."""
    import numpy as np

    return NumberColumn(
        np.array([n or 0 for n in numbers], dtype=np.int64), np.array([n is not None for n in numbers], dtype=bool)
    )


def flag_column(flags: Sequence[bool | None]) -> TextColumn:
    """The column of `true` and `false`."""
    return text_column([None if f is None else "true" if f else "false" for f in flags])


@dataclass(frozen=True, slots=True)
class ObjectTable:
    """Objects of one kind: `names` in words, and `make`, which gives the column of an attribute or tag.

    None of `make` is a key that no object has. Columns are made on first use and kept.
    """

    names: tuple[str, ...]
    make: Callable[[str], Column | None]
    _made: dict[str, Column | None] = field(default_factory=dict, compare=False)

    def column(self, key: str) -> Column | None:
        """The column of a key; None where no object has it."""
        if key not in self._made:
            self._made[key] = self.make(key)
        return self._made[key]


NAMED: Makers = {
    "name": lambda topics: text_column([t.name for t in topics]),
    "internal": lambda topics: flag_column([t.name.startswith("__") for t in topics]),
}
"""Of whatever describes a topic."""
ADDRESSED: Makers = {
    "id": lambda brokers: number_column([b.id for b in brokers]),
    "host": lambda brokers: text_column([b.host or None for b in brokers]),
    "port": lambda brokers: number_column([b.port for b in brokers]),
    "rack": lambda brokers: text_column([b.rack or None for b in brokers]),
}
"""Of whatever describes a broker."""


def object_table(
    names: Sequence[str],
    objects: Sequence[T],
    own: Makers,
    tags: Callable[[T], Mapping[str, str]],
    configs: Callable[[T], Mapping[str, str]] | None = None,
) -> ObjectTable:
    """Objects with attributes (`own`), settings as `config.NAME` where they have any, and tags under other keys.

    O(objects) for each key that is used.
    """

    def column(key: str) -> Column | None:
        if key in own:
            return own[key](objects)
        if configs is not None and key.startswith(CONFIG):
            return tag_column([configs(each) for each in objects], key.removeprefix(CONFIG))
        return tag_column([tags(each) for each in objects], key)

    return ObjectTable(tuple(names), column)


def tag_keys(query: Node, own: Collection[str]) -> list[str]:
    """The keys of a query that are neither attributes (`own`) nor settings, so that tags must be known. Sorted."""
    return sorted(k for k in keys_of(query) if k not in own and not k.startswith(CONFIG))


def unknown_keys(query: Node, table: ObjectTable, own: Collection[str]) -> list[tuple[str, str | None]]:
    """Those of `tag_keys` that no object has, each with the attribute whose name is nearest; None: none is near."""
    from difflib import get_close_matches

    unknown = [key for key in tag_keys(query, own) if table.column(key) is None]
    return [(key, next(iter(get_close_matches(key, sorted(own), 1, 0.75)), None)) for key in unknown]


def tag_column(tags: Sequence[Mapping[str, str]], key: str) -> TextColumn | None:
    """The column of one tag, from those of each object; None where no object has it."""
    found = [t.get(key) for t in tags]
    return text_column(found) if any(f is not None for f in found) else None
