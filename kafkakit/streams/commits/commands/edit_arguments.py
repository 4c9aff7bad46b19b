"""What the parameters of an editing command mean: which partitions, which dialect, which request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from kafkakit.cli.command_classes import Kit

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.edit_observation import Scope
    from kafkakit.streams.commits.decide.editing.request import Verb

MOST_PARTITIONS = 1_000_000


def edit_as_given(
    ctx: typer.Context,
    kit: Kit,
    group: str,
    verb: Verb,
    given: Mapping[str, Any],
    words: tuple[str, ...],
    scope: Scope,
) -> None:
    """Run an edit by its command's parameters, by name; `words` say how the request was understood."""
    from kafkakit.streams.commits.commands.edit_session import consent_of, edit
    from kafkakit.streams.commits.decide.editing.request import EditRequest, verb_name

    request = EditRequest(
        verb=verb,
        dialect=dialect_of(given["dialect"]) if given.get("dialect") else "",
        adopt=given["adopt"],
        outside_log=given.get("outside_log", False),
        coarsen=given["coarsen"],
    )
    edit(kit, group, scope, request, words, consent_of(ctx, kit, verb_name(verb), group, given))


def scope_of(topic: str, partition: str, all_topics: bool, *, uncommitted: bool = False) -> Scope:
    """The partitions that are meant; `UsageError` unless a topic is named, or all are."""
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.act.edit_observation import Scope

    if bool(topic) == all_topics:
        raise UsageError("name what is meant: --topic NAME, or --all-topics")
    if partition and not topic:
        raise UsageError("--partition goes with --topic")
    return Scope(topic=topic, partitions=_numbers(partition), uncommitted=uncommitted)


def one_partition(topic: str, partition: str) -> Scope:
    """The one partition that offsets belong to; `UsageError` for none or several."""
    from kafkakit.core.errors import UsageError

    scope = scope_of(topic, partition, all_topics=False)
    if len(scope.partitions) != 1:
        raise UsageError("offsets belong to one partition", hint="name it: --topic NAME --partition N")
    return scope


def _numbers(text: str) -> tuple[int, ...]:
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets

    if not text:
        return ()
    ranges = parse_offsets(text, "--partition")
    if (ranges.end or 0) > MOST_PARTITIONS:
        raise UsageError(f"--partition: {text!r:.40} is above the highest partition there can be")
    return tuple(number for start, end in ranges for number in range(start, end))


def dialect_of(written: str) -> str:
    """The dialect by its word of the command line."""
    from kafkakit.streams.formats.dialects.registry import dialect_of_word

    return dialect_of_word(written).name


def local_time(moment: datetime) -> datetime:
    """The moment with the zone of this machine; one without a zone is taken as local."""
    return moment.astimezone()
