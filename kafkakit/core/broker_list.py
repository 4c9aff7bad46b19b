"""Broker lists as kafka-kit takes them: ids and the special values -1 and -2."""

import re
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.query.nodes import Node
from kafkakit.core.query.parser import parse_query
from kafkakit.core.topic_selection import query_of

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
