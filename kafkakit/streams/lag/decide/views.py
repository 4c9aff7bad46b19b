"""Lag by partitions, topics, groups and clusters: sums, worst cases and counts, deterministically ordered.

The tables of several clusters are stacked as one set of columns and summed up by line. A request chooses rows by globs
over groups and topics, a level, an order and a limit. The members of the groups stand beside the lines. Lanes of a
stream are topics named `<stream>.<lane>.<epoch>`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkakit.config.keys import did_you_mean
from kafkakit.core.cluster_facts import GroupDescription, GroupMember, GroupState, GroupType, ItemError, holders_of
from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.options import not_typed, option, parsed_option
from kafkakit.core.query import ObjectTable, match_objects, tag_column, tag_keys, text_column
from kafkakit.core.query_text import parse_query
from kafkakit.core.selection import is_topic_name, matching_topics, query_of
from kafkakit.core.text import few_of, shell_command, shown_name
from kafkakit.streams.lag.decide.measure.ends import NONE
from kafkakit.streams.lag.decide.measure.table import (
    SEVERITY,
    LagForecast,
    LagStatus,
    LagTable,
    MeasuredColumns,
    RetentionBasis,
    severity,
)
from kafkakit.streams.lag.decide.measure.time_lag import UNBOUNDED, FigureFlag, Figures, TimeLag

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


class ViewLevel(StrEnum):
    """What one line of a view is about; streams are summed up over clusters and lanes, for each group apart."""

    PARTITION = "partition"
    GROUP_TOPIC = "group_topic"
    GROUP = "group"
    TOPIC = "topic"
    STREAM = "stream"
    CLUSTER = "cluster"


KINDS = {
    ViewLevel.PARTITION: ("cluster", "group", "topic", "partition"),
    ViewLevel.GROUP_TOPIC: ("cluster", "group", "topic"),
    ViewLevel.GROUP: ("cluster", "group"),
    ViewLevel.TOPIC: ("cluster", "topic"),
    ViewLevel.STREAM: ("group", "stream"),
    ViewLevel.CLUSTER: ("cluster",),
}
"""The names that identify a line of each level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """One group-partition."""

    cluster: str
    group: str
    topic: str
    partition: int


N = TypeVar("N")
F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFigures(Generic[N, F]):
    """The figures of a line, or of many as columns: counts and times, and rates; see `ViewLine`."""

    partitions: N
    unknown: N
    stale: N
    lag: N
    uncommitted: N
    pending: N
    lost: N
    unread: N
    max_lag: N
    max_low_ms: N
    committed_ms: N
    window_ms: N
    lag_as_of_ms: N
    oldest_as_of_ms: N
    consumed_per_s: F
    produced_per_s: F


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewLine(LineFigures[int, float]):
    """One line of a view: the names it is about (others are empty, the partition -1), sums over its partitions, and
    the worst of them.

    `lag`, `uncommitted`, `pending` and `lost` are sums over partitions whose end is known; `unknown` counts the others.
    `unread` is what lies in partitions that members own without a commit.
    `held_ms` is since when the oldest transaction is open that the group waits for. `backlog`
    is that of the partition `worst`, the one with the highest estimate, and `arrival` and `live` are the worst of
    their kinds; the estimates are None where none is known. `max_low_ms` is the highest low bound of any backlog: some
    partition is surely that far behind. `status` is the worst, `counts` says how many partitions have each that
    occurs, and `stale` how many figures are old; it is judged over `window_ms` at most, and no partition's last commit
    is older than `committed_ms` (-1: there is none). The oldest lag that went in is of
    the moment `lag_as_of_ms`, and the oldest time lag of `oldest_as_of_ms`. Rates are sums over the
    group-partitions where they are known; `eta_ms` is the longest, None when one partition does not catch up at the
    present rates or its rates are unknown; `retention_left_ms` is the shortest, None when no partition has one;
    `retention_basis` is what it rests on, and `retention_low_ms` the time for which all records surely stay.
    """

    cluster: str = ""
    group: str = ""
    topic: str = ""
    stream: str = ""
    partition: int = -1
    held_ms: int | None
    backlog: TimeLag
    arrival: TimeLag
    live: TimeLag
    worst: GroupPartition
    status: LagStatus
    counts: tuple[tuple[LagStatus, int], ...]
    eta_ms: int | None
    retention_left_ms: int | None
    retention_low_ms: int | None
    retention_basis: RetentionBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class LagView:
    """The worst lines first; `others` sums up the `others_count` lines beyond the limit, None when there are none."""

    level: ViewLevel
    lines: tuple[ViewLine, ...]
    others: ViewLine | None = None
    others_count: int = 0


