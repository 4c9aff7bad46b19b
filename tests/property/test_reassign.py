"""Runs, batches, journals and plan files, whatever comes."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import decode_plan, encode_plan
from kafkakit.core.errors import InputError, InterruptedRunError
from kafkakit.core.journal_lines import FIRST_PREV, RecordKind, encode_line, line_hash
from kafkakit.core.plan_rules import check_plan
from kafkakit.execution.decide.journal import GRAMMAR, Record, What, decode_journal, replay
from kafkakit.execution.decide.plan_state import LIST_LIMIT
from kafkakit.execution.decide.throttle import pieces
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.reassign import Bench

QUICK = settings(
    derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], database=None
)
BROKERS = (1, 2, 3, 4, 5)
LISTS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True)


def check_refusal(error: InputError, source: str) -> None:
    assert error.message.startswith(f"{source}: ")
    assert "\n" not in error.message
    assert len(error.message) < 1000


@st.composite
def benches(draw: st.DrawFn) -> Bench:
    """A cluster of 5 brokers, and a plan that gives some of its partitions any other list."""
    cluster = FakeCluster(dict.fromkeys(BROKERS, "a"), line_rate=10e6)
    targets: dict[tuple[str, int], list[int]] = {}
    for name in ("t", "u"):
        rows = draw(st.lists(st.tuples(LISTS, LISTS), min_size=1, max_size=4))
        cluster.add_topic(name, {n: row for n, (row, _) in enumerate(rows)}, size_bytes=draw(st.integers(0, 10**7)))
        targets |= {(name, n): target for n, (_, target) in enumerate(rows)}
    return Bench(cluster, make_plan(cluster, targets))


@QUICK
@given(bench=benches(), batch=st.integers(1, 5), rate=st.sampled_from([None, 10**6, 10**9]), data=st.data())
def test_a_run_stopped_anywhere_ends_at_the_plan_or_where_it_began(
    bench: Bench, batch: int, rate: int | None, data: st.DataObject
) -> None:
    lists, configs = bench.lists(), bench.configs()
    stop_at = data.draw(st.floats(0, 20))

    def press(_: float) -> None:
        if bench.clock.elapsed > stop_at:
            bench.clock.on_sleep.remove(press)
            raise KeyboardInterrupt

    bench.clock.on_sleep.append(press)
    with suppress(InterruptedRunError):
        bench.apply(rate=rate, batch_size=batch)
    bench.clock.on_sleep[:] = [bench.cluster.advance]
    if data.draw(st.booleans()):
        assert bench.apply(batch_size=batch).ok
        wanted = lists | {(m.topic, m.partition): m.after for m in bench.plan.moves}
    else:
        assert bench.rollback().ok
        wanted = lists
    assert bench.lists() == wanted
    assert bench.configs() == configs
    if bench.file.data:
        verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


@QUICK
@given(
    entries=st.lists(st.from_regex(r"[0-9]{1,8}:[0-9]{1,8}", fullmatch=True), max_size=30), times=st.integers(1, 400)
)
def test_pieces_lose_nothing_and_fit(entries: list[str], times: int) -> None:
    found = pieces(entries * times)
    assert [e for piece in found for e in piece.split(",")] == entries * times
    assert all(len(piece) <= LIST_LIMIT for piece in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@QUICK
@given(
    rows=st.lists(st.tuples(st.sampled_from(RecordKind), st.sampled_from(What), st.integers(-1, 5), JSON), max_size=6)
)
def test_any_journal_of_well_formed_lines_is_read_or_refused(rows: list[tuple[RecordKind, What, int, Any]]) -> None:
    prev, text = FIRST_PREV, b""
    for seq, (kind, what, of, value) in enumerate(rows):
        body = value if isinstance(value, dict) else {"changes": value, "targets": value, "keys": value}
        line = encode_line(
            Record(seq=seq, time=datetime(2026, 1, 1, tzinfo=UTC), prev=prev, kind=kind, what=what, of=of, data=body),
            GRAMMAR,
        )
        prev, text = line_hash(line), text + line
    decoded = decode_journal(text, "j")
    assert len(decoded.records) == len(rows)
    try:
        replay(decoded.records, "j")
    except InputError as error:
        check_refusal(error, "j")


@QUICK
@given(noise=st.binary(max_size=200))
def test_any_bytes_as_a_journal_are_read_or_refused(noise: bytes) -> None:
    try:
        decode_journal(noise, "j")
    except InputError as error:
        check_refusal(error, "j")


@QUICK
@given(data=st.data())
def test_a_journal_with_one_changed_byte_is_refused_or_cut_at_its_last_line(data: st.DataObject) -> None:
    cluster = FakeCluster({1: "a", 2: "b"})
    cluster.add_topic("t", {0: (1,)}, size_bytes=1000)
    bench = Bench(cluster, make_plan(cluster, {("t", 0): (2,)}))
    bench.apply(rate=10**6)
    text = bytearray(bench.file.data)
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    last_line = bytes(bench.file.data[:-1]).rindex(b"\n") + 1
    try:
        decoded = decode_journal(bytes(text), "j")
    except InputError:
        return
    # Only the last line has no other line that vouches for it.
    assert place >= last_line - 1
    assert len(decoded.records) >= bench.file.data.count(b"\n") - 2


@QUICK
@given(bench=benches(), data=st.data())
def test_a_mutated_plan_file_is_refused_in_one_line_or_still_makes_sense(bench: Bench, data: st.DataObject) -> None:
    body = json.loads(encode_plan(bench.plan))
    holder, key = data.draw(st.sampled_from(list(places(body))))
    holder[key] = data.draw(JSON)
    text = json.dumps(body).encode()
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(text))))
    try:
        plan = decode_plan(text[:cut], "p.json")
        check_plan(plan, "p.json")
    except InputError as error:
        check_refusal(error, "p.json")
    else:
        lists = {(entry.topic, entry.partition): entry.replicas for entry in plan.reassignment.partitions}
        assert {m.key: m.after for m in plan.moves}.items() <= lists.items()


def places(value: Any) -> Any:
    """Every (container, key) of a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from places(inner)
