"""From the work on a partition to its commit, and from a commit back to the work."""

from dataclasses import dataclass, replace
from typing import TypeVar

from kafkakit.core.errors import UsageError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.streams.client.decide.partition_work import PartitionWork
from kafkakit.streams.model.commit import CommitIdentity, CommitState, RouteMark, Watermark, Writer
from kafkakit.streams.model.dialects.registry import dialect_named, read_metadata
from kafkakit.streams.model.kkm1.encode import Advice, Encoded, advise, encode_commit

T = TypeVar("T")
MIN_LIMIT_CHARS = 64
"""No payload says anything in less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRule:
    """How long commit metadata may be, less one for a NUL that clients append, and in which alphabets, `b` then `w`."""

    limit_chars: int = 4095
    alphabets: tuple[str, ...] = ("b",)

    def __post_init__(self) -> None:
        if self.limit_chars < MIN_LIMIT_CHARS or self.alphabets not in (("b",), ("b", "w"), ("w",)):
            raise UsageError(
                f"{self} is no rule of commits", hint=f"{MIN_LIMIT_CHARS} characters or more; b, w or both"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommit:
    """A commit to make: what it says to the next owner is `encoded.written`."""

    offset: int
    encoded: Encoded
    advice: Advice

    @property
    def committed(self) -> CommittedOffset:
        """The offset with its metadata."""
        return CommittedOffset(offset=self.offset, metadata=self.encoded.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCommit:
    """What the work begins with. `problem` says why metadata were not used: records are then handled again.

    `is_newer` for metadata of a newer version of this client, over which only an operator's decision may commit.
    """

    state: CommitState
    problem: str = ""
    is_newer: bool = False


def restore_commit(commit: CommittedOffset, identity: CommitIdentity) -> RestoredCommit:
    """What a commit means for this partition and group; never raises.

    Only metadata that are proven to be written for this very commit are used; all else is handled again from the
    committed offset on, which no reader can get wrong.
    """
    if commit.offset < 0:
        return RestoredCommit(state=CommitState(base=0), problem=f"the committed offset is {commit.offset}")
    empty = CommitState(base=commit.offset)
    reading = read_metadata(commit.metadata, commit.offset, identity)
    dialect = dialect_named(reading.dialect)
    if reading.problem is None and reading.is_bound:
        return RestoredCommit(state=replace(reading.state, spill=None))
    if not dialect.has_payload:
        return RestoredCommit(state=empty)
    return RestoredCommit(
        state=empty,
        problem=reading.reason or f"metadata of {dialect.reader} are not bound to this commit",
        is_newer=reading.problem is not None and reading.problem in dialect.newer_problems,
    )


def next_commit(
    work: PartitionWork[T],
    identity: CommitIdentity,
    rule: CommitRule,
    *,
    route: RouteMark | None,
    writer: Writer | None,
) -> NextCommit:
    """What to commit now; tells the work how full the metadata are, so that it pauses and closes holes in time."""
    oldest_ms = work.oldest_ms()
    newest_ms = work.newest_done_ms
    watermark = None
    if oldest_ms is not None or newest_ms >= 0:
        # The record after the newest done one was not read: it is about as old as that.
        oldest_ms = newest_ms if oldest_ms is None else oldest_ms
        watermark = Watermark(oldest_ms=oldest_ms, newest_done_ms=newest_ms if newest_ms >= 0 else oldest_ms)
    state = replace(work.state(), watermark=watermark, route=route, writer=writer)
    encoded = encode_commit(state, identity, limit_chars=rule.limit_chars, alphabets=rule.alphabets)
    advice = advise(encoded, rule.alphabets)
    work.commit_fill = 1.0 if advice.should_close_holes else encoded.fill
    # Without a hole nothing that is under way would make the metadata shorter.
    work.must_pause = advice.should_pause and bool(state.done)
    return NextCommit(offset=state.base, encoded=encoded, advice=advice)