def view(tables: "Sequence[LagTable]", level: ViewLevel, *, top: int | None = None) -> LagView:
    """Sum up the tables of several clusters at a level.

    Lines are ordered by status, surest backlog, its estimate and records, each the worst first, then by name. Costs
    O(rows log rows), and some microseconds for each line that is returned.
    """
    import numpy as np

    if not any(map(len, tables)):
        return LagView(level=level, lines=())
    all_rows = stack(tables)
    number, lines = line_numbers(all_rows, KINDS[level])
    sums = sum_lines(all_rows, number, lines)
    # Numbers ascend by name, so a stable sort leaves equals in the order of their names.
    estimate = all_rows.backlog.estimate_ms[sums.worst]
    order = np.lexsort((np.arange(lines), -sums.lag, -estimate, -sums.max_low_ms, -severity(sums.status)))
    shown = order if top is None else order[: max(0, top)]
    found = tuple(_line(all_rows, sums, at, KINDS[level]) for at in shown.tolist())
    left = order[len(shown) :]
    if not len(left):
        return LagView(level=level, lines=found)
    is_left = np.zeros(lines, dtype=bool)
    is_left[left] = True
    rest = all_rows.taken(np.flatnonzero(is_left[number]))
    others = _line(rest, sum_lines(rest, np.zeros(len(rest), dtype=np.int64), 1), 0, ())
    return LagView(level=level, lines=found, others=others, others_count=len(left))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows(MeasuredColumns):
    """The rows of all tables: for each kind of `names` its places in them, beside what lines sum up."""

    names: dict[str, tuple[str, ...]]
    cluster: "Ints"
    group: "Ints"
    topic: "Ints"
    stream: "Ints"

    def __len__(self) -> int:
        return len(self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSums(LineFigures["Ints", "Floats"]):
    """Columns by line; `first` is any row of the line, `worst` and those beside it the rows with the worst figures."""

    first: "Ints"
    worst: "Ints"
    worst_arrival: "Ints"
    worst_live: "Ints"
    held_ms: "Ints"
    status: "Ints"
    counts: "Ints"
    eta_ms: "Ints"
    retention_left_ms: "Ints"
    retention_low_ms: "Ints"
    retention_basis: "Ints"


def _line(all_rows: TableRows, sums: LineSums, at: int, kinds: tuple[str, ...]) -> ViewLine:
    first, worst = int(sums.first[at]), int(sums.worst[at])

    def name(kind: str, row: int) -> str:
        return all_rows.names[kind][int(getattr(all_rows, kind)[row])]

    named: dict[str, Any] = {kind: name(kind, first) for kind in kinds if kind != "partition"}
    counts = ((status, int(sums.counts[at, int(status)])) for status in LagStatus)
    return ViewLine(
        **named,
        **{each.name: _figure(getattr(sums, each.name)[at]) for each in fields(LineFigures)},
        partition=int(all_rows.partition[first]) if "partition" in kinds else -1,
        held_ms=_known_value(sums.held_ms, at),
        backlog=all_rows.backlog.at(worst),
        arrival=all_rows.arrival.at(int(sums.worst_arrival[at])),
        live=all_rows.live.at(int(sums.worst_live[at])),
        worst=GroupPartition(
            cluster=name("cluster", worst),
            group=name("group", worst),
            topic=name("topic", worst),
            partition=int(all_rows.partition[worst]),
        ),
        status=LagStatus(int(sums.status[at])),
        counts=tuple((status, count) for status, count in counts if count),
        eta_ms=_known_value(sums.eta_ms, at),
        retention_left_ms=_known_value(sums.retention_left_ms, at),
        retention_low_ms=_known_value(sums.retention_low_ms, at),
        retention_basis=RetentionBasis(int(sums.retention_basis[at])),
    )


def _figure(value: "np.int64 | np.float64") -> Any:
    """A count as a plain number, a rate rounded."""
    plain = value.item()
    return round(plain, 3) if isinstance(plain, float) else plain


def _known_value(column: "Ints", at: int) -> int | None:
    value = int(column[at])
    return None if value < 0 else value


_MEASURED = (
    "partition", "lag", "uncommitted", "pending", "lost", "unread", "status", "held_ms", "committed_ms", "window_ms",
    "lag_as_of_ms",
)  # fmt: skip


def stack(tables: "Sequence[LagTable]") -> TableRows:
    """Put tables, one at the least, below one another, with common codes for names."""
    import numpy as np

    names = {
        "cluster": tuple(sorted({t.cluster for t in tables})),
        "group": tuple(sorted({name for t in tables for name in t.groups})),
        "topic": tuple(sorted({name for t in tables for name in t.topics})),
    }
    streams = [stream_of(topic) for topic in names["topic"]]
    names["stream"] = tuple(sorted(set(streams)))
    places = {kind: {name: at for at, name in enumerate(words)} for kind, words in names.items()}
    stream_code = np.array([places["stream"][s] for s in streams], dtype=np.int64)

    def code(kind: str, words: tuple[str, ...], column: "Ints") -> "Ints":
        return np.array([places[kind][word] for word in words], dtype=np.int64)[column]

    topic = np.concatenate([code("topic", t.topics, t.topic) for t in tables])
    return TableRows(
        names=names,
        cluster=np.concatenate([np.full(len(t), places["cluster"][t.cluster]) for t in tables]),
        group=np.concatenate([code("group", t.groups, t.group) for t in tables]),
        topic=topic,
        stream=stream_code[topic],
        **{name: np.concatenate([getattr(t, name) for t in tables]) for name in _MEASURED},
        backlog=Figures.stacked([t.backlog for t in tables]),
        arrival=Figures.stacked([t.arrival for t in tables]),
        live=Figures.stacked([t.live for t in tables]),
        forecast=LagForecast.stacked([t.forecast for t in tables]),
    )


def line_numbers(all_rows: TableRows, kinds: tuple[str, ...]) -> "tuple[Ints, int]":
    """For each row the number of its line; a line is identified by these kinds of names (and `partition`)."""
    import numpy as np

    number = np.zeros(len(all_rows), dtype=np.int64)
    for kind in kinds:
        column = getattr(all_rows, kind)
        number = number * (int(column.max(initial=0)) + 1) + column
        number = np.unique(number, return_inverse=True)[1].reshape(-1)
    return number, int(number.max(initial=-1)) + 1


def sum_lines(all_rows: TableRows, number: "Ints", lines: int) -> LineSums:
    """Sum up rows by line; O(rows log rows)."""
    import numpy as np

    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(lines))

    def each(operation: "np.ufunc", column: "Ints") -> "Ints":
        values: Ints = operation.reduceat(column[order], starts)
        return values

    def each_rate(column: "Floats") -> "Floats":
        return np.bincount(number, np.nan_to_num(column), minlength=lines).astype(np.float64)

    def worst(figures: Figures) -> "Ints":
        rank = np.lexsort((all_rows.lag, figures.low_ms, figures.estimate_ms, number))
        last: Ints = rank[np.append(starts[1:], len(all_rows)) - 1]
        return last

    cast = all_rows.forecast
    left = cast.retention_left_ms
    soonest = each(np.minimum, np.where(left < 0, UNBOUNDED, left))
    low = each(np.minimum, np.where(left < 0, UNBOUNDED, cast.retention_low_ms))
    oldest = each(np.minimum, np.where(all_rows.lag < 0, UNBOUNDED, all_rows.lag_as_of_ms))
    is_held = np.isin(all_rows.status, (int(LagStatus.HELD_BACK), int(LagStatus.STOPPED))) & (all_rows.held_ms >= 0)
    held = each(np.minimum, np.where(is_held, all_rows.held_ms, UNBOUNDED))
    commit_ms = np.where(all_rows.committed_ms < 0, UNBOUNDED, all_rows.committed_ms)
    committed = each(np.minimum, commit_ms)
    statuses = len(LagStatus)
    counts = np.bincount(number * statuses + all_rows.status, minlength=lines * statuses).reshape(lines, statuses)
    return LineSums(
        first=order[starts],
        worst=worst(all_rows.backlog),
        worst_arrival=worst(all_rows.arrival),
        worst_live=worst(all_rows.live),
        partitions=np.bincount(number, minlength=lines),
        unknown=np.bincount(number, all_rows.lag < 0, minlength=lines).astype(np.int64),
        stale=each(np.add, (all_rows.backlog.flags & int(FigureFlag.STALE) != 0).astype(np.int64)),
        lag=each(np.add, np.maximum(0, all_rows.lag)),
        uncommitted=each(np.add, np.maximum(0, all_rows.uncommitted)),
        held_ms=np.where(held == UNBOUNDED, NONE, held),
        pending=each(np.add, np.maximum(0, all_rows.pending)),
        lost=each(np.add, all_rows.lost),
        unread=each(np.add, all_rows.unread),
        max_lag=each(np.maximum, np.maximum(0, all_rows.lag)),
        max_low_ms=each(np.maximum, all_rows.backlog.low_ms),
        status=np.array(SEVERITY, dtype=np.int64)[each(np.maximum, severity(all_rows.status))],
        counts=counts,
        committed_ms=np.where(committed == UNBOUNDED, NONE, committed),
        window_ms=each(np.maximum, all_rows.window_ms),
        consumed_per_s=each_rate(cast.consumed_per_s),
        produced_per_s=each_rate(cast.produced_per_s),
        eta_ms=np.where(each(np.minimum, cast.eta_ms) < 0, NONE, each(np.maximum, cast.eta_ms)),
        retention_left_ms=np.where(soonest == UNBOUNDED, NONE, soonest),
        retention_low_ms=np.where(soonest == UNBOUNDED, NONE, low),
        retention_basis=each(np.maximum, np.where(left == soonest[number], cast.retention_basis, 0)),
        lag_as_of_ms=np.where(oldest == UNBOUNDED, NONE, oldest),
        oldest_as_of_ms=each(np.minimum, all_rows.backlog.as_of_ms),
    )


