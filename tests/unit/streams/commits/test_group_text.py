"""A group on a screen: what comes first when there is more than fits, and what a watch shows where."""

from dataclasses import replace

from kafkakit.core.cluster_facts import GroupState, GroupType, ItemError, LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.report.report import text_of
from kafkakit.streams.commits.act.reading import GroupDisplay
from kafkakit.streams.commits.decide.group_look import GroupLook, MetadataLimits
from kafkakit.streams.commits.report.commits import ASCII
from kafkakit.streams.commits.report.groups import IN_FULL, TABLE_ROWS, group_sections, screen_text
from kafkakit.streams.model.commit import CommitState, OffsetRanges, Reading
from kafkakit.streams.model.dialects.dialect import CommitFacts

NOW = 1_758_335_260_726


def commit(partition: int, *, done: tuple[tuple[int, int], ...] = (), base: int = 5, end: int = 100) -> CommitFacts:
    return CommitFacts(
        offset=base,
        metadata="",
        reading=Reading(
            dialect="kkm1" if done else "plain",
            state=CommitState(base=base, done=OffsetRanges(done)),
            chars=0,
        ),
        at_ms=NOW,
        key=TopicPartition("t", partition),
        group="g",
        span=LogSpan(start=0, stable=end, end=end),
    )


def look(*commits: CommitFacts) -> GroupLook:
    return GroupLook(
        group="g",
        cluster_id="c",
        at_ms=NOW,
        type=GroupType.CONSUMER,
        state=GroupState.STABLE,
        limits=MetadataLimits(of_broker={1: 4096}),
        commits=commits,
        refused={TopicPartition("u", 0): ItemError(name="X")},
        unread_logs={TopicPartition("v", 0): ItemError(name="Y")},
    )


class ScreenSpy:
    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    def show(self, text: str, line: str) -> None:
        self.shown.append((text, line))


def test_commits_that_hold_something_are_told_in_full_and_never_cut_from_the_table() -> None:
    dull = [commit(number) for number in range(TABLE_ROWS + 10)]
    last = [commit(1000 + number, done=((7, 9),)) for number in range(IN_FULL + 2)]
    wrong = commit(2000, base=101)
    text = text_of(group_sections(look(*dull, *last, wrong), width=80, style=ASCII))
    assert text.count("of group g: committed") == IN_FULL
    assert text.index("t-2000 of group g") < text.index("t-1000 of group g"), "an error goes first"
    assert "and 21 more commits" in text
    assert "and 3 more that hold something" in text
    rows = [line.split()[1] for line in text.splitlines() if line.startswith("t   ")]
    assert len(rows) == TABLE_ROWS
    assert {str(1000 + number) for number in range(IN_FULL + 2)} | {"2000"} <= set(rows)
    assert text.endswith("cannot be read: u-0: X\nnote: the log of v-0 cannot be read: Y\n")


def test_a_screen_keeps_to_its_rows() -> None:
    held = look(*(commit(number) for number in range(100)))
    assert len(screen_text(held, rows=24).splitlines()) <= 24
    assert "no commits" in screen_text(look(), rows=24)


def test_a_terminal_gets_the_table_and_a_log_gets_the_changes() -> None:
    before, after = look(commit(0, done=((7, 9),))), look(commit(0, done=((7, 10),)), commit(1))
    spy = ScreenSpy()
    GroupDisplay(spy, rows=24, in_place=True).show(before, after)
    assert [line for _, line in spy.shown] == [""]
    assert "t" in spy.shown[0][0]
    spy = ScreenSpy()
    shown = GroupDisplay(spy, rows=24, in_place=False)
    shown.show(None, before)
    shown.show(before, replace(before, at_ms=NOW + 1))
    assert spy.shown == []
    shown.show(before, after)
    assert [line for _, line in spy.shown] == [
        "2025-09-20T02:27:40.726Z t-0: became done: 1: 9",
        "2025-09-20T02:27:40.726Z t-1: committed at 5 for the first time",
    ]
