"""Which topics a request means: literals and regular expressions, as kafka-kit reads them.

A name is a literal if every character is a letter, digit, `_`, `-` or a backslash; it is matched whole.
Anything else is an unanchored regular expression, except that a name which is exactly an existing topic
is that topic (kafka-kit would read `a.b` as a pattern that also selects `xa-bz`).
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.query.parser import parse_query

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
