"""The state file; where the commits of keys came from, and until when they are known."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kafkakit.core.errors import InputError, KafkakitError
from kafkakit.streams.lag.act.monitor import MAX_AGE_MS, StateFiles
from kafkakit.streams.lag.decide.saved_state import CommitOrigins, SavedState, commits_as_of, decode_state, encode_state
from kafkakit.wiring import read_input, write_file

STATE = SavedState(
    cluster_id="prod-a-0001",
    topic_id=bytes(range(16)),
    saved_ms=1_758_335_260_726,
    texts={"keys": [b"\x00\x01a", b"", b"xyz"], "none": []},
    arrays={
        "offset": np.array([1, -1, 2**62], np.int64),
        "ring": np.arange(6, dtype=np.int64).reshape(3, 2),
        "count": np.array([1, 2, 3], np.int8),
        "empty": np.empty((0, 4), np.int64),
    },
)


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    return StateFiles(tmp_path / "lag", read_input, write_file)


def same(one: SavedState, other: SavedState) -> bool:
    plain = replace(one, arrays={}) == replace(other, arrays={})
    return plain and one.arrays.keys() == other.arrays.keys() and all(
        a.dtype == other.arrays[n].dtype and a.shape == other.arrays[n].shape and (a == other.arrays[n]).all()
        for n, a in one.arrays.items()
    )  # fmt: skip


def test_what_was_written_is_read(files: StateFiles) -> None:
    assert files.load(STATE.cluster_id, STATE.saved_ms) is None
    files.save(STATE)
    loaded = files.load(STATE.cluster_id, STATE.saved_ms + 1000)
    assert loaded is not None
    assert same(loaded, STATE)
    loaded.arrays["offset"][0] = 5
    assert files.path_of(STATE.cluster_id).stat().st_mode & 0o777 == 0o600


def test_every_cut_and_every_changed_byte_is_found() -> None:
    data = encode_state(STATE)
    for size in range(len(data)):
        with pytest.raises(InputError):
            decode_state(data[:size], "s")
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x21
        try:
            read = decode_state(bytes(changed), "s")
        except InputError:
            continue
        # Only the header's own words can differ without harm: they are checked against the cluster and the clock.
        assert at < data.index(b"\n")
        assert all((read.arrays[n] == a).all() for n, a in STATE.arrays.items() if n in read.arrays)


@pytest.mark.parametrize(
    ("find", "put"),
    [
        (b'"bytes":24', b'"bytes":9999999999999'),
        (b'"schema":1', b'"schema":2'),
        (b'"shape":[3]', b'"shape":[4]'),
        (b'"kind":"lag-state"', b'"kind":"journal"'),
        (b"<i8", b"|O8"),
    ],
)
def test_a_header_that_lies_is_refused(find: bytes, put: bytes) -> None:
    data = encode_state(STATE)
    assert find in data
    with pytest.raises(InputError):
        decode_state(data.replace(find, put, 1), "s")


def test_the_state_of_another_cluster_and_an_old_one_are_refused(files: StateFiles) -> None:
    files.save(STATE)
    other = files.path_of("prod-b")
    other.write_bytes(files.path_of(STATE.cluster_id).read_bytes())
    with pytest.raises(InputError, match="is of cluster prod-a-0001"):
        files.load("prod-b", STATE.saved_ms)
    with pytest.raises(InputError, match="older than 12 hours"):
        files.load(STATE.cluster_id, STATE.saved_ms + MAX_AGE_MS + 1)
    with pytest.raises(InputError, match="from the future"):
        files.load(STATE.cluster_id, STATE.saved_ms - MAX_AGE_MS - 1)


def test_a_cluster_id_leads_to_no_other_folder(files: StateFiles) -> None:
    with pytest.raises(KafkakitError):
        files.path_of("../../etc/passwd")


def test_a_write_that_fails_keeps_the_old_file(files: StateFiles, tmp_path: Path) -> None:
    files.save(STATE)

    def full(path: Path, data: bytes, mode: int) -> None:
        raise KafkakitError("no space left on device")

    broken: Callable[[Path, bytes, int], None] = full
    with pytest.raises(KafkakitError):
        StateFiles(tmp_path / "lag", read_input, broken).save(replace(STATE, saved_ms=STATE.saved_ms + 5))
    loaded = files.load(STATE.cluster_id, STATE.saved_ms)
    assert loaded is not None
    assert loaded.saved_ms == STATE.saved_ms


def keys(*numbers: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(numbers, np.int64)


def test_keys_get_the_values_of_their_partitions() -> None:
    origins = CommitOrigins()
    origins.note(keys(0, 2), 7, 1)
    origins.restore(keys(200), np.array([9], np.int32))
    by_key = origins.by_key({7: 1_000, 3: 5})
    assert by_key[:3].tolist() == [1_000, -1, 1_000]
    assert by_key[200] == -1, "its partition has no value"
    assert origins.by_key({}).tolist() == [-1] * len(by_key)
    origins.drop(keys(2))
    assert origins.by_key({7: 1_000})[2] == -1
    assert origins.known().tolist() == [0, 200]


def test_keys_of_an_earlier_pass_are_those_not_seen_again() -> None:
    origins = CommitOrigins()
    origins.note(keys(0, 1), 4, 1)
    origins.note(keys(5), 3, 1)
    origins.note(keys(1), 4, 2)
    assert origins.earlier(4, 2).tolist() == [0]
    assert origins.earlier(3, 1).tolist() == []


def test_a_commit_is_known_until_its_answer_where_the_answer_was_whole() -> None:
    read = np.array([100, 100, -1], np.int64)
    whole = np.array([True, False, True])
    seen = np.array([130, 130, 130, 130], np.int64)
    assert commits_as_of(read, whole, seen, 5).tolist() == [130, 100, -1, -1, -1]
