"""Findings that the owners of a cluster do not want to be told: kinds of findings with globs of names.

A finding is ignored when each thing that it is about is; one that is about many is split before. What is ignored is
counted wherever findings are shown, so that a rule that takes too much is seen.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from kafkakit.config.keys import did_you_mean
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Finding

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "broker": ("broker-down", "broker-hangs"),
    "controller": ("no-controller", "quorum-lag"),
    "disks": ("disk", "dir-offline"),
    "group": ("group-lost", "group-stopped", "group-lag", "group-state"),
    "move": ("moving", "move-stalled", "run-unfinished"),
    "replication": ("under-min-isr", "at-min-isr", "under-replicated"),
    "throttle": ("leftover-throttle",),
}
"""Words for several kinds at once."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IgnoreEntry:
    """Kinds of findings by the names of their rules, and the glob of what they are about."""

    rules: frozenset[str]
    glob: str

    def fits(self, rule: str, name: str) -> bool:
        """Whether it names this thing: a partition by itself or by its topic, a log dir also by its broker."""
        return rule in self.rules and any(fnmatchcase(each, self.glob) for each in _names_of(name))


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """What is ignored, and what asked for it, in words."""

    entries: tuple[IgnoreEntry, ...] = ()
    source: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether all that a finding is about is ignored."""
        names = finding.subjects or (finding.where,)
        return bool(self.entries) and all(self._fits(finding.rule, name) for name in names)

    def split(self, rule: str, items: Sequence[T], names: Sequence[str]) -> tuple[list[T], list[T]]:
        """The things of a finding that are kept, and those that are ignored; `names` are theirs, in the same order."""
        if not any(rule in entry.rules for entry in self.entries):
            return list(items), []
        kept: list[T] = []
        ignored: list[T] = []
        for item, name in zip(items, names, strict=True):
            (ignored if self._fits(rule, name) else kept).append(item)
        return kept, ignored

    def _fits(self, rule: str, name: str) -> bool:
        return any(entry.fits(rule, name) for entry in self.entries)


NOTHING_IGNORED = IgnoreRules()


def parse_ignored(texts: Mapping[str, Sequence[str]], known: Collection[str]) -> IgnoreRules:
    """Entries as `KIND:GLOB` or `KIND` by what gave them; `known` are the names of rules, which are kinds.

    `UsageError` for a kind that does not exist: an entry that is mistyped would ignore nothing, and nobody would see.
    """
    entries = []
    for source, items in texts.items():
        for text in items:
            kind, _, glob = text.partition(":")
            rules = frozenset({kind} if kind in known else FAMILIES.get(kind, ()))
            if not rules:
                raise UsageError(
                    f"{source}: {kind[:60]!r} is not a kind of finding{did_you_mean(kind, {*known, *FAMILIES})}",
                    hint=f"kinds are {', '.join(sorted({*known, *FAMILIES}))}",
                )
            entries.append(IgnoreEntry(rules, glob or "*"))
    return IgnoreRules(tuple(entries), " and ".join(source for source, items in texts.items() if items))


def _names_of(name: str) -> tuple[str, ...]:
    """`topic/3` is named by its topic too, and `group billing` and `broker 1 /data` by what follows the kind."""
    kind, _, rest = name.partition(" ")
    if rest and kind in ("broker", "group", "run", "stream", "service"):
        return name, rest, rest.partition(" ")[0]
    topic, _, partition = name.rpartition("/")
    return (name, topic) if topic and partition.isdigit() else (name,)
