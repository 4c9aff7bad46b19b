"""Which topics and brokers a request means, as kafka-kit reads them.

Topics are literals and regular expressions. A name is a literal if every character is a letter, digit, `_`, `-` or a
backslash; it is matched whole. Anything else is an unanchored regular expression, except that a name which is exactly
an existing topic is that topic (kafka-kit would read `a.b` as a pattern that also selects `xa-bz`).

Broker lists are ids and the special values -1 and -2.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.query_text import Node, parse_query

_LITERAL = re.compile(r"[A-Za-z0-9_\-\\]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9._\-]+", re.ASCII)
MAX_PATTERNS = 10_000


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Topics chosen and topics taken out again, both sorted."""

    selected: tuple[str, ...]
    excluded: tuple[str, ...]


def query_of(text: str) -> str | None:
    """The query in `where QUERY`; None for anything else. No name of a topic or broker has a space."""
    first, _, query = text.strip().partition(" ")
    return query if first == "where" else None


def parse_patterns(text: str) -> tuple[str, ...]:
    """Split a comma list; entries are trimmed and empty ones dropped. `where QUERY` is one entry.

    Raises `QueryError` for a query that cannot be read.
    """
    if (query := query_of(text)) is not None:
        parse_query(query)
        return (text.strip(),)
    patterns = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    if len(patterns) > MAX_PATTERNS:
        raise UsageError(f"{len(patterns)} topic patterns given, at most {MAX_PATTERNS} are taken")
    return patterns


def is_topic_name(word: str) -> bool:
    """True where all characters may stand in the name of a topic; any other text is a regular expression."""
    return _NAME.fullmatch(word) is not None


def select_topics(existing: Collection[str], include: Iterable[str], exclude: Iterable[str] = ()) -> TopicSelection:
    """Apply include and exclude patterns to the existing names.

    Raises `UsageError` for a bad pattern or when nothing matches.
    """
    names = frozenset(existing)
    include = tuple(include)
    chosen = matching_topics(names, include, "invalid regex pattern")
    if not chosen:
        raise UsageError(
            f"no topic matches {','.join(include)[:200]!r}",
            hint="list topics with: kafkakit snapshot -o tsv; names with a dot that do not exist are patterns",
        )
    out = matching_topics(frozenset(chosen), tuple(exclude), "Invalid topic regex")
    return TopicSelection(tuple(sorted(chosen - out)), tuple(sorted(out)))


def matching_topics(
    names: frozenset[str], patterns: tuple[str, ...], complaint: str = "invalid regex pattern"
) -> set[str]:
    """The names that one of the patterns selects, each a name or a regular expression; `UsageError` for a bad one."""
    found: set[str] = set()
    for pattern in patterns:
        if pattern in names:
            found.add(pattern)
            continue
        source = f"^{pattern}$" if _LITERAL.fullmatch(pattern) else pattern
        try:
            compiled = re.compile(source)
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"{complaint}: {pattern[:200]} ({error})") from None
        found.update(name for name in names if compiled.search(name))
    return found


EXISTING = -1
ALL = -2
MAX_BROKER_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BrokerList:
    """A parsed `--brokers` value: explicit ids in the given order without duplicates, and the special values.

    With a query (`where`, of the words `text`) the ids are those of the brokers that match, once a cluster is read.
    """

    ids: tuple[int, ...]
    existing: bool = False
    everything: bool = False
    duplicates: tuple[int, ...] = ()
    where: Node | None = None
    text: str = ""

    def resolve(
        self, holding: frozenset[int], live: frozenset[int], leaving: frozenset[int] = frozenset()
    ) -> tuple[int, ...]:
        """Put -1 (brokers holding a selected replica) and -2 (all live brokers) in place; sorted ids.

        Brokers that are `leaving` are among them only where their ids are given.
        """
        chosen = set(self.ids)
        if self.existing:
            chosen |= holding - leaving
        if self.everything:
            chosen |= live - leaving
        return tuple(sorted(chosen))


def parse_broker_list(text: str, flag: str = "--brokers") -> BrokerList:
    """Parse `1001,1002,-1` or `where QUERY`; spaces around ids are trimmed, duplicates dropped and remembered.

    Raises `UsageError` naming the flag and the entry that is no broker id.
    """
    if (query := query_of(text)) is not None:
        return BrokerList(ids=(), where=parse_query(query), text=text.strip())
    ids: list[int] = []
    duplicates: list[int] = []
    for raw in text.split(","):
        entry = raw.strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", entry, re.ASCII) or not ALL <= int(entry) <= MAX_BROKER_ID:
            raise UsageError(
                f"{flag}: {entry[:40]!r} is not a broker id",
                hint="give ids separated by commas; -1 means brokers in use, -2 all brokers",
            )
        number = int(entry)
        (duplicates if number in ids else ids).append(number)
    return BrokerList(
        ids=tuple(i for i in ids if i >= 0),
        existing=EXISTING in ids,
        everything=ALL in ids,
        duplicates=tuple(duplicates),
    )
