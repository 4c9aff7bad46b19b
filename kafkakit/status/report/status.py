"""The status of clusters as text for a terminal, as data, as rows, and in the form of Nagios' plugins."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, groupby, repeat
from statistics import mean
from textwrap import wrap

from kafkakit.core.findings import SHOWN_OF_A_RULE, FailOn, Finding, Severity
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.text import few_of, sanitize
from kafkakit.report.report import FactList, Part, Report, ResultTable, attributes
from kafkakit.status.decide.delays import furthest, uncompared_words
from kafkakit.status.decide.judgement import (
    THRESHOLDS,
    BrokerStatus,
    ClusterStatus,
    Health,
    PartName,
    exit_code,
    overall,
)
from kafkakit.status.decide.surroundings import SeenService, late_voters, moves_words
from kafkakit.status.report.objects import broker_cells, pod_lines, pods_data

COLUMNS = ("profile", "severity", "check", "where", "count", "since_s", "message", "command")
WIDE = 120
_FLEET = ("cluster", "health", "brokers", "offline", "min-isr", "urp", "disk", "worst")
_UNKNOWN = "?"
_NAMES = 13
_MOST_WELL = 16


def status_report(clusters: Sequence[ClusterStatus], *, fail_on: FailOn, width: int, is_fleet: bool = False) -> Report:
    """One cluster on a screen, or several as one table."""
    one = not is_fleet and len(clusters) == 1
    return Report(
        command="status",
        data=status_data(clusters),
        sections=cluster_sections(clusters[0], width) if one else fleet_sections(clusters, width),
        table=_table(clusters),
        colored=True,
        code=exit_code(clusters, fail_on),
    )


def nagios_report(clusters: Sequence[ClusterStatus], *, fail_on: FailOn) -> Report:
    """One line with figures, and the exit codes of Nagios' plugins: 0 ok, 1 warning, 2 critical, 3 unknown."""
    health = overall(clusters)
    words = {Health.OK: "OK", Health.WARNING: "WARNING", Health.ERROR: "CRITICAL", Health.UNKNOWN: "UNKNOWN"}
    codes = {Health.OK: 0, Health.WARNING: 1, Health.ERROR: 2, Health.UNKNOWN: 3}
    told = [f"{c.reading.profile}: {finding.message}" for c in clusters for finding in c.findings
            if finding.severity is not Severity.NOTE]  # fmt: skip
    told += [f"{c.reading.profile}: {c.worst}" for c in clusters if c.health is Health.UNKNOWN]
    told += [f"{c.reading.profile}: {c.unread_words}" for c in clusters if c.unread and c.health is not Health.UNKNOWN]
    ignored = [f"{c.reading.profile}: {c.ignored_words}" for c in clusters if c.ignored]
    figures = " ".join(_figures(clusters))
    line = f"{words[health]} - {'; '.join([*(told or ['no findings']), *ignored])}".replace("|", "/")
    return Report(
        command="status",
        data=status_data(clusters),
        sections=(f"{sanitize(line)} | {figures}" if figures else sanitize(line),),
        table=_table(clusters),
        code=codes[health],
    )


def _table(clusters: Sequence[ClusterStatus]) -> ResultTable:
    return ResultTable(COLUMNS, tuple(row for cluster in clusters for row in _rows(cluster)))


def _figures(clusters: Sequence[ClusterStatus]) -> Iterator[str]:
    for cluster in clusters:
        counts = cluster.counts
        if counts is not None:
            name = cluster.reading.profile.replace("'", "_").replace("=", "_")
            yield f"'{name} offline'={counts.offline}"
            yield f"'{name} under_min_isr'={counts.under_min_isr}"
            yield f"'{name} under_replicated'={counts.under_replicated}"


def watch_line(clusters: Sequence[ClusterStatus]) -> str:
    """All that is wrong in one line, which stays the same while nothing changes."""
    parts = []
    for cluster in clusters:
        rules = dict.fromkeys(f.rule for f in cluster.findings if f.severity is not Severity.NOTE)
        why = ", ".join(rules) or cluster.worst
        parts.append(f"{sanitize(cluster.reading.profile)} {cluster.health.value}" + (f": {why}" if why else ""))
    return "; ".join(parts)


# -- one cluster


