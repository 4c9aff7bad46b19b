"""Which version of Kafka a cluster is judged as: what its files or the caller say, else what its settings show.

Versions without a table of definitions are refused, or, if asked for, judged as the nearest that has one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Place
from kafkakit.core.text import printable
from kafkakit.rules.config_defs import MINORS, NEWEST, minor_key, minor_of, minor_or_none, stated_minor
from kafkakit.rules.effective import Configs
from kafkakit.rules.subjects import LintCluster

WITH_ZOOKEEPER = "3.9"
"""The last version that runs with ZooKeeper."""
MIGRATION = "zookeeper.metadata.migration.enable"
_ZOOKEEPER_KEYS = ("zookeeper.connect", "broker.id")
NEAREST = "--nearest-version"


@dataclass(frozen=True, slots=True)
class JudgedVersion:
    """The minor version whose table is used. `because` says why it was assumed; `stated` is what was mapped to it."""

    minor: str
    because: str = ""
    stated: str = ""


def version_of(stated: Iterable[str | None], given: str | None, nodes: Iterable[Configs]) -> JudgedVersion:
    """The version of a cluster: of its own texts the first that is one, else the caller's, else by its nodes."""
    texts = [text for text in (*stated, given) if text is not None and minor_or_none(text) is not None]
    if texts:
        minor = minor_of(texts[0])
        own = stated_minor(texts[0])
        return JudgedVersion(minor, stated="" if own == minor else texts[0])
    if given is not None:
        minor_of(given)  # raises, since it is no version
    return _shown_by(nodes)


def _shown_by(nodes: Iterable[Configs]) -> JudgedVersion:
    found = list(nodes)
    for static in found:
        if MIGRATION in static and static[MIGRATION].text.strip().lower() != "false":
            return JudgedVersion(WITH_ZOOKEEPER, f"{MIGRATION} shows a migration from ZooKeeper (3.4 to 3.9)")
    for static in found:
        key = next((key for key in _ZOOKEEPER_KEYS if key in static), None)
        if key is not None and "process.roles" not in static:
            return JudgedVersion(WITH_ZOOKEEPER, f"{key} without process.roles shows ZooKeeper (3.9 or earlier)")
    return JudgedVersion(NEWEST, "the newest that lint knows, since nothing tells the version")


def refuse_unknown_versions(stated: Iterable[tuple[str | None, Place | None]], is_nearest: bool) -> None:
    """Raise `UsageError` for the first text that is a version without a table, unless the nearest may stand for it."""
    if is_nearest:
        return
    for text, place in stated:
        minor = stated_minor(text) if text is not None else None
        if minor is not None and minor not in MINORS:
            where = f"{printable(place.path)}:{place.line}: " if place is not None else ""
            raise UsageError(
                f"{where}lint has no table of settings for Kafka {minor}",
                hint=f"known: {', '.join(MINORS)}; {NEAREST} judges it as {minor_of(minor)}, without fixes",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """What was assumed of some clusters, and why; the clusters by name, `""` for one without."""

    clusters: tuple[str, ...]
    version: str
    because: str
    is_mapped: bool = False


def assumptions_of(clusters: Sequence[LintCluster]) -> tuple[Assumption, ...]:
    """Each version that was assumed, once, by version and reason."""
    by_reason: dict[tuple[str, str, bool], list[str]] = {}
    for cluster in clusters:
        if cluster.version_because and (cluster.brokers or cluster.topics):
            key = (cluster.table.version, cluster.version_because, cluster.is_version_mapped)
            by_reason.setdefault(key, []).append(cluster.name)
    ordered = sorted(by_reason.items(), key=lambda item: (minor_key(item[0][0]), item[0][1]))
    return tuple(
        Assumption(clusters=tuple(sorted(set(names))), version=version, because=because, is_mapped=is_mapped)
        for (version, because, is_mapped), names in ordered
    )


def assumption_lines(assumptions: Sequence[Assumption]) -> Iterator[str]:
    """Each assumption as a line for people."""
    for one in assumptions:
        named = [printable(name) for name in one.clusters if name]
        of = f" (cluster {', '.join(named)})" if 0 < len(named) <= 5 else f" ({len(named)} clusters)" if named else ""
        then = "without fixes" if one.is_mapped else "--kafka-version VERSION says which it is"
        yield f"assumed: Kafka {one.version}, {one.because}{of}; {then}"
