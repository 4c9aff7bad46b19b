"""The parts of KKM1 by themselves; what coarsening counts on."""

import random
import unicodedata

import numpy as np
import pytest
from numpy.typing import NDArray

from kafkakit.streams.model.binary import unzigzag, uvarint, zigzag
from kafkakit.streams.model.commit import CommitState, OffsetRanges
from kafkakit.streams.model.kkm1.encode import ranges_size
from kafkakit.streams.model.kkm1.sections import (
    FEW_BYTES,
    Encoding,
    body_of,
    pack_bitmap,
    pack_rice,
    pack_runs,
    pack_smallest,
    runs_of,
    unpack,
)
from kafkakit.streams.model.kkm1.text import (
    Alphabet,
    BadBodyError,
    BadTextError,
    Cursor,
    chars_of,
    from_text,
    to_text,
    utf16_units,
)


def test_numbers_take_seven_bits_a_byte() -> None:
    assert [uvarint(n).hex() for n in (0, 127, 128, 300, 2**64 - 1)] == ["00", "7f", "8001", "ac02", "ff" * 9 + "01"]
    assert [zigzag(n) for n in (0, -1, 1, -2, 500)] == [0, 1, 2, 3, 1000]
    assert all(unzigzag(zigzag(n)) == n for n in (0, -1, 1, -(2**62), 2**62))
    for bad in ("", "80", "ff" * 10, "ff" * 9 + "02", "80" * 10 + "00"):
        with pytest.raises(BadBodyError):
            Cursor(bytes.fromhex(bad)).uvarint()


def test_a_cursor_never_reads_past_its_end() -> None:
    cursor = Cursor(b"abcdef", 1, 3)
    assert (cursor.left, cursor.byte(), cursor.take(1), cursor.left) == (2, ord("b"), b"c", 0)
    for read in (cursor.byte, cursor.uvarint, lambda: cursor.take(1)):
        with pytest.raises(BadBodyError):
            read()


def test_rice_codes_bit_by_bit() -> None:
    # Pending 6 and 4, done 1 and 3: less one 5 and 3 with k=1, 0 and 2 with k=0.
    # 5: quotient 2, rest 1 -> 110 1; 0 -> 0; 3: quotient 1, rest 1 -> 10 1; 2 -> 110. In order: 1101 0101 110.
    packed = pack_rice([6, 1, 4, 3])
    assert packed.data.hex() == "01 00 04 ab03".replace(" ", "")
    assert unpack(Encoding.RICE, Cursor(packed.data), 10, 14) == OffsetRanges(((16, 17), (21, 24)))


def test_a_bitmap_has_its_lowest_bit_first() -> None:
    assert pack_bitmap([1, 2, 2, 5]).data.hex() == "e603"


def test_a_few_runs_stay_runs_and_the_smallest_packing_wins_otherwise() -> None:
    assert pack_smallest([1, 2, 2, 5]) == pack_runs([1, 2, 2, 5])
    assert pack_smallest([1, 1] * 40).encoding is Encoding.BITMAP
    assert pack_smallest([1, 1000] * 40).encoding is Encoding.RICE


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        (Encoding.RUNS, "0109 01"),
        (Encoding.RUNS, "01 0a"),
        (Encoding.RUNS, "0a 00"),
        (Encoding.RUNS, ""),
        (Encoding.RICE, "00 00"),
        (Encoding.RICE, "00 00 00"),
        (Encoding.RICE, "40 00 02 00"),
        (Encoding.RICE, "00 00 ffff7f ff"),
        (Encoding.RICE, "00 00 02 ffff"),
        (Encoding.RICE, "00 00 02 fe03 00"),
        (Encoding.RICE, "00 00 02 fe07"),
        (Encoding.RICE, "00 03 02 02 00"),
        (Encoding.RICE, "00 03 02 82"),
        (Encoding.BITMAP, ""),
        (Encoding.BITMAP, "fe"),
        (Encoding.BITMAP, "ff03"),
        (Encoding.BITMAP, "fe01"),
        (Encoding.BITMAP, "fe07"),
        (Encoding.BITMAP, "fe0300"),
        (7, "fe03"),
    ],
)
def test_packings_that_do_not_fill_ten_offsets_exactly_are_refused(encoding: int, data: str) -> None:
    with pytest.raises(BadBodyError):
        unpack(encoding, Cursor(bytes.fromhex(data)), 100, 10)