def cluster_sections(cluster: ClusterStatus, width: int) -> list[Part]:
    """One screen: the word, findings worst first, each followed by its command, then figures of each part."""
    sections: list[Part] = [_head(cluster, width), *_identity(cluster), ""]
    told = [f for f in cluster.findings if f.severity is not Severity.NOTE]
    names = max((len(f.rule) for f in told), default=0)
    for _, same in groupby(told, key=lambda f: (f.severity, f.rule)):
        of_kind = list(same)
        for finding in of_kind[:SHOWN_OF_A_RULE]:
            sections += _finding_lines(cluster, finding, names, width)
        if len(of_kind) > SHOWN_OF_A_RULE:
            sections.append(f"{'':9}and {len(of_kind) - SHOWN_OF_A_RULE} more {of_kind[0].rule}: -o json")
    sections += _unknown_lines(cluster, names, width)
    if len(sections) > 3:
        sections.append("")
    if width >= WIDE and any(_is_unwell(row) for row in cluster.brokers):
        sections += [*_broker_table(cluster), ""]
    return [*sections, FactList(_wrap_facts(_summary(cluster), width - _NAMES), width=_NAMES)]


def _wrap_facts(pairs: Iterable[tuple[str, str]], width: int) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        yield from _below(name, wrap(value, max(30, width), break_on_hyphens=False, break_long_words=False) or [""])


def _head(cluster: ClusterStatus, width: int) -> str:
    reading = cluster.reading
    numbers = Counter(f.severity for f in cluster.findings)
    counts = ", ".join(count_of(numbers[s], s.value) for s in (Severity.ERROR, Severity.WARNING) if numbers[s])
    if cluster.unread:
        counts += (", " if counts else "") + f"{count_of(len(cluster.unread), 'part')} not known"
    word = cluster.health.value.upper()
    left = f"{sanitize(reading.profile)}  {word}" + (f"  {counts}" if counts else "")
    right = f"{reading.at.astimezone(UTC):%H:%M:%SZ}, read in {reading.took_ms / 1000:.1f} s"
    gap = " " * max(2, width - len(left) - len(right))
    return left + gap + right


def _identity(cluster: ClusterStatus) -> list[str]:
    info = cluster.reading.info
    if info is None:
        return []
    return [f"cluster {info.cluster_id}" + (f", Kafka {info.kafka_version}" if info.kafka_version else "")]


def _finding_lines(cluster: ClusterStatus, finding: Finding, names: int, width: int) -> list[str]:
    age = cluster.since.get(finding.fingerprint)
    message = sanitize(finding.message) + (f"; for {format_rough_time(age)}" if age is not None and age >= 60 else "")
    return _entry(finding.severity.value, finding.rule, message, finding.hint, names, width)


def _entry(word: str, check: str, message: str, command: str, names: int, width: int) -> list[str]:
    indent = " " * 9
    first = f"{word:<8} {check:<{names}} "
    wrapped = wrap(message, max(30, width - len(first)), break_on_hyphens=False) or [""]
    lines = [first + wrapped[0]]
    lines += [" " * len(first) + more for more in wrapped[1:]]
    return [*lines, f"{indent}{command}"] if command else lines


def _unknown_lines(cluster: ClusterStatus, names: int, width: int) -> Iterator[str]:
    for part in cluster.unread:
        yield from _entry("unknown", part.name.value, sanitize(part.error), "", names, width)


def _summary(cluster: ClusterStatus) -> Iterator[tuple[str, str]]:
    yield "brokers", _brokers(cluster)
    yield "controller", _controller(cluster)
    yield "partitions", _partitions(cluster)
    yield "disk", _disk(cluster)
    yield "moves", _moves(cluster)
    yield from _below("groups", _groups(cluster))
    yield from _below("services", [one.words(cluster.reading.at) for one in cluster.reading.services or ()])
    if cluster.reading.pods is not None:
        yield from _below("pods", pod_lines(cluster.reading.pods, cluster.reading.at))
    yield "findings", _other(cluster)


