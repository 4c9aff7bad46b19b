"""Changes of single rows of a made cluster's tables, by what the rows are about."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkakit.core.columns import CodedColumn
from kafkakit.fleet.decide.synth_cluster import ClusterModel, Tables

Rows = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEdit:
    """The tables of one cluster and date, to be changed in place; tables that the date lacks are passed over."""

    model: ClusterModel
    tables: Tables

    def rows(self, kind: str, **values: Any) -> Rows:
        """The rows of a table in which each of these columns has the value."""
        columns = self.tables.get(kind)
        if columns is None:
            return np.zeros(0, np.bool_)
        found = np.ones(len(next(iter(columns.values()))), np.bool_)
        for name, value in values.items():
            found &= _equal(columns[name], value)
        return found

    def put(self, kind: str, rows: Rows, **values: Any) -> None:
        """Set columns of some rows: each to one value, or to an array of one value for each of the rows."""
        if kind not in self.tables:
            return
        columns = self.tables[kind]
        for name, value in values.items():
            columns[name] = _with(columns[name], rows, value)

    def add(self, kind: str, like: Rows, **values: Any) -> None:
        """Add a row like the first of these rows, but for some columns."""
        if kind not in self.tables:
            return
        columns = self.tables[kind]
        first, total = int(np.argmax(like)), len(like)
        for name, column in columns.items():
            if isinstance(column, CodedColumn):
                codes = np.append(column.codes, column.codes[first])
                columns[name] = CodedColumn(words=column.words, codes=codes)
            else:
                columns[name] = np.append(column, column[first])
        self.put(kind, np.arange(total + 1) == total, **values)

    def segments_of(self, topic: int, age: int | None = None, *, all_replicas: bool = False) -> Rows:
        """The segments of a topic's first partition on its leader, or on all replicas; with `age` (0: the active one)
        the one of that place from the end."""
        model, columns = self.model, self.tables["segments"]
        found = self.rows("segments", topic=model.names[topic], partition=0)
        if not all_replicas:
            found &= columns["broker"] == model.replicas[model.first[topic], 0]
        if age is not None:
            bases = np.unique(columns["base_offset"][found])
            found &= columns["base_offset"] == bases[-1 - age]
        return found

    def drop(self, kind: str, rows: Rows) -> None:
        """Remove some rows."""
        for name, column in self.tables.get(kind, {}).items():
            if isinstance(column, CodedColumn):
                self.tables[kind][name] = CodedColumn(words=column.words, codes=column.codes[~rows])
            else:
                self.tables[kind][name] = column[~rows]

    def topic_setting(self, topic: int, key: str, value: str, *, is_declared: bool = True) -> None:
        """Set a setting of a topic, in the files that declare it too."""
        name = self.model.names[topic]
        for kind in ("topic_configs", "declared") if is_declared else ("topic_configs",):
            self.put(kind, self.rows(kind, topic=name, key=key), value=value)

    def broker_setting(self, broker: int, key: str, value: str, source: str = "static") -> None:
        """Set a setting of a broker."""
        rows = self.rows("broker_configs", broker=broker, key=key)
        self.put("broker_configs", rows, value=value, source=source)


def _equal(column: Any, value: Any) -> Rows:
    if isinstance(column, CodedColumn):
        codes = [code for code, word in enumerate(column.words) if word == value]
        found: Rows = np.isin(column.codes, codes)
        return found
    equal: Rows = np.asarray(column) == value
    return equal


def _with(column: Any, rows: Rows, value: Any) -> Any:
    if not isinstance(column, CodedColumn):
        changed = np.array(column)
        changed[rows] = value
        return changed
    values = list(value) if isinstance(value, np.ndarray) else [value]
    codes = column.codes.copy()
    codes[rows] = -1 if value is None else np.arange(len(values), dtype=np.int32) + len(column.words)
    return CodedColumn(words=(*column.words, *values), codes=codes)
