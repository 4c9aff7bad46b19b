"""The pages of one topic, partition, group or broker, and the lists of topics and groups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import GroupListing, ItemError, LogSpan, TopicCount
from kafkakit.core.findings import shorten
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.query import CONFIG, REPLICATION, Column, flag_column, number_column, object_table, text_column
from kafkakit.core.text import sanitize, shell_command
from kafkakit.report.pages import cut_text
from kafkakit.status.decide.delays import UNREADABLE, GroupDelay, groups_compared, uncompared_words
from kafkakit.status.decide.judgement import BrokerStatus, ClusterReading, PartName
from kafkakit.status.decide.objects import (
    BrokerDetail,
    GroupDetail,
    PartitionDetail,
    PartitionRow,
    TopicDetail,
    in_order,
)
from kafkakit.status.decide.page_parts import (
    NOT_READ,
    ROWS_OF_A_PAGE,
    TAGS_COLUMN,
    UNKNOWN,
    Address,
    Cell,
    ClusterView,
    Link,
    Meter,
    PageColumn,
    PageMark,
    PageSection,
    QueryAnswer,
    QueryFacts,
    Rows,
    Search,
    UiPage,
    UiTable,
    answer_query,
    broker_severity,
    cell_link,
    cut_words,
    link_to,
    number_text,
    page_of,
    partition_link,
    query_in,
    rows_of_page,
    search_of,
    size_text,
    sparkline,
    tag_cell,
    throttle_words,
    with_ages,
)

if TYPE_CHECKING:
    from kafkakit.kubernetes.brokers import BrokerPod

MOST_CELLS, MOST_REPLICAS, MOST_FINDINGS, MOST_GROUPS, MOST_VOLUMES = 1024, 20, 10, 10, 20
NamedCount = tuple[str, TopicCount]


def broker_page(view: ClusterView, row: BrokerStatus, facts: BrokerDetail | None, known: QueryFacts) -> UiPage:
    """One broker: what is wrong with it, its tags, its log dirs, and its largest replicas."""
    status = view.status
    own = [f for f in (status.findings if status else ()) if f.where.split()[:2] == ["broker", str(row.id)]]
    pairs: list[tuple[str, Cell]] = [
        ("State", PageMark(row.state, broker_severity(row))),
        ("Rack", row.rack or "-"),
        ("Leaders", number_text(row.leaders)),
        ("Replicas", number_text(row.replicas)),
        ("Not in sync", number_text(row.short)),
        ("Throttle", throttle_words(status, row, "none")),
    ]
    if status is not None and status.reading.pods is not None:
        pairs += _pod_pairs(status.reading.pods.pods.get(row.id))
    if known.tags is None or known.tags.brokers:
        pairs.append(("Tags", tag_cell(known.broker_tags(row.id), link_to(view, "brokers"))))
    sections = [
        PageSection(id="findings", findings=with_ages(status, own[:MOST_FINDINGS]) if status else ()),
        PageSection(id="facts", facts=pairs, words=known.tags_words),
    ]
    if facts is None or facts.dirs.error:
        why = (facts.dirs.error or "") if facts else "The log dirs are not known: the broker is not alive."
        sections.append(PageSection(id="dirs", title="Log dirs", words=[why]))
    else:
        sections += [_dirs_section(facts), _largest_section(view, facts)]
    program = status.reading.program if status else "kafkakit"
    commands = [str(shell_command("broker describe", str(row.id), program=program))]
    if row.state == "alive":
        commands.append(str(shell_command("broker drain", str(row.id), program=program, dry_run=True)))
    commands += _history_of_tags(known, "broker", str(row.id), program)
    sections.append(PageSection(id="next", title="Commands", commands=commands))
    return page_of(view, f"Broker {row.id} of {view.name} is {row.state}", "brokers", sections)


def _pod_pairs(pod: "BrokerPod | None") -> list[tuple[str, Cell]]:
    """What Kubernetes has of a broker."""
    if pod is None:
        return [("Pod", PageMark("none", "warning"))]
    state = PageMark(pod.state, "ok" if pod.state == "ready" else "warning")
    volumes = [f"{sanitize(volume.name)} {size_text(volume.size_bytes)}" for volume in pod.volumes[:MOST_VOLUMES]]
    return [
        ("Pod", f"{sanitize(pod.pod.name)} of {sanitize(pod.pod.namespace or '-')}"),
        ("Pod is", state),
        ("Node", sanitize(pod.pod.node or "-")),
        ("Zone", sanitize(pod.zone or UNKNOWN)),
        ("Volumes", ", ".join(volumes) or "-"),
    ]


def _dirs_section(facts: BrokerDetail) -> PageSection:
    columns = [
        PageColumn("Log dir"),
        PageColumn("State", False, 2),
        PageColumn("Full"),
        PageColumn("Free", True, 2),
        PageColumn("Size", True, 3),
    ]
    rows: Rows = []
    for place in facts.dirs.log_dirs[:ROWS_OF_A_PAGE]:
        known = place.total_bytes is not None and place.usable_bytes is not None and place.total_bytes > 0
        share = 1 - (place.usable_bytes or 0) / (place.total_bytes or 1) if known else None
        meter = Meter(
            share=share,
            words=UNKNOWN if share is None else f"{share:.0%}",
            severity="error" if (share or 0) >= 0.9 else "warning" if (share or 0) >= 0.85 else "ok",
        )
        word: Cell = "online"
        if place.error or place.cordoned:
            word = PageMark("offline", "error") if place.error else PageMark("cordoned", "note")
        rows.append([place.path, word, meter, size_text(place.usable_bytes), size_text(place.total_bytes)])
    table = UiTable(caption="Log dirs", columns=columns, rows=rows)
    return PageSection(
        id="dirs", title="Log dirs", words=cut_words(len(facts.dirs.log_dirs), ROWS_OF_A_PAGE), table=table
    )


def _largest_section(view: ClusterView, facts: BrokerDetail) -> PageSection:
    replicas = facts.dirs.replicas
    largest = sorted(replicas.items(), key=lambda item: (-item[1].size_bytes, item[0]))[:MOST_REPLICAS]
    return PageSection(
        id="replicas",
        title=f"Largest replicas: {len(largest)} of {len(replicas):,}" if largest else "Replicas",
        table=UiTable(
            caption="Largest replicas",
            columns=[PageColumn("Partition"), PageColumn("Size", True), PageColumn("Log dir", False, 3)],
            rows=[
                [partition_link(view, key.topic, key.partition), format_bytes(copy.size_bytes), copy.log_dir]
                for key, copy in largest
            ],
            empty="It holds no replica.",
        ),
    )


_STATES = (("", "all"), ("offline", "offline"), ("short", "not in sync"), ("preferred", "not preferred"))


def _topic_fits(count: TopicCount, state: str) -> bool:
    if state == "offline":
        return count.offline > 0
    if state == "short":
        return count.short > 0 or count.offline > 0
    return count.not_preferred > 0 if state == "preferred" else True


TOPIC_COLUMNS = (
    PageColumn("Topic"),
    PageColumn("State", False, 1, "state"),
    PageColumn("Partitions", True, 2, "partitions"),
    PageColumn("Replication", True, 3),
    PageColumn("Not preferred", True, 3),
)
TOPIC_EXAMPLE = 'partitions >= 12 and name like "orders-*"'
_TOPIC_KEYS: Mapping[str, Callable[[Sequence[NamedCount]], Column]] = {
    "name": lambda topics: text_column([name for name, _ in topics]),
    "partitions": lambda topics: number_column([count.partitions for _, count in topics]),
    **dict.fromkeys(REPLICATION, lambda topics: number_column([count.replication for _, count in topics])),
    "under_replicated": lambda topics: flag_column([count.short > 0 or count.offline > 0 for _, count in topics]),
    "offline": lambda topics: flag_column([count.offline > 0 for _, count in topics]),
    "internal": lambda topics: flag_column([name.startswith("__") for name, _ in topics]),
}


def _topic_answer(
    reading: ClusterReading, counts: Mapping[str, TopicCount], facts: QueryFacts, address: Address
) -> QueryAnswer | None:
    """What the query of the filter finds; None where it is a part of a name."""
    query = query_in(address.text)
    if query is None:
        return None
    rows = facts.rows or {}
    moving = {m.move.topic for m in reading.moves.moves} if reading.moves else frozenset[str]()
    own = {
        **_TOPIC_KEYS,
        "reassigning": lambda topics: flag_column([name in moving for name, _ in topics]),
        "bytes": lambda topics: number_column([rows[n].bytes if n in rows else None for n, _ in topics]),
    }
    table = object_table(
        list(counts),
        list(counts.items()),
        own,
        lambda topic: facts.topic_tags(topic[0]) or {},
        lambda topic: (rows[topic[0]].configs if topic[0] in rows else None) or {},
    )
    unread = facts.rows_error if facts.rows is None else ""
    missing = {"": facts.tags_error if facts.tags is None else "", CONFIG: unread, "bytes": unread}
    if reading.moves is None:
        missing["reassigning"] = reading.failure_of(PartName.MOVES) or NOT_READ
    return answer_query(query, "topic", table, own, missing, address.explain)


def topics_page(view: ClusterView, address: Address, facts: QueryFacts) -> UiPage:
    """All topics by name, a page at a time, with their tags."""
    reading = view.status.reading if view.status else None
    health = reading.partitions if reading else None
    if reading is None or health is None:
        return page_of(
            view, f"Topics of {view.name}", "topics", [PageSection(id="list", words=["The topics are not known."])]
        )
    counts, text = health.of_topics, address.text.strip()
    answer = _topic_answer(reading, counts, facts, address)
    found = counts if answer is None else [name for name in counts if name in answer.names]
    names = [n for n in found if (answer is not None or text in n) and _topic_fits(counts[n], address.state)]
    if address.sort == "partitions":
        names.sort(key=lambda n: (-counts[n].partitions, n))
    elif address.sort == "state":
        names.sort(key=lambda n: (-counts[n].offline, -counts[n].short, n))
    part, pager = rows_of_page(names, address)
    has_tags = facts.tags is None or bool(facts.tags.topics)
    shown: Rows = []
    for name in names[part]:
        count = counts[name]
        cells: list[Cell] = [
            cell_link(name, link_to(view, "topics", name)),
            _topic_mark(count),
            number_text(count.partitions),
            number_text(count.replication),
            number_text(count.not_preferred),
        ]
        shown.append([*cells, tag_cell(facts.topic_tags(name))] if has_tags else cells)
    choices = [(words, f"?{address.query(state=word, page=1)}", word == address.state) for word, words in _STATES]
    bad = sum(c.offline > 0 or c.short > 0 for c in counts.values())
    title = f"{count_of(len(counts), 'topic')} of {view.name}: {f'{bad} not in sync' if bad else 'all in sync'}"
    title = title if counts else f"{view.name} has no topics"
    table = UiTable(
        caption=count_of(len(names), "topic"),
        columns=[*TOPIC_COLUMNS, TAGS_COLUMN] if has_tags else TOPIC_COLUMNS,
        rows=shown,
        empty=""
        if answer and answer.problem
        else "No topic fits."
        if counts
        else "The cluster has no topic. To make one: kafkakit topic create NAME",
        address=address,
    )
    keys = (*_TOPIC_KEYS, "reassigning", "bytes", f"{CONFIG}NAME")
    search = search_of(address, choices, TOPIC_EXAMPLE, keys, answer)
    sections = [PageSection(id="list", words=facts.tags_words, search=search, table=table, pager=pager)]
    return page_of(view, title, "topics", sections)


def _topic_mark(count: TopicCount) -> PageMark:
    if count.offline:
        return PageMark(f"{count.offline} offline", "error")
    return PageMark(f"{count.short} not in sync", "warning") if count.short else PageMark("ok", "ok")


_WORD_SEVERITY = {
    "offline": "error",
    "under min ISR": "error",
    "at min ISR": "warning",
    "under-replicated": "warning",
    "moving": "note",
    "ok": "ok",
}


def topic_page(view: ClusterView, facts: TopicDetail, address: Address, known: QueryFacts) -> UiPage:
    """One topic: a grid of its partitions, a table of them worst first, its tags, settings and groups.

    The addresses of its partitions begin at its own, so that a long name is not repeated in each.
    """
    row, rows = facts.row, in_order(facts.partitions)
    part, pager = rows_of_page(rows, address)
    pairs: list[tuple[str, Cell]] = [
        ("Partitions", number_text(row.partitions)),
        ("Replication", str(row.replication[0])),
        ("Min ISR", number_text(row.min_isr)),
        ("Size of all copies", size_text(row.bytes)),
        ("Id", row.topic_id or "-"),
        ("Groups with commits", UNKNOWN if facts.groups is None else _group_names(facts.groups)),
    ]
    if known.tags is None or known.tags.topics:
        pairs.append(("Tags", tag_cell(known.topic_tags(row.name), link_to(view, "topics"))))
    pairs += (row.configs or {}).items()
    columns = [
        PageColumn("Partition", True),
        PageColumn("State"),
        PageColumn("Leader", True),
        PageColumn("Replicas", False, 2),
        PageColumn("In sync", False, 3),
        PageColumn("Size", True, 3),
    ]
    made = [_partition_cells(p) for p in rows[part]]
    grid = [
        (str(p.key.partition), _WORD_SEVERITY[p.word.value], f"?partition={p.key.partition}")
        for p in sorted(rows, key=lambda p: p.key)[:MOST_CELLS]
    ]
    program = view.status.reading.program if view.status else "kafkakit"
    sections = [
        PageSection(id="facts", facts=pairs, words=known.tags_words),
        PageSection(
            id="grid", title="Partitions", words=cut_words(len(rows), MOST_CELLS), grid=grid if len(rows) > 1 else ()
        ),
        PageSection(
            id="list", table=UiTable(caption="Partitions, worst first", columns=columns, rows=made), pager=pager
        ),
        PageSection(
            id="next",
            title="Commands",
            commands=[
                str(shell_command("topic describe", row.name, program=program)),
                str(shell_command("record tail", row.name, program=program)),
                str(shell_command("streams lag once", program=program, topic=row.name)),
                *_history_of_tags(known, "topic", row.name, program),
            ],
        ),
    ]
    return page_of(view, f"{row.name}: {count_of(row.partitions, 'partition')}, {row.state}", "topics", sections)


def _group_names(groups: Sequence[str]) -> str:
    more = len(groups) - MOST_GROUPS
    return (", ".join(groups[:MOST_GROUPS]) or "none") + (f" and {more:,} more" if more > 0 else "")


def _history_of_tags(known: QueryFacts, kind: str, name: str, program: str) -> list[str]:
    """The command that shows who changed the tags of an object that has some."""
    tags = known.topic_tags(name) if kind == "topic" else known.broker_tags(int(name))
    return [str(shell_command("registry history", program=program, **{kind: name}))] if tags else []


def _partition_cells(row: PartitionRow) -> list[Cell]:
    number = str(row.key.partition)
    leader = "none" if row.leader is None else str(row.leader)
    return [
        Link(number, f"?partition={number}"),
        PageMark(row.word.value, _WORD_SEVERITY[row.word.value]),
        leader,
        ", ".join(map(str, row.replicas)),
        ", ".join(map(str, row.isr)),
        size_text(row.bytes),
    ]


def partition_page(view: ClusterView, facts: PartitionDetail) -> UiPage:
    """One partition: each replica, and the ends of its log."""
    row = facts.row
    name = f"{row.key.topic}/{row.key.partition}"
    span = facts.span
    ends = (
        f"{span.start:,} to {span.end:,}"
        if isinstance(span, LogSpan)
        else f"{UNKNOWN} ({span})"
        if isinstance(span, ItemError)
        else UNKNOWN
    )
    pairs: list[tuple[str, Cell]] = [
        ("State", PageMark(row.word.value, _WORD_SEVERITY[row.word.value])),
        ("Leader", "none" if row.leader is None else str(row.leader)),
        ("Offsets", ends),
        ("acks=all needs", number_text(facts.needed)),
        ("Producers with an id", UNKNOWN if facts.producers is None else str(len(facts.producers))),
        ("Throttled by", ", ".join(facts.throttled) or "nothing"),
    ]
    columns = [
        PageColumn("Broker", True),
        PageColumn("Rack", False, 2),
        PageColumn("State"),
        PageColumn("In sync"),
        PageColumn("Size", True, 2),
        PageColumn("Behind", True, 2),
        PageColumn("Log dir", False, 3),
    ]
    rows: Rows = []
    for each in facts.replicas:
        copy = each.copy
        rows.append(
            [
                Link(str(each.broker), link_to(view, "brokers", str(each.broker))),
                each.rack or "-",
                PageMark("alive", "ok") if each.is_alive else PageMark("down", "error"),
                PageMark("yes", "ok") if each.in_sync else PageMark("no", "warning"),
                size_text(copy.size_bytes if copy else None),
                UNKNOWN if copy is None else f"{copy.offset_lag:,}",
                copy.log_dir if copy else UNKNOWN,
            ]
        )
    program = view.status.reading.program if view.status else "kafkakit"
    sections = [
        PageSection(id="facts", facts=pairs),
        PageSection(
            id="replicas",
            title="Replicas",
            table=UiTable(caption="Replicas, the preferred leader first", columns=columns, rows=rows),
        ),
        PageSection(
            id="next", title="Commands", commands=[str(shell_command("partition describe", name, program=program))]
        ),
    ]
    return page_of(view, f"{name} is {row.word.value}", "topics", sections)


def groups_page(view: ClusterView, address: Address) -> UiPage:
    """All groups, furthest behind first."""
    reading = view.status.reading if view.status else None
    listed = reading.groups if reading else None
    if reading is None or listed is None:
        return page_of(
            view, f"Groups of {view.name}", "groups", [PageSection(id="list", words=["The groups are not known."])]
        )
    lag = {one.group: one for one in reading.lag or ()}
    states = sorted({g.state.value for g in listed})
    found = [g for g in listed if address.text in g.group and address.state in ("", g.state.value)]
    found.sort(key=lambda g: (-(lag[g.group].lag or lag[g.group].time_lag_ms or 0) if g.group in lag else 0, g.group))
    part, pager = rows_of_page(found, address)
    columns = [
        PageColumn("Group"),
        PageColumn("State"),
        PageColumn("Behind", True),
        PageColumn("In time", True, 2),
        PageColumn("Type", False, 3),
    ]
    compared = frozenset(groups_compared(listed) if reading.lag is not None else ())
    rows: Rows = []
    for group in found[part]:
        one = lag.get(group.group)
        is_seen = group.group in compared or (reading.measured is not None and not reading.failure_of(PartName.LAG))
        rows.append(
            [
                cell_link(group.group, link_to(view, "groups", group.group)),
                _group_mark(group, one),
                ("-" if is_seen else UNKNOWN) if one is None else number_text(one.lag),
                "-" if one is None or one.time_lag_ms is None else format_rough_time(one.time_lag_ms / 1000),
                group.type.value,
            ]
        )
    choices = [("all", f"?{address.query(state='', page=1)}", not address.state)]
    choices += [(s.replace("_", " "), f"?{address.query(state=s, page=1)}", s == address.state) for s in states]
    title = f"{count_of(len(listed), 'group')} of {view.name}: {_groups_words(reading)}"
    table = UiTable(caption=count_of(len(found), "group"), columns=columns, rows=rows, empty="No group is found.")
    sections = [
        PageSection(id="known", words=list(_unknown_of_groups(reading))),
        PageSection(
            id="list",
            search=Search(text=address.text, choices=choices, kept=address.kept("q")),
            table=table,
            pager=pager,
        ),
    ]
    return page_of(view, title, "groups", sections)


_NO_PROGRESS = ("stopped", "stalled", "lost")


def _group_mark(group: GroupListing, delay: GroupDelay | None) -> PageMark:
    """The worst that is known of a group."""
    if delay is not None and delay.status in _NO_PROGRESS:
        is_error = delay.status == "lost" or delay.is_critical
        return PageMark(delay.status, "error" if is_error else "warning")
    if delay is not None and delay.over_limit:
        return PageMark("over its limit", "error" if delay.is_critical else "warning")
    word = group.state.value.replace("_", " ")
    return PageMark(word, "ok" if word == "stable" else "note")


def _groups_words(reading: ClusterReading) -> str:
    """How the groups are, as far as that is known."""
    lag = reading.lag or ()
    behind = sum(one.status in _NO_PROGRESS for one in lag)
    above = sum(bool(one.over_limit) and one.status not in _NO_PROGRESS for one in lag)
    parts = [f"{behind} without progress"] if behind else []
    parts += [f"{above} over a limit"] if above else []
    if any(reading.failure_of(name) for name in (PartName.GROUPS, PartName.LAG, PartName.TIME_LAG)):
        parts.append("not all is known")
    return ", ".join(parts) or "none stopped"


def _unknown_of_groups(reading: ClusterReading) -> Iterator[str]:
    """What is not known of groups, or is old, in sentences."""
    for name in (PartName.GROUPS, PartName.LAG, PartName.TIME_LAG):
        if error := reading.failure_of(name):
            yield f"{name.value}: {error}"
    measured = reading.measured
    if measured is not None and measured.is_old(reading.at):
        yield f"Lag in time is {format_rough_time(measured.age_s(reading.at))} old: no monitor saves it any more."
    if words := uncompared_words(reading.groups or ()):
        yield f"{words}."
    unreadable = [one.group for one in reading.lag or () if one.status == UNREADABLE]
    if unreadable:
        yield f"Not all partitions could be read of {count_of(len(unreadable), 'group')}: {shorten(unreadable)}."


def group_page(view: ClusterView, facts: GroupDetail, address: Address) -> UiPage:
    """One group: its lag of the last hour, its members, and where it stands."""
    about = facts.description
    lag = [row.lag for row in facts.commits if row.lag is not None]
    is_whole = not any(row.error for row in facts.commits)
    behind = f"{'' if is_whole else 'at least '}{sum(lag):,}" if lag else UNKNOWN
    sections = [
        PageSection(
            id="facts",
            facts=[
                ("State", about.state.value.replace("_", " ") if about else UNKNOWN),
                ("Type", about.type.value if about else UNKNOWN),
                ("Members", UNKNOWN if about is None else str(len(about.members))),
                ("Behind", behind),
                ("Coordinator", UNKNOWN if about is None or about.coordinator is None else str(about.coordinator)),
            ],
        )
    ]
    sections.append(_trend_section(view, facts.group))
    part, pager = rows_of_page(facts.commits, address)
    columns = [
        PageColumn("Partition"),
        PageColumn("Behind", True),
        PageColumn("Committed", True, 2),
        PageColumn("End", True, 3),
        PageColumn("Read by", False, 3),
    ]
    rows: Rows = [
        [
            partition_link(view, c.key.topic, c.key.partition),
            number_text(c.lag),
            number_text(c.committed),
            number_text(c.end),
            c.error or c.reader or "-",
        ]
        for c in facts.commits[part]
    ]
    program = view.status.reading.program if view.status else "kafkakit"
    sections += [
        PageSection(
            id="list",
            title="Where it stands",
            pager=pager,
            table=UiTable(
                caption="Partitions, furthest behind first", columns=columns, rows=rows, empty="It has no commits."
            ),
        ),
        PageSection(
            id="next",
            title="Commands",
            commands=[
                str(shell_command("group describe", facts.group, program=program)),
                str(shell_command("streams lag once", facts.group, program=program, by="partition")),
            ],
        ),
    ]
    words = f"{behind} records behind" if lag else "lag not known"
    return page_of(view, f"{facts.group}: {words}", "groups", sections)


def _trend_section(view: ClusterView, group: str) -> PageSection:
    """The lag of the group over the last hour; what was not known, or was in another unit, is a gap."""
    first = next((place for place, sample in enumerate(view.lag) if sample.lag.get(group) is not None), None)
    samples = view.lag[first:] if first is not None else ()
    known = [sample for sample in samples if sample.lag.get(group) is not None]
    if len(known) < 2:
        return PageSection(id="trend")
    is_time = known[-1].is_time
    unit = "Time lag in seconds" if is_time else "Records behind"
    minutes = (samples[-1].at - samples[0].at).total_seconds() / 60
    values = [sample.lag.get(group) if sample.is_time == is_time else None for sample in samples]
    return PageSection(
        id="trend",
        title=f"{unit} over the last {minutes:.0f} minutes",
        chart=sparkline(f"{unit} of {cut_text(group, 249)}", values),
    )