INTERNAL = "__"
NAME = frozenset({"name"})
TagsByTopic = Mapping[str, Mapping[str, str]]


class LineOrder(StrEnum):
    """What the lines are ordered by; WORST is status, then time lag."""

    WORST = "worst"
    LAG = "lag"
    TIME = "time"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The rows whose group and topic match one of the globs each (none given: all).

    In the place of a glob `where QUERY` may stand, over `name` and, for topics, `topic_tags` by cluster and topic
    (None: not known). `patterns` select topics like `--topics` everywhere, beside the globs. `internal` False leaves
    out topics that begin with two underscores.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    internal: bool = True
    topic_tags: Mapping[str, TagsByTopic] | None = None

    @property
    def tags_needed(self) -> bool:
        """True where a query looks at tags; `UsageError` for one over groups, which have none."""
        for query in filter(None, map(query_of, self.groups)):
            if keys := tag_keys(parse_query(query), NAME):
                raise UsageError(f"groups have no {', '.join(keys)}", hint="a query over groups sees their name")
        return any(tag_keys(parse_query(query), NAME) for query in filter(None, map(query_of, self.topics)))

    def of(self, tables: Sequence[LagTable]) -> tuple[LagTable, ...]:
        """The rows of each table that match; cost: the names, not the rows. `UsageError` where tags are not known."""
        if self.topic_tags is None and self.tags_needed:
            raise UsageError("the query looks at tags, and none are known here")
        return tuple(self._of_one(table) for table in tables)

    def missing(self, tables: Sequence[LagTable]) -> "RowFilter":
        """The groups and topics given by their names, not by patterns, that none of the tables has."""
        topics = frozenset(name for table in tables for name in table.topics)
        groups = frozenset(name for table in tables for name in table.groups)
        return RowFilter(
            groups=tuple(name for name in _plain_names(self.groups) if name not in groups),
            topics=tuple(name for name in _plain_names(self.topics) if name not in topics),
            patterns=tuple(p for p in self.patterns if is_topic_name(p) and not matching_topics(topics, (p,))),
        )

    def require_known(self, groups: Collection[str], topics: Collection[str]) -> None:
        """`UsageError` for the first group or topic of these names that the clusters do not have either."""
        for name in self.groups:
            if name not in groups:
                raise _no_such("group", name, groups)
        for name in (*self.topics, *self.patterns):
            if name not in topics and not (name in self.patterns and matching_topics(frozenset(topics), (name,))):
                raise _no_such("topic", name, topics)

    def _of_one(self, table: LagTable) -> LagTable:
        import numpy as np

        tags = {} if self.topic_tags is None else self.topic_tags.get(table.cluster, {})
        is_group = np.array(_choose_names(table.groups, self.groups, {}), bool)
        is_topic = np.array(self._is_chosen_topic(table.topics, tags), bool)
        if not self.internal:
            is_topic &= np.array([not name.startswith(INTERNAL) for name in table.topics], bool)
        if is_group.all() and is_topic.all():
            return table
        return table.taken(np.flatnonzero(is_group[table.group] & is_topic[table.topic]))

    def _is_chosen_topic(self, names: Sequence[str], tags: TagsByTopic) -> list[bool]:
        if not self.patterns:
            return _choose_names(names, self.topics, tags)
        named = matching_topics(frozenset(names), self.patterns)
        by_glob = _choose_names(names, self.topics, tags) if self.topics else [False] * len(names)
        return [glob or name in named for glob, name in zip(by_glob, names, strict=True)]


