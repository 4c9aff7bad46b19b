"""Scripted lives of groups against an oracle that is written from the definitions and shares no code with it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from kafkakit.streams.lag.decide.measure.ends import WINDOW_SAMPLES, CommitWindow
from kafkakit.streams.lag.decide.measure.table import CurrentColumns, LagStatus, judge
from kafkakit.streams.lag.decide.measure.time_lag import FigureFlag
from kafkakit.streams.model.offsets_log.commits import CommitColumns, CommitRow
from tests.clusters.lag_rows import T0, Harness

STEP_S, WINDOW = 10, 10
"""The commits of each ten seconds (by the clock) are one sample, and ten of them make the window."""
SAMPLED_S = 5
OPEN_S = 60
"""The default transaction.timeout.ms; the histories have no records, so a commit tells since when a group waits."""


class End(NamedTuple):
    """Where the log ends, its last stable offset, and how far a group can read (a marker is no record)."""

    log: int = 0
    stable: int = 0
    readable: int = 0


@dataclass(slots=True, kw_only=True)
class Life:
    """All that happened, second by second: where the log ended, and what was committed when (in seconds)."""

    ends: list[End] = field(default_factory=list)
    commits: list[tuple[float, int]] = field(default_factory=list)
    markers: int = 0


def oracle(life: Life, now: float) -> LagStatus:
    """By the definitions of Burrow's wiki and its present order; see `status.py` for the two that are ours."""
    last_at, offset = life.commits[-1]
    newest = life.ends[int(now)]
    if newest.readable <= offset:
        is_open = newest.stable < newest.log and offset <= newest.stable
        return (
            LagStatus.HELD_BACK if is_open and now - max(last_at, reached(life, offset, now)) > OPEN_S else LagStatus.OK
        )
    samples: list[list[float]] = []
    for at, of in life.commits:
        seen = max(int(at) // SAMPLED_S * SAMPLED_S, *(look for look in LOOKS if look <= at), 0)
        lag = max(0, life.ends[seen].stable - of)  # a commit's lag is that to the newest end that was known
        if samples and at // STEP_S <= samples[-1][0] // STEP_S:
            samples[-1][1:] = [of, lag]
        else:
            samples.append([at, of, lag])
    samples = samples[-WINDOW:]
    span = samples[-1][0] - samples[0][0]
    length = max(span, STEP_S * (WINDOW - 1))
    behind = next(second for second, end in enumerate(life.ends) if end.readable > offset)
    if now - max(last_at, behind) > length:
        return LagStatus.STOPPED
    if any(lag <= life.markers for _, _, lag in samples):
        return LagStatus.OK
    pairs = list(pairwise(samples))
    if any(after[1] < before[1] for before, after in pairs):
        return LagStatus.REWIND
    stretches = samples[-1][0] // STEP_S - samples[0][0] // STEP_S
    if len(samples) < 2 or stretches < WINDOW - 1 or any(a[2] < b[2] for b, a in pairs):
        return LagStatus.OK
    return LagStatus.STALLED if all(a[1] == b[1] for b, a in pairs) else LagStatus.WARNING


def reached(life: Life, offset: int, now: float) -> int:
    """The last look at the log, up to now, that found nothing at the offset."""
    looks = [second for second in range(int(now) + 1) if second % SAMPLED_S == 0 or second in LOOKS]
    return max((second for second in looks if life.ends[second].log <= offset), default=0)


Consumer = Callable[[float, int, int], int | None]
"""What a group commits at a second, given the readable end and its last commit; None for nothing."""


def steady(every: int) -> Consumer:
    return lambda at, end, _: end if at % every == 0 else None


def behind(every: int, by: int) -> Consumer:
    return lambda at, end, last: max(last, end - by) if at % every == 0 else None


def slow(every: int) -> Consumer:
    return lambda at, end, last: min(end, last + 1) if at % every == 0 else None


def dies_at(inner: Consumer, second: int) -> Consumer:
    return lambda at, end, last: inner(at, end, last) if at < second else None


def sticks_at(inner: Consumer, second: int) -> Consumer:
    return lambda at, end, last: inner(at, end, last) if at < second or at % 5 else last


def rewinds_at(inner: Consumer, second: int) -> Consumer:
    """Goes back, and stands there for most of a minute."""
    back = sticks_at(lambda *_: None, second)

    def commit(at: float, end: int, last: int) -> int | None:
        if at == second:
            return max(0, last - 30)
        return (back if second < at < second + 50 else inner)(at, end, last)

    return commit


def only_progress(inner: Consumer) -> Consumer:
    """A client that commits nothing while nothing comes."""

    def commit(at: float, end: int, last: int) -> int | None:
        found = inner(at, end, last)
        return None if found == last else found

    return commit


CONSUMERS: dict[str, Consumer] = {
    "steady-1": steady(1),
    "steady-5": steady(5),
    "steady-30": steady(30),
    "behind-5": behind(5, 12),
    "behind-20": behind(20, 40),
    "slow-3": slow(3),
    "slow-10": slow(10),
    "progress-5": only_progress(steady(5)),
    "dies-caught-up": dies_at(steady(5), 200),
    "dies-caught-up-60": dies_at(steady(20), 300),
    "dies-behind": dies_at(behind(5, 12), 250),
    "dies-young": dies_at(steady(5), 12),
    "sticks": sticks_at(steady(5), 150),
    "sticks-behind": sticks_at(behind(5, 20), 150),
    "rewinds": rewinds_at(behind(5, 12), 400),
    "rewinds-and-dies": dies_at(rewinds_at(behind(5, 12), 200), 220),
    "progress-dies": dies_at(only_progress(steady(5)), 200),
}
PRODUCERS: dict[str, Callable[[int], int]] = {
    "steady": lambda at: 2,
    "one-a-minute": lambda at: int(at % 60 == 30),
    "bursts": lambda at: 50 * (at % 120 == 0),
    "ends-at-240": lambda at: 2 * (at < 240),
    "idle-then-one": lambda at: int(at in (20, 21, 22, 520)),
    "grows": lambda at: 1 + at // 100,
    "nothing-after-start": lambda at: 30 * (at == 10),
}
KINDS = ("plain", "transactional", "held")
"""With transactions the log ends with a marker; in the last kind one stays open from second 300 to 500."""
LOOKS = (95, 130, 205, 290, 395, 410, 490, 523, 600, 640, 900)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One history by the names of its parts."""

    produce: str
    consume: str
    kind: str

    @property
    def topic(self) -> str:
        return f"{self.produce} {self.consume} {self.kind}"


CASES = [Case(produce=p, consume=c, kind=k) for p in PRODUCERS for c in CONSUMERS for k in KINDS]


def live_through(case: Case, life: Life, second: int) -> int | None:
    """One second of a history: what comes, and what the group commits."""
    last, count = life.ends[-1] if life.ends else End(), PRODUCERS[case.produce](second)
    life.markers = int(case.kind != "plain")
    log = last.log + (count + life.markers if count else 0)
    if case.kind == "held" and 300 <= second < 500:
        end = End(log, last.stable, last.readable)
    else:
        end = End(log, log, max(0, log - life.markers))
    readable = end.readable
    life.ends.append(end)
    offset = CONSUMERS[case.consume](second, readable, life.commits[-1][1] if life.commits else 0)
    if offset is not None and readable:
        life.commits.append((second + 0.5, offset))
        return offset
    return None


def test_the_status_is_that_of_the_definitions() -> None:
    """All histories side by side in one book, with ends sampled every five seconds, as a monitor does."""
    bench, lives = Harness(), {case: Life() for case in CASES}
    keys = {case: bench.key("g", case.topic) for case in CASES}
    slots = np.array([bench.ends.slot(case.topic, 0) for case in CASES], dtype=np.int64)
    wrong: list[str] = []
    seen: Counter[LagStatus] = Counter()
    for second in range(LOOKS[-1] + 1):
        rows = []
        for case, life in lives.items():
            offset = live_through(case, life, second)
            if offset is not None:
                bench.count += 1
                at, made = bench.count, T0 + second * 1000 + 500
                rows.append(CommitRow(key=keys[case], at=at, offset=offset, committed_ms=made))
        if second % SAMPLED_S == 0 or second in LOOKS:
            sample(bench, slots, lives, second * 1000)
        bench.book.apply(CommitColumns.of(rows), T0 + second * 1000 + 500)
        if second in LOOKS:
            table = bench.table(second * 1000 + 600)
            found = {table.topics[table.topic[n]]: LagStatus(int(table.status[n])) for n in range(len(table))}
            for case, life in lives.items():
                if life.commits:
                    expected = oracle(life, second + 0.6)
                    seen[expected] += 1
                    if found[case.topic] is not expected:
                        wrong.append(
                            f"{case.topic} at {second} s: {found[case.topic].word}, by definition {expected.word}"
                        )
    assert len(CASES) >= 200
    assert not wrong, (len(wrong), sum(seen.values()), wrong[:20])
    elsewhere = (LagStatus.LOST, LagStatus.UNKNOWN, LagStatus.AHEAD, LagStatus.NO_COMMIT)
    assert set(seen) >= {s for s in LagStatus if s not in elsewhere}, seen


def sample(bench: Harness, slots: np.ndarray, lives: Mapping[Case, Life], at_ms: int) -> None:
    """The newest ends of all logs, and what raw reads tell where a group stands at a marker."""
    now = [life.ends[-1] for life in lives.values()]
    moment = np.full(len(slots), T0 + at_ms, dtype=np.int64)
    end, stable = (np.array([getattr(e, name) for e in now], dtype=np.int64) for name in ("log", "stable"))
    start = np.zeros(len(slots), dtype=np.int64)
    bench.ends.record(slots, before_ms=moment, after_ms=moment, end=end, stable=stable, start=start)
    for slot, last, life in zip(slots.tolist(), now, lives.values(), strict=True):
        if life.markers and last.stable == last.log and life.commits and life.commits[-1][1] == last.readable:
            bench.ends.note_effective_end(slot, last.readable, last.log)
    bench.book.note_round()


MINUTE = 60_000
Sample = tuple[int, int]


def status_of(
    samples: list[Sample],
    *,
    now_min: float = 10,
    lag: int | None = None,
    lost: int = 0,
    flags: int = 0,
    behind_min: float = 0,
    tail: int = 0,
) -> LagStatus:
    """The status after commits of (offset, lag), one a minute; the present lag is the last one if not given."""
    window = CommitWindow(1)
    window.grow(3)
    row = np.array([1], dtype=np.int64)
    for minute, (offset, behind) in enumerate(samples):
        at, of, lags = (np.array([v], dtype=np.int64) for v in (minute * MINUTE, offset, behind))
        window.add(row, of, at, lags)
    present = samples[-1][1] if lag is None else lag
    since = round(max(len(samples) - 1, behind_min) * MINUTE)
    lags, losts, all_flags, since_ms, tails = (
        np.array([v], dtype=np.int64) for v in (present, lost, flags, since, tail)
    )
    now = CurrentColumns(lag=lags, lost=losts, flags=all_flags, since_ms=since_ms, tail=tails)
    found = judge(window, row, now, now_ms=round(now_min * MINUTE))
    return LagStatus(int(found[0]))


def rising(lags: list[int]) -> list[Sample]:
    return [(100 + 10 * at, lag) for at, lag in enumerate(lags)]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (rising([50] * 5 + [0] + [60] * 4), LagStatus.OK),
        (rising([50, 40, 45, 60, 70, 80, 90, 91, 92, 93]), LagStatus.OK),
        (rising([50] * 10), LagStatus.WARNING),
        (rising(list(range(50, 60))), LagStatus.WARNING),
        ([(100, 50 + at) for at in range(10)], LagStatus.STALLED),
        ([(100, 50)] * 10, LagStatus.STALLED),
        ([(100, 60 - at) for at in range(10)], LagStatus.OK),
        ([*rising([50] * 9), (90, 80)], LagStatus.REWIND),
        (rising([50] * 4 + [-1] + [50] * 5), LagStatus.OK),
    ],
)
def test_each_rule_of_burrow(samples: list[Sample], expected: LagStatus) -> None:
    assert status_of(samples) is expected


def test_a_group_is_stopped_once_it_is_silent_for_longer_than_its_window() -> None:
    assert status_of(rising([50] * 10), now_min=18) is LagStatus.WARNING
    assert status_of(rising([50] * 10), now_min=18.01) is LagStatus.STOPPED


def test_a_stopped_group_with_nothing_to_do_is_well() -> None:
    assert status_of(rising([50] * 10), now_min=60, lag=0) is LagStatus.OK


def test_a_group_that_was_caught_up_and_died_is_stopped() -> None:
    """The defect: any commit without lag in the window made the group well for ever."""
    caught_up = rising([0] * 10)
    assert status_of(caught_up, now_min=18, lag=40) is LagStatus.OK
    assert status_of(caught_up, now_min=18.01, lag=40) is LagStatus.STOPPED


def test_silence_counts_from_when_there_was_something_to_do() -> None:
    assert status_of(rising([0] * 10), now_min=60, lag=1, behind_min=59) is LagStatus.OK
    assert status_of(rising([0] * 10), now_min=60, lag=1, behind_min=51) is LagStatus.OK
    assert status_of(rising([0] * 10), now_min=60, lag=1, behind_min=50.9) is LagStatus.STOPPED


def test_a_lag_of_markers_alone_is_none() -> None:
    assert status_of(rising([1] * 10)) is LagStatus.WARNING
    assert status_of(rising([1] * 10), tail=1) is LagStatus.OK
    assert status_of(rising([2] * 10), tail=1) is LagStatus.WARNING


def test_a_stop_is_told_before_a_rewind() -> None:
    assert status_of([*rising([50] * 9), (90, 80)], now_min=60) is LagStatus.STOPPED


def test_only_the_last_ten_commits_count() -> None:
    assert status_of(rising([0] + [50] * WINDOW_SAMPLES)) is LagStatus.WARNING
    assert status_of(rising([0] + [50] * (WINDOW_SAMPLES - 1))) is LagStatus.OK


def test_lost_records_outweigh_all_else_and_what_is_unknown_is_not_well() -> None:
    assert status_of(rising([0] * 10), lost=1) is LagStatus.LOST
    for flag in (FigureFlag.STALE, FigureFlag.NO_END, FigureFlag.OTHER_TOPIC):
        assert status_of(rising([0] * 10), flags=int(flag)) is LagStatus.UNKNOWN


def test_commits_sooner_than_a_step_share_a_sample_and_keep_its_time() -> None:
    window = CommitWindow(10_000)
    window.grow(1)
    row = np.array([0], dtype=np.int64)
    for at in range(0, 30_000, 1_000):
        one = [np.array([v], dtype=np.int64) for v in (at, at, 5)]
        window.add(row, *one)
    offset, at_ms, lag, count = window.ordered(row)
    assert count.tolist() == [3]
    assert offset[0, -3:].tolist() == [9_000, 19_000, 29_000]
    assert at_ms[0, -3:].tolist() == [0, 10_000, 20_000]
    assert lag[0, -3:].tolist() == [5, 5, 5]
