"""Records and offset files under any bytes: a value or one line, never a crash; and what was written is read."""

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.editing.edit import read_offset_file
from kafkakit.streams.records.decide import LogEntry, ReadResult, entries_of, records_report, resolve_entries
from tests.clusters.streams_batches import Rec, batch

KEY = TopicPartition("t", 0)
BYTES = st.none() | st.binary(max_size=12)
RECORDS = st.builds(
    Rec,
    BYTES,
    BYTES,
    st.integers(0, 9),
    headers=st.lists(st.tuples(st.binary(max_size=4), BYTES), max_size=2).map(tuple),
)


@given(
    st.lists(RECORDS, min_size=1, max_size=5), st.sampled_from(["none", "gzip", "zstd", "lz4"]), st.booleans(),
    st.integers(0, 200), st.binary(max_size=8),
)  # fmt: skip
def test_any_damage_leaves_values_that_can_be_shown(
    records: list[Rec], codec: str, control: bool, at: int, patch: bytes
) -> None:
    whole = batch(0, records, codec=codec, control=control) + batch(0, records)
    data = whole[:at] + patch + whole[at + len(patch) :]
    entries = [entry for entry in entries_of(data, 0) if isinstance(entry, LogEntry)]
    shown = tuple(resolve_entries(entries, 3, {}, is_whole=False))
    report = records_report(
        ReadResult(key=KEY, offset=0, span=LogSpan(start=0, stable=3, end=9), entries=shown), "C", 5
    )
    assert all(line.isprintable() for line in report.text.split("\n"))
    assert len(report.rows) == len(shown)


@given(st.lists(RECORDS, min_size=1, max_size=6), st.sampled_from(["none", "gzip", "zstd"]), st.integers(0, 5))
def test_what_was_written_is_what_is_found(records: list[Rec], codec: str, offset: int) -> None:
    found = [entry for entry in entries_of(batch(0, records, codec=codec), offset) if isinstance(entry, LogEntry)]
    assert [(one.offset, one.key, one.value) for one in found] == [
        (number, record.key, record.value) for number, record in enumerate(records) if number >= offset
    ]
    assert [len(one.headers) for one in found] == [len(record.headers) for record in records[offset:]]


@given(st.binary(max_size=60) | st.text('gt,"0159-\r\n \x00', max_size=40).map(str.encode))
def test_a_file_of_offsets_is_read_or_refused_in_one_line(data: bytes) -> None:
    try:
        targets = read_offset_file(data, "o.csv", "g")
    except InputError as error:
        words, targets = str(error), {}
    else:
        words = "o.csv"
    assert words.startswith("o.csv")
    assert "\n" not in words
    assert all(key.partition >= 0 and target.offset >= 0 for key, target in targets.items())