def _choose_names(names: Sequence[str], patterns: Sequence[str], tags: TagsByTopic) -> list[bool]:
    """Which names one of the patterns selects, globs and queries; all without any."""
    globs = [p for p in patterns if query_of(p) is None]
    found = [matches(name, globs) and bool(globs or not patterns) for name in names]
    for query in filter(None, map(query_of, patterns)):
        table = ObjectTable(
            tuple(names),
            lambda key: text_column(names) if key in NAME else tag_column([tags.get(n, {}) for n in names], key),
        )
        found = [old or new for old, new in zip(found, match_objects(parse_query(query), table).tolist(), strict=True)]
    return found


def _plain_names(patterns: Sequence[str]) -> tuple[str, ...]:
    """Those of the patterns that are names: neither globs nor queries."""
    return tuple(p for p in patterns if query_of(p) is None and not set(p) & _WILD)


_WILD = frozenset("*?[")


def _no_such(kind: str, name: str, known: Collection[str]) -> UsageError:
    return UsageError(f"{kind} {shown_name(name)} does not exist{did_you_mean(name, known)}")


def require_share_groups(given: Sequence[str], types: Mapping[str, GroupType]) -> None:
    """Raise `UsageError` for a name that is not the one of a share group."""
    for name in _plain_names(given):
        if name not in types:
            raise _no_such("group", name, [name for name, kind in types.items() if kind is GroupType.SHARE])
        if types[name] is not GroupType.SHARE:
            hint = f"the lag of other groups: {shell_command('streams lag once', name)}"
            raise UsageError(
                f"group {shown_name(name)} is not a share group, but a {types[name].value} group", hint=hint
            )


