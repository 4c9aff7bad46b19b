"""Which topics and brokers a request means, as kafka-kit reads them.

Topics are literals and regular expressions. A name is a literal if every character is a letter, digit, `_`, `-` or a
backslash; it is matched whole. Anything else is an unanchored regular expression, except that a name which is exactly
an existing topic is that topic (kafka-kit would read `a.b` as a pattern that also selects `xa-bz`). Expressions are
those of Go, which are RE2: with POSIX classes, `[[:digit:]]`, without look-ahead and back-references.

Broker lists are ids and the special values -1 and -2.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kafkakit.core.errors import UsageError
from kafkakit.core.query_text import Node, parse_query
from kafkakit.core.text import few_of, sanitize

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

    Raises `UsageError` for a bad pattern, for a plain name that does not exist, or when nothing matches.
    """
    names = frozenset(existing)
    include = tuple(include)
    chosen = matching_topics(names, include, "invalid regex pattern")
    missing = [word for word in include if word and word not in names and _is_name(word)]
    if chosen and missing:
        near = get_close_matches(missing[0], sorted(names), n=3)
        raise UsageError(
            f"topic {missing[0]} does not exist" if len(missing) == 1 else f"topics {few_of(missing)} do not exist",
            hint=f"is it {' or '.join(near)}?" if near else f"the topics are {few_of(sorted(names))}",
        )
    if not chosen:
        raise UsageError(
            f"no topic matches {','.join(include)[:200]!r}",
            hint=f"the topics are {few_of(sorted(names))}; names with a dot that do not exist are patterns"
            if names
            else None,
        )
    out = matching_topics(frozenset(chosen), tuple(exclude), "Invalid topic regex")
    return TopicSelection(tuple(sorted(chosen - out)), tuple(sorted(out)))


def matching_topics(
    names: frozenset[str], patterns: tuple[str, ...], complaint: str = "invalid regex pattern"
) -> set[str]:
    """The names that one of the patterns selects, each a name or a regular expression; `UsageError` for a bad one."""
    found = names.intersection(patterns)
    others = [p for p in patterns if p not in names and not _is_name(p)]
    expressions = _compile_patterns(others, complaint)
    if ".*" in others:
        return set(names)
    for start in range(0, len(expressions), _EXPRESSIONS_AT_ONCE):
        found |= _match_names(names - found, expressions[start : start + _EXPRESSIONS_AT_ONCE])
    return set(found)


def _is_name(word: str) -> bool:
    """True for a literal without a backslash, which is a whole name and not a pattern, as in kafka-kit."""
    return _LITERAL.fullmatch(word) is not None and "\\" not in word


_EXPRESSIONS_AT_ONCE = 100
_EXPRESSION_BYTES = 64 << 20
_LONGEST_EXPRESSION = 10_000
# Go refuses this one, which takes a text apart inside a letter; RE2 for C++ takes it.
_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_HINT = "patterns are RE2, as in Go and kafka-kit: https://github.com/google/re2/wiki/Syntax"
_LOOK_AROUND_HINT = (
    "patterns are RE2, as in Go and kafka-kit, without look-ahead, look-behind and back-references; "
    "an option that excludes, such as --topics-exclude, leaves out what a pattern cannot"
)


def _options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _EXPRESSION_BYTES
    return options


def _compile_patterns(patterns: Iterable[str], complaint: str) -> list[Any]:
    expressions: list[Any] = []
    for pattern in patterns:
        import re2

        def refused(why: str, hint: str = _HINT, pattern: str = pattern) -> UsageError:
            return UsageError(f"{complaint}: {sanitize(pattern)[:200]} ({why})", hint=hint)

        if len(pattern) > _LONGEST_EXPRESSION:
            raise refused(f"it has {len(pattern)} characters, at most {_LONGEST_EXPRESSION} are taken")
        if _SINGLE_BYTE.search(pattern):
            raise refused("invalid escape sequence: \\C")
        try:
            source = f"^{pattern}$" if _LITERAL.fullmatch(pattern) else pattern
            expressions.append(re2.compile(source, _options()))
        except UnicodeError:
            raise refused("it is not UTF-8") from None
        except re2.error as error:
            said = error.args[0]
            why = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
            is_missing = why.startswith("invalid perl operator") or re.search(r"escape sequence: \\[1-9]", why)
            raise refused(sanitize(why)[:200], _LOOK_AROUND_HINT if is_missing else _HINT) from None
    return expressions


def _match_names(names: Collection[str], expressions: list[Any]) -> set[str]:
    """The names that one of the expressions is found in: all are looked for at once, in a seventh of the time."""
    import re2

    together = re2.Set.SearchSet(_options())
    for expression in expressions:
        together.Add(expression.pattern)
    together.Add("")  # is found in every name: a set that finds nothing at all has run out of memory
    together.Compile()
    found: set[str] = set()
    for name in names:
        matches = together.Match(name)
        if len(matches) > 1 or (not matches and any(e.search(name) for e in expressions)):
            found.add(name)
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


_WORDS = {"in-use": str(EXISTING), "all": str(ALL)}


def parse_broker_list(text: str, flag: str = "--brokers") -> BrokerList:
    """Parse `1001,1002,in-use` (or `-1`, as kafka-kit has it) or `where QUERY`.

    Spaces around ids are trimmed, duplicates dropped and remembered.
    Raises `UsageError` naming the flag and the entry that is no broker id.
    """
    if (query := query_of(text)) is not None:
        return BrokerList(ids=(), where=parse_query(query), text=text.strip())
    ids: list[int] = []
    duplicates: list[int] = []
    for raw in text.split(","):
        entry = raw.strip()
        entry = _WORDS.get(entry.lower(), entry)
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", entry, re.ASCII) or not ALL <= int(entry) <= MAX_BROKER_ID:
            raise UsageError(
                f"{flag}: {entry[:40]!r} is not a broker id",
                hint="give ids separated by commas; in-use (or -1) means brokers in use, all (or -2) all brokers",
            )
        number = int(entry)
        (duplicates if number in ids else ids).append(number)
    return BrokerList(
        ids=tuple(i for i in ids if i >= 0),
        existing=EXISTING in ids,
        everything=ALL in ids,
        duplicates=tuple(duplicates),
    )
