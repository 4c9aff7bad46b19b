"""Queries on columns, and why an object is not among the answers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import parse_size
from kafkakit.core.query.columns import Column, NumberColumn, ObjectTable, text_column
from kafkakit.core.query.globs import glob_matcher
from kafkakit.core.query.nodes import (
    NUMBER,
    Compare,
    Every,
    Exists,
    Glob,
    Literal,
    Member,
    Node,
    Not,
    Some,
    text_of,
)

if TYPE_CHECKING:
    from kafkakit.core.query.columns import Mask

ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LEAST, _MOST = -(2**63), 2**63 - 1


def matching(query: Node, table: ObjectTable) -> Mask:
    """Which objects of the table match. Every test costs one pass over an array, and one over its distinct texts."""
    import numpy as np

    match query:
        case Not(part):
            return ~matching(part, table)
        case Every(parts):
            every: Mask = np.all([matching(part, table) for part in parts], axis=0)
            return every
        case Some(parts):
            some: Mask = np.any([matching(part, table) for part in parts], axis=0)
            return some
    column = table.column(query.key)
    if column is None:
        return np.zeros(len(table.names), dtype=bool)
    match query:
        case Exists():
            return column.present
        case Glob(_, pattern):
            return _chosen(column, glob_matcher(pattern))
        case Member(key, values):
            return _member(column, key, values)
        case Compare(key, relation, value):
            number = wanted_number(key, value, is_number=isinstance(column, NumberColumn))
            return _compared(column, relation, value, number)


def names_matching(query: Node, table: ObjectTable) -> list[str]:
    """The names of the objects that match, in the table's order."""
    return [table.names[i] for i in matching(query, table).nonzero()[0].tolist()]


def number_of(key: str, value: Literal) -> Fraction | None:
    """The number that a value means for a key: sizes have units where the key ends in `bytes`; None for text."""
    if not value.is_bare:
        return None
    if NUMBER.fullmatch(value.text):
        return Fraction(value.text)
    return Fraction(parse_size(value.text, key)) if key.endswith("bytes") else None


def wanted_number(key: str, value: Literal, *, is_number: bool) -> Fraction | None:
    """`number_of`, where quotes do not matter for what is always a number; `UsageError` for text there."""
    number = number_of(key, value)
    if number is None and is_number:
        number = numeric(value.text)
        if number is None:
            raise UsageError(f"the query compares {key}, a number, with {value}", hint="compare it with a number")
    return number


def _member(column: Column, key: str, values: tuple[Literal, ...]) -> Mask:
    import numpy as np

    numbers = [wanted_number(key, value, is_number=isinstance(column, NumberColumn)) for value in values]
    plain = frozenset(v.text for v, n in zip(values, numbers, strict=True) if n is None)
    found = _chosen(column, plain.__contains__) if plain else np.zeros(len(column.present), dtype=bool)
    if isinstance(column, NumberColumn):
        whole = [int(n) for n in numbers if n is not None and n.denominator == 1 and _LEAST <= n <= _MOST]
        return found | (np.isin(column.numbers, np.array(whole, dtype=np.int64)) & column.present)
    wanted = {n for n in numbers if n is not None}
    return found | _chosen(column, lambda text: numeric(text) in wanted) if wanted else found


def _compared(column: Column, relation: str, value: Literal, number: Fraction | None) -> Mask:
    import numpy as np

    holds = ORDER[relation]
    if isinstance(column, NumberColumn) and number is not None:
        return _numbers_compared(column, relation, number)
    if number is None or isinstance(column, NumberColumn):
        return _chosen(column, lambda text: holds(text, value.text))
    by_text = _numbers_compared(column.wholes, relation, number)
    for at in (~column.wholes.present).nonzero()[0].tolist():
        own = numeric(column.values[at])
        by_text[at] = holds(column.values[at], value.text) if own is None else holds(own, number)
    found: Mask = np.append(by_text, False)[column.codes]
    return found


def _numbers_compared(column: NumberColumn, relation: str, number: Fraction) -> Mask:
    """Whole numbers against one that need not be whole, nor fit 64 bits."""
    import numpy as np

    # A bound that is not whole lies between two numbers: the side that the relation looks at is taken.
    limit = floor(number) if relation in ("<=", ">") else ceil(number)
    if relation == "=" and number.denominator != 1:
        return np.zeros(len(column.present), dtype=bool)
    if not _LEAST <= limit <= _MOST:
        fits = ORDER[relation](0, limit)
        every: Mask = column.present & bool(fits)
        return every
    found: Mask = ORDER[relation](column.numbers, limit)
    found &= column.present
    return found


def _chosen(column: Column, fits: Callable[[str], bool]) -> Mask:
    """The objects whose text fits; each distinct text is asked once."""
    import numpy as np

    texts = column.as_text() if isinstance(column, NumberColumn) else column
    # The entry more at the end is what code -1 finds.
    by_text = np.fromiter((*map(fits, texts.values), False), dtype=bool, count=len(texts.values) + 1)
    found: Mask = by_text[texts.codes]
    return found


def numeric(text: str) -> Fraction | None:
    """The number that a text is, None for other text."""
    return Fraction(text) if NUMBER.fullmatch(text) else None


def explain(query: Node, table: ObjectTable, row: int) -> tuple[bool, tuple[str, ...]]:
    """Whether an object matches, and the parts of the query that decide it, each with what the object has."""
    one = _RowTable(table, row)
    return one.holds(query), tuple(dict.fromkeys(one.reasons(query, wanted=not one.holds(query))))


class _RowTable:
    """One object of a table."""

    def __init__(self, table: ObjectTable, row: int) -> None:
        self._table, self._row = table, row

    def holds(self, query: Node) -> bool:
        return bool(matching(query, self._cut())[0])

    def reasons(self, query: Node, *, wanted: bool) -> list[str]:
        """What keeps the query from being `wanted`: one part that is enough, or all where each is needed."""
        match query:
            case Not(part) if not isinstance(part, Compare | Member | Glob | Exists):
                return self.reasons(part, wanted=not wanted)
            case Every(parts) | Some(parts):
                return [r for p in parts if self.holds(p) != wanted for r in self.reasons(p, wanted=wanted)]
        leaf = query.part if isinstance(query, Not) else query
        value = self._value(leaf.key)  # type: ignore[union-attr]
        has = "is not set" if value is None else f"is {value}"
        return [f"{text_of(query)}: {leaf.key} {has}"]  # type: ignore[union-attr]

    def _value(self, key: str) -> str | None:
        column = self._table.column(key)
        return None if column is None else column.value(self._row)

    def _cut(self) -> ObjectTable:
        def column(key: str) -> Column | None:
            whole, at = self._table.column(key), slice(self._row, self._row + 1)
            if isinstance(whole, NumberColumn):
                return NumberColumn(whole.numbers[at], whole.present[at])
            return None if whole is None else text_column([whole.value(self._row)])

        return ObjectTable((self._table.names[self._row],), column)
