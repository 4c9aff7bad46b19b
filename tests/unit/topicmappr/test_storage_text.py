"""The block on free storage, against kafka-kit's own output for one request."""

from kafkakit.topicmappr.decide.storage import GIB, FreeChange, free_change_data, free_change_lines, summary_of

BEFORE = {1001: 50, 1002: 100, 1003: 150, 1004: 200, 1005: 250}
AFTER = {1001: 65.0, 1002: 130.0, 1003: 160.0, 1004: 162.5, 1005: 197.5}


def _change(**words: object) -> FreeChange:
    facts = {
        "before": {b: f * GIB for b, f in BEFORE.items()},
        "after": {b: int(f * GIB) for b, f in AFTER.items()},
        "holding": {1001, 1002, 1003},
    }
    return FreeChange(**{**facts, **words})  # type: ignore[arg-type]


def test_the_lines_are_those_of_kafka_kit() -> None:
    lines = free_change_lines(_change(factor=1.5))
    assert lines == [
        "Storage free change estimations:",
        "  Partition size factor of 1.50 applied",
        "  range: 100.00GB -> 132.50GB",
        "  range spread: 200.00% -> 203.85%",
        "  std. deviation: 40.82GB -> 44.48GB",
        "  min-max: 50.00GB, 150.00GB -> 65.00GB, 197.50GB",
        "  -",
        "  Broker 1001: 50.00 -> 65.00 (+15.00GB, 30.00%) ",
        "  Broker 1002: 100.00 -> 130.00 (+30.00GB, 30.00%) ",
        "  Broker 1003: 150.00 -> 160.00 (+10.00GB, 6.67%) ",
        "  Broker 1004: 200.00 -> 162.50 (-37.50GB, -18.75%) ",
        "  Broker 1005: 250.00 -> 197.50 (-52.50GB, -21.00%) ",
    ]
    assert _change().range_increased


def test_replaced_brokers_are_marked_and_left_out_on_the_right() -> None:
    change = _change(replaced={1005, 1001})
    lines = free_change_lines(change)
    assert lines[1] == "  range: 100.00GB -> 32.50GB"
    assert lines[-1].endswith("%) *marked for replacement")
    assert not change.range_increased


def test_brokers_of_one_side_only_have_no_line() -> None:
    change = FreeChange(before={1: GIB, 2: GIB}, after={1: GIB, 3: GIB}, holding={1, 2})
    assert [line for line in free_change_lines(change) if "Broker" in line] == [
        "  Broker 1: 1.00 -> 1.00 (+0.00GB, 0.00%) "
    ]
    assert [row["broker"] for row in free_change_data(change)["brokers"]] == [1]  # type: ignore[attr-defined]


def test_no_free_bytes_print_as_go_prints_them() -> None:
    change = FreeChange(before={1: 0, 2: GIB}, after={1: 0, 2: 0}, holding={1, 2})
    lines = free_change_lines(change)
    assert "  range spread: +Inf% -> NaN%" in lines
    assert lines[-2:] == ["  Broker 1: 0.00 -> 0.00 (+0.00GB, NaN%) ", "  Broker 2: 1.00 -> 0.00 (-1.00GB, -100.00%) "]
    assert free_change_lines(FreeChange(before={1: 0}, after={1: GIB}, holding=()))[-1].endswith("(+1.00GB, +Inf%) ")


def test_the_summary_of_nothing_is_zero_and_of_negatives_is_right() -> None:
    assert summary_of([]).range == 0
    below = summary_of([-3, -1])
    assert (below.low, below.high, below.range, below.deviation) == (-3, -1, 2, 1.0)