def test_the_same_ten_offsets_in_three_packings() -> None:
    done = OffsetRanges(((101, 110),))
    # In Rice codes with k=0 and k=3: a zero for the run of 1, then 8 = 1 * 8 + 0 as 10 000. In order: 0 1 0 000.
    packed = {Encoding.RUNS: "0109", Encoding.RICE: "00 03 02 02", Encoding.BITMAP: "fe03"}
    for encoding, data in packed.items():
        assert unpack(encoding, Cursor(bytes.fromhex(data)), 100, 10) == done


def test_the_wide_alphabet_keeps_normal_forms_and_single_units() -> None:
    raw = b"".join([(n | (n + 1) << 15).to_bytes(4, "little") for n in range(0, 32768, 2)])
    text = "".join([to_text(Alphabet.WIDE, raw[at : at + 4])[2:4] for at in range(0, len(raw), 4)])
    assert len(set(text)) == 32768
    assert all(unicodedata.normalize(form, text) == text for form in ("NFC", "NFKC"))
    assert not any(unicodedata.combining(char) for char in text)
    assert utf16_units(text) == 32768
    assert [ord(text[n]) for n in (0, 20901, 20902, 32073, 32074)] == [0x4E00, 0x9FA5, 0xAC00, 0xD7A3, 0x3400]


@pytest.mark.parametrize("alphabet", [Alphabet.BASE64, Alphabet.WIDE])
def test_bytes_come_back_from_text(alphabet: Alphabet) -> None:
    for size in (*range(1, 40), 3071, 7678):
        raw = bytes((7 * n + size) % 256 for n in range(size))
        text = to_text(alphabet, raw)
        assert len(text) == chars_of(alphabet, size)
        assert from_text(alphabet, text[2:]).rstrip(b"\0") == raw.rstrip(b"\0")
        assert len(from_text(alphabet, text[2:])) - size in (0, 1)


def test_text_out_of_its_alphabet_is_refused() -> None:
    for alphabet, texts in (
        (Alphabet.BASE64, ("A", "AB=", "A+B/", "AB C", "é", "A\nBC")),
        (Alphabet.WIDE, ("A", "\ud7a4", "\u36b6", "\U0001f600", "一一\u36b5")),
    ):
        for text in texts:
            with pytest.raises(BadTextError):
                from_text(alphabet, text)


def columns(done: OffsetRanges) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.array([start for start, _ in done], np.int64), np.array([end for _, end in done], np.int64)


@pytest.mark.parametrize("seed", range(16))
def test_the_size_is_that_of_the_section(seed: int) -> None:
    rng = random.Random(seed)
    base, at, pairs = rng.choice([0, 5, 127, 128, 10**9, 2**40]), 0, []
    for _ in range((1, 2, 40, 700)[seed % 4]):
        start = at + rng.choice([1, 2, 9, 200])
        at = start + rng.choice([1, 3, 130])
        pairs.append((base + start, base + at))
    done = OffsetRanges.of(pairs)
    runs = runs_of(base, done)
    section = len(body_of(CommitState(base=base, done=done), pack_smallest(runs)))
    assert ranges_size(base, *columns(done)) == section


def test_a_few_runs_stay_runs_where_a_bitmap_would_be_smaller() -> None:
    done = OffsetRanges.of([(1, 2), (3, 4)])
    runs = pack_runs(runs_of(0, done))
    assert len(runs.data) == 4 <= FEW_BYTES
    assert ranges_size(0, *columns(done)) == len(body_of(CommitState(base=0, done=done), runs))


def test_nothing_done_takes_nothing() -> None:
    none = np.empty(0, np.int64)
    assert ranges_size(7, none, none) == 0
