"""What queries look at: objects as columns, so that a filter costs a few passes over arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask: TypeAlias = NDArray[np.bool_]
    Codes: TypeAlias = NDArray[np.int64]

_DIGITS = 18  # fewer than 64 bits


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


def tag_column(tags: Sequence[Mapping[str, str]], key: str) -> TextColumn | None:
    """The column of one tag, from those of each object; None where no object has it."""
    found = [t.get(key) for t in tags]
    return text_column(found) if any(f is not None for f in found) else None
