"""Where the commits of keys came from, and until when they are known."""

import numpy as np

from kafkakit.streams.lag.decide.saved_state import CommitOrigins, commits_as_of


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