def _below(name: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Several lines of one name."""
    yield from zip(chain((name,), repeat("")), lines, strict=False)


def _brokers(cluster: ClusterStatus) -> str:
    rows = cluster.brokers
    if cluster.reading.info is None:
        return _UNKNOWN
    alive = [row for row in rows if row.state in ("alive", "hangs")]
    racks = {row.rack for row in alive if row.rack}
    text = f"{len(alive)} of {len(rows)} alive" + (f" in {count_of(len(racks), 'rack')}" if racks else "")
    if cordoned := sorted(cluster.reading.cordoned or {}):
        text += f"; cordoned: {few_of(cordoned)}"
    leaders = [row.leaders for row in alive if row.leaders is not None]
    if leaders and sum(leaders):
        text += f"; leaders {min(leaders):,} to {max(leaders):,} each (even: {round(mean(leaders)):,})"
    return text


def _controller(cluster: ClusterStatus) -> str:
    reading = cluster.reading
    quorum = reading.quorum
    if quorum is None:
        if reading.info is None or reading.failure_of(PartName.CONTROLLER):
            return _UNKNOWN
        return "none" if reading.info.controller_id is None else f"{reading.info.controller_id} (no quorum: ZooKeeper)"
    late = late_voters(quorum, THRESHOLDS.voter_behind_ms)
    leader = "none leads" if quorum.leader is None else f"{quorum.leader} leads"
    known = _UNKNOWN if late is None else len(quorum.voters) - len(late)
    return f"{leader}; {known} of {count_of(len(quorum.voters), 'voter')} caught up"


def _partitions(cluster: ClusterStatus) -> str:
    counts = cluster.counts
    if counts is None:
        return _UNKNOWN
    bad = [
        f"{number} {words}"
        for number, words in (
            (counts.offline, "offline"),
            (counts.under_min_isr, "under min ISR"),
            (counts.under_replicated, "under-replicated"),
        )
        if number
    ]
    other = f"; {counts.not_preferred:,} not on their preferred leader" if counts.not_preferred else ""
    return f"{counts.total:,}: {', '.join(bad) or 'all led and in sync'}{other}"


def _disk(cluster: ClusterStatus) -> str:
    known = [row for row in cluster.brokers if row.fullest is not None]
    if not known:
        return _UNKNOWN if cluster.reading.disks is None else "not told by the brokers (before Kafka 3.3)"
    worst = max(known, key=lambda row: row.fullest or 0.0)
    used = sum(row.used_bytes or 0 for row in known)
    total = sum(row.total_bytes or 0 for row in known)
    missing = len(cluster.brokers) - len(known)
    unknown = f"; {count_of(missing, 'broker')} not known" if missing else ""
    return (
        f"fullest {_share(worst.fullest)} ({worst.id} {_last_part(worst.fullest_dir)}); {format_bytes(used)} of "
        f"{format_bytes(total)} used{unknown}"
    )


def _moves(cluster: ClusterStatus) -> str:
    view, rates = cluster.reading.moves, cluster.reading.rates
    if view is None:
        return _UNKNOWN
    moves = moves_words(view) if view.moves or view.inside else "none"
    throttles = (
        _UNKNOWN + " throttles" if rates is None else f"throttles on {few_of(rates)}" if rates else "no throttles"
    )
    lease = view.around.lease
    if lease is not None and not lease.is_known:
        return f"{moves}; {throttles}; lock {_UNKNOWN}"
    if lease is not None and lease.is_in_use:
        holder = lease.locked_by or (str(lease.record.holder) if lease.record and lease.record.holder else "")
        return f"{moves}; {throttles}; lock held by {sanitize(holder)}"
    return f"{moves}; {throttles}; lock free"


def _last_part(path: str) -> str:
    """A path that fits a line with figures; a long one by its end."""
    return sanitize(path if len(path) <= 24 else f".../{path.rstrip('/').rpartition('/')[2]}")


def _groups(cluster: ClusterStatus) -> Iterator[str]:
    reading = cluster.reading
    groups = reading.groups
    if groups is None:
        yield _UNKNOWN
        return
    states = Counter("active" if g.state.value == "stable" else g.state.value.replace("_", " ") for g in groups)
    at_least = "at least " if reading.failure_of(PartName.GROUPS) else ""
    yield f"{at_least}{len(groups)}" + "".join(
        f"{': ' if not number else ', '}{count} {state}" for number, (state, count) in enumerate(states.most_common())
    )
    if groups:
        yield _time_lag(cluster)
    if uncompared := uncompared_words(groups):
        yield uncompared


def _time_lag(cluster: ClusterStatus) -> str:
    """How far behind in time the groups are, and as of when where that is not now."""
    reading = cluster.reading
    measured, worst = reading.measured, furthest(reading.lag)
    if measured is None:
        if reading.failure_of(PartName.TIME_LAG):  # which is told above
            return "time lag not known"
        return "time lag not known: no monitor's figures here (--deep measures it)"
    age = format_rough_time(measured.age_s(reading.at))
    ago = f" ({age} ago; --deep measures it now)" if measured.is_old(reading.at) else ""
    if worst is None:
        return f"no group is known to be behind in time{ago}"
    return f"most behind: {sanitize(worst.group)} {format_rough_time((worst.time_lag_ms or 0) / 1000)}{ago}"


def _other(cluster: ClusterStatus) -> str:
    reading = cluster.reading
    parts = []
    if reading.lint is not None:
        age = format_rough_time((reading.at - reading.lint.at).total_seconds())
        parts.append(f"lint {count_of(len(reading.lint.errors), 'error')}, "
                     f"{count_of(reading.lint.warnings, 'warning')} ({age} old)")  # fmt: skip
    else:
        parts.append("lint --live has not run here")
    if cluster.ignored:
        parts.append(cluster.ignored_words)
    if reading.certificates:
        left = (min(reading.certificates.values()) - reading.at).total_seconds()
        parts.append(f"certificates {format_rough_time(left)} left" if left > 0 else "a certificate has expired")
    return "; ".join(parts)


def _broker_table(cluster: ClusterStatus) -> list[Part]:
    unwell = [row for row in cluster.brokers if _is_unwell(row)]
    columns = ("broker", "rack", "state", "leaders", "replicas", "short", "disk", "free", "throttle", "certificate")
    rest = len(cluster.brokers) - len(unwell)
    more = [f"and {rest} more"] if rest else []
    return [ResultTable(columns, [broker_cells(cluster, row) for row in unwell]), *more]


def _is_unwell(row: BrokerStatus) -> bool:
    return row.state != "alive" or bool(row.short) or (row.fullest or 0) >= 0.85


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0%}"


# -- a fleet


def fleet_sections(clusters: Sequence[ClusterStatus], width: int) -> list[Part]:
    """One line a cluster, worst first; those that are well in one line at the end."""
    order = list(Health)
    health = overall(clusters)
    numbers = Counter(cluster.health for cluster in clusters)
    counts = ", ".join(f"{numbers[each]} {each.value}" for each in reversed(order) if numbers[each])
    at = max((c.reading.at for c in clusters), default=datetime.fromtimestamp(0, UTC))
    word = health.value.upper()
    left, right = f"fleet  {word}  {count_of(len(clusters), 'cluster')}: {counts}", f"{at.astimezone(UTC):%H:%M:%SZ}"
    sections: list[Part] = [left + " " * max(2, width - len(left) - len(right)) + right]
    shown = [c for c in clusters if c.health is not Health.OK]
    shown.sort(key=lambda c: (-order.index(c.health), c.reading.profile))
    if shown:
        sections.append(ResultTable(_FLEET, [_fleet_cells(c) for c in shown]))
    well = sorted(sanitize(c.reading.profile) for c in clusters if c.health is Health.OK)
    if well:
        more = " ..." if len(well) > _MOST_WELL else ""
        sections.append(f"ok: {' '.join(well[:_MOST_WELL])}{more} ({len(well)})")
    ignored = [f"{len(c.ignored)} of {sanitize(c.reading.profile)}" for c in clusters if c.ignored]
    if ignored:
        sections.append(f"ignored findings: {few_of(ignored)}")
    return sections


def _fleet_cells(cluster: ClusterStatus) -> tuple[object, ...]:
    counts = cluster.counts
    alive = sum(row.state == "alive" for row in cluster.brokers)
    worst = max((row.fullest for row in cluster.brokers if row.fullest is not None), default=None)
    return (
        sanitize(cluster.reading.profile),
        cluster.health.value,
        f"{alive}/{len(cluster.brokers)}" if cluster.brokers else "-",
        "-" if counts is None else counts.offline,
        "-" if counts is None else counts.under_min_isr,
        "-" if counts is None else counts.under_replicated,
        "-" if worst is None else _share(worst),
        sanitize(cluster.worst),
    )


# -- data


def status_data(clusters: Sequence[ClusterStatus]) -> dict[str, object]:
    """Everything for programs; what is not known is null."""
    return {"health": overall(clusters).value, "clusters": [_cluster_data(cluster) for cluster in clusters]}


def _cluster_data(cluster: ClusterStatus) -> dict[str, object]:
    reading = cluster.reading
    numbers = Counter(f.severity for f in cluster.findings)
    info, quorum = reading.info, reading.quorum
    return {
        "profile": reading.profile,
        "cluster_id": info.cluster_id if info else None,
        "kafka_version": info.kafka_version if info else None,
        "at": reading.at,
        "took_ms": reading.took_ms,
        "health": cluster.health.value,
        "counts": {
            **{severity.value: numbers[severity] for severity in Severity},
            "unknown": len(cluster.unread),
        },
        "findings": [_finding_data(cluster, finding) for finding in cluster.findings],
        "ignored": [_finding_data(cluster, finding) for finding in cluster.ignored],
        "brokers": None if info is None else [_broker_data(row) for row in cluster.brokers],
        **({} if reading.pods is None else {"pods": pods_data(reading.pods)}),
        "controller": None
        if quorum is None
        else {
            "leader": quorum.leader,
            "voters": [attributes(voter, "id behind_ms behind_records") for voter in quorum.voters],
        },
        "partitions": None
        if cluster.counts is None
        else attributes(cluster.counts, "total offline under_min_isr at_min_isr under_replicated not_preferred"),
        "moves": _moves_data(cluster),
        "groups": _groups_data(cluster),
        "services": None if reading.services is None else [_service_data(one, reading.at) for one in reading.services],
        "lint": None
        if reading.lint is None
        else {"errors": list(reading.lint.errors), "warnings": reading.lint.warnings, "at": reading.lint.at},
        "parts": {
            part.name.value: {"took_ms": part.took_ms, "error": part.error or None, "is_denied": part.is_denied}
            for part in reading.parts
        },
    }


def _finding_data(cluster: ClusterStatus, finding: Finding) -> dict[str, object]:
    age = cluster.since.get(finding.fingerprint)
    since = None if age is None else datetime.fromtimestamp(cluster.reading.at.timestamp() - age, UTC)
    return {
        **attributes(finding, "rule severity where message fingerprint count subjects"),
        "command": finding.hint,
        "since": since,
    }


def _broker_data(row: BrokerStatus) -> dict[str, object]:
    disk = {"used": row.used_bytes, "total": row.total_bytes, "fullest": row.fullest, "dir": row.fullest_dir}
    return {
        **attributes(row, "id rack state leaders replicas short"),
        "disk": None if row.total_bytes is None else disk,
        "throttle": row.throttle or None,
        "certificate_until": row.certificate_until,
    }


def _moves_data(cluster: ClusterStatus) -> dict[str, object] | None:
    view = cluster.reading.moves
    if view is None:
        return None
    eta = [run.eta_s for run in view.runs if run.eta_s is not None]
    return {
        "running": len(view.moves),
        "between_log_dirs": len(view.inside),
        "stalled": len(view.stalled),
        "copied_bytes": view.copied_bytes,
        "total_bytes": view.total_bytes,
        "eta_s": max(eta) if eta else None,
        "runs": [attributes(run, "id plan_path direction working paused moves") for run in view.runs],
    }


def _groups_data(cluster: ClusterStatus) -> dict[str, object] | None:
    reading = cluster.reading
    if reading.groups is None:
        return None
    states, measured, worst = Counter(g.state.value for g in reading.groups), reading.measured, furthest(reading.lag)
    return {
        "by_state": dict(sorted(states.items())),
        "worst": None if worst is None else {"group": worst.group, "time_lag_ms": worst.time_lag_ms},
        "behind": [attributes(one, "group status lag time_lag_ms over_limit") for one in reading.lag or ()],
        "measured": None
        if measured is None
        else {"at": measured.at, "is_old": measured.is_old(reading.at), "left_out": measured.left_out},
    }


def _service_data(service: SeenService, now: datetime) -> dict[str, object]:
    record = service.record
    return {
        "name": service.name.value,
        "alive": service.is_alive(now),
        "holder": None if record.holder is None else str(record.holder),
        "since": record.taken_at,
        "last_seen": record.renewed_at,
        "needed_by": list(service.needs),
    }


def _rows(cluster: ClusterStatus) -> Iterator[tuple[object, ...]]:
    for f in cluster.findings:
        age = cluster.since.get(f.fingerprint)
        since: object = None if age is None else round(age)
        yield cluster.reading.profile, f.severity.value, f.rule, f.where, f.count, since, f.message, f.hint
    for f in cluster.ignored:
        yield cluster.reading.profile, "ignored", f.rule, f.where, f.count, None, f.message, f.hint
    for part in cluster.unread:
        yield cluster.reading.profile, "unknown", part.name.value, "", 1, None, part.error, ""