def matches(name: str, globs: Sequence[str]) -> bool:
    """True when one of the globs matches, or when there are none."""
    return not globs or any(fnmatchcase(name, glob) for glob in globs)


class ViewBy(StrEnum):
    """What one line of the table is about, as `--by` spells the levels."""

    GROUP = "group"
    GROUP_TOPIC = "group-topic"
    TOPIC = "topic"
    STREAM = "stream"
    CLUSTER = "cluster"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """Which view of which rows is wanted, with at most `top` lines."""

    level: ViewLevel = parsed_option(
        ViewBy.GROUP_TOPIC,
        "--by",
        typed=ViewBy,
        parse=lambda by: ViewLevel(by.value.replace("-", "_")),
        help="What each line shows.",
    )
    order: LineOrder = option(LineOrder.WORST, "--sort", help="Order of the lines; worst is status, then time lag.")
    top: int = option(
        50, "--top", min=1, max=100_000, metavar="N", help="Show this many lines, and the sum of the others."
    )
    rows: RowFilter = not_typed(RowFilter())

    def of(self, tables: Sequence[LagTable]) -> LagView:
        """The view; in another order than WORST, lines beyond `top` are counted without a sum."""
        rows = self.rows.of(tables)
        if self.order is LineOrder.WORST:
            return view(rows, self.level, top=self.top)
        lines = sorted(view(rows, self.level).lines, key=self._key)
        return LagView(level=self.level, lines=tuple(lines[: self.top]), others_count=max(0, len(lines) - self.top))

    def _key(self, line: ViewLine) -> tuple[object, ...]:
        name = (line.stream, line.cluster, line.group, line.topic, line.partition)
        if self.order is LineOrder.LAG:
            return (-line.lag, *name)
        if self.order is LineOrder.TIME:
            return (1 if line.backlog.estimate_ms is None else -line.backlog.estimate_ms, -line.lag, *name)
        return name


LEVELS = (ViewLevel.PARTITION, ViewLevel.GROUP_TOPIC, ViewLevel.GROUP)
_LISTED = (GroupType.CLASSIC, GroupType.CONSUMER)
Described = Mapping[tuple[str, str], GroupDescription | ItemError]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReaders:
    """One group, which member holds each of its partitions, and how many members hold none."""

    group: GroupDescription
    holders: Mapping[TopicPartition, GroupMember]
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The groups of a view by cluster and name; `notes` name those whose members are not known, and why."""

    groups: Mapping[tuple[str, str], GroupReaders]
    notes: tuple[str, ...] = ()

    def of(self, line: ViewLine) -> GroupReaders | None:
        """The group of a line, None where its members are not known."""
        return self.groups.get((line.cluster, line.group))

    def owner(self, line: ViewLine) -> GroupMember | None:
        """The member that holds the partition of a line."""
        found = self.of(line)
        return None if found is None else found.holders.get(TopicPartition(line.topic, line.partition))

    def count(self, line: ViewLine) -> int | None:
        """The members of a line's group, of a line with a topic those that hold a partition of it."""
        found = self.of(line)
        if found is None:
            return None
        if not line.topic:
            return len(found.group.members)
        return len({member.member_id for key, member in found.holders.items() if key.topic == line.topic})


def require_groups(level: ViewLevel) -> None:
    """Raise `UsageError` for a level whose lines are not about one group of one cluster."""
    if level not in LEVELS:
        raise UsageError(
            f"--members needs lines of one group, but a line of --by {level.value} has several",
            hint="use --by partition, group-topic or group",
        )


def groups_by_cluster(view: LagView) -> dict[str, list[str]]:
    """The groups that the lines of a view name, sorted, by cluster."""
    found: dict[str, set[str]] = {}
    for line in view.lines:
        if "group" in KINDS[view.level]:
            found.setdefault(line.cluster, set()).add(line.group)
    return {cluster: sorted(groups) for cluster, groups in sorted(found.items())}


def readers_of(described: Described) -> Readers:
    """The members as coordinators described them; groups of types whose members are not listed become a note."""
    groups: dict[tuple[str, str], GroupReaders] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    for (cluster, name), answer in sorted(described.items()):
        if isinstance(answer, ItemError):
            missing.setdefault((cluster, str(answer)), []).append(name)
        elif answer.type in _LISTED or answer.state is GroupState.DEAD:
            idle = sum(not member.partitions for member in answer.members)
            groups[cluster, name] = GroupReaders(group=answer, holders=holders_of(answer.members), idle=idle)
        else:
            why = f"not listed for {answer.type.value} groups"
            missing.setdefault((cluster, why), []).append(name)
    notes = (f"{cluster}: members of {few_of(names)} are not known: {why}" for (cluster, why), names in missing.items())
    return Readers(groups=groups, notes=tuple(notes))


LANES = ("live", "slow", "retry", "dlq")


def stream_of(topic: str) -> str:
    """The stream of a topic; a topic that is not named like a lane is a stream by itself."""
    rest, dot, epoch = topic.rpartition(".")
    stream, second, lane = rest.rpartition(".")
    if dot and second and stream and lane in LANES and epoch.isascii() and epoch.isdigit():
        return stream
    return topic
