"""What KKM1 payloads are made of: characters that survive, and bytes that a cursor reads safely.

A payload is `~`, a letter for its alphabet, and the bytes in that alphabet: characters that brokers, other readers and
copies leave alone. `~` is in no base64 alphabet, so readers of other dialects drop the text softly. Limits count UTF-16
units, as brokers do. Numbers are varints, and CRC-32C binds them (`kafkakit.streams.model.binary`).
"""

import binascii
from enum import StrEnum

from kafkakit.streams.model.binary import MAX_UVARINT, VARLONG, read_uvarint

MARK = "~"
MAX_CHARS = 128 * 1024  # brokers allow 4096 unless they are told otherwise
_WIDE_BITS = 15
# CJK ideographs, Hangul syllables, and the start of CJK extension A: one UTF-16 unit each, and normal forms keep them.
_IDEOGRAPHS, _SYLLABLES, _EXTENSION = 0x4E00, 0xAC00, 0x3400
_SYLLABLES_FROM, _EXTENSION_FROM = 20902, 32074
_TO_PLAIN = str.maketrans("-_", "+/")
_TO_URL = str.maketrans("+/", "-_")


class Alphabet(StrEnum):
    """How bytes become characters: base64url without padding, 15 bits a character, or JSON for people and tests."""

    BASE64 = "b"
    WIDE = "w"
    JSON = "j"


class BadTextError(ValueError):
    """Text that is not of its alphabet."""


def chars_of(alphabet: Alphabet, size: int) -> int:
    """How many characters a payload of `size` bytes takes, mark and letter included."""
    bits = _WIDE_BITS if alphabet is Alphabet.WIDE else 6
    return 2 + -(-8 * size // bits)


def utf16_units(text: str) -> int:
    """The length of a text as brokers measure it."""
    return len(text) if text.isascii() else len(text) + sum([char > "\uffff" for char in text])


def to_text(alphabet: Alphabet, raw: bytes) -> str:
    """A binary payload as text; JSON is not made of bytes, so it is refused here."""
    if alphabet is Alphabet.BASE64:
        return "~b" + binascii.b2a_base64(raw, newline=False).decode("ascii").rstrip("=").translate(_TO_URL)
    if alphabet is Alphabet.WIDE:
        return "~w" + _to_wide(raw)
    raise ValueError("JSON is written from a state")


def from_text(alphabet: Alphabet, text: str) -> bytes:
    """The bytes of a text without its first two characters; wide text may end with one zero byte more."""
    return _from_wide(text) if alphabet is Alphabet.WIDE else _from_base64(text)


def _from_base64(text: str) -> bytes:
    if "+" in text or "/" in text or "=" in text or not text.isascii():
        raise BadTextError("it is not base64url without padding")
    try:
        return binascii.a2b_base64(text.translate(_TO_PLAIN) + "=" * (-len(text) % 4), strict_mode=True)
    except binascii.Error as error:
        raise BadTextError("it is not base64url without padding") from error


def _to_wide(raw: bytes) -> str:
    width = -(-8 * len(raw) // _WIDE_BITS) * _WIDE_BITS
    # The lowest bits first: the string has the highest first, so it is read from its end.
    bits = f"{int.from_bytes(raw, 'little'):0{width}b}"
    return "".join([_char_of(int(bits[at - _WIDE_BITS : at], 2)) for at in range(width, 0, -_WIDE_BITS)])


def _char_of(index: int) -> str:
    if index < _SYLLABLES_FROM:
        return chr(_IDEOGRAPHS + index)
    if index < _EXTENSION_FROM:
        return chr(_SYLLABLES + index - _SYLLABLES_FROM)
    return chr(_EXTENSION + index - _EXTENSION_FROM)


def _from_wide(text: str) -> bytes:
    if not text:
        return b""
    bits = int("".join([f"{_index(ord(char)):0{_WIDE_BITS}b}" for char in reversed(text)]), 2)
    size = len(text) * _WIDE_BITS // 8
    if bits >> (8 * size):
        raise BadTextError("bits follow its last byte")
    return bits.to_bytes(size, "little")


def _index(code: int) -> int:
    if _IDEOGRAPHS <= code < _IDEOGRAPHS + _SYLLABLES_FROM:
        return code - _IDEOGRAPHS
    if _SYLLABLES <= code < _SYLLABLES + _EXTENSION_FROM - _SYLLABLES_FROM:
        return code - _SYLLABLES + _SYLLABLES_FROM
    if _EXTENSION <= code < _EXTENSION + (1 << _WIDE_BITS) - _EXTENSION_FROM:
        return code - _EXTENSION + _EXTENSION_FROM
    raise BadTextError(f"U+{code:04X} is not in the wide alphabet")


class BadBodyError(ValueError):
    """Bytes that no writer of this format makes; the message says what is wrong with them."""


class TooLargeError(ValueError):
    """Bytes that would take more memory or time than their reader allows."""


class Cursor:
    """Reads bytes from the front; every method raises `BadBodyError` where they end too early."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return self.end - self.at

    def byte(self) -> int:
        """The next byte."""
        if self.at >= self.end:
            raise BadBodyError("it ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self.end - self.at:
            raise BadBodyError("it ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def uvarint(self) -> int:
        """The next number; one that needs more than 64 bits is refused."""
        if self.at < self.end and (byte := self.data[self.at]) < 128:  # of most: a call less
            self.at += 1
            return byte
        value, after = read_uvarint(self.data, self.at, self.end, VARLONG)
        if after < 0 or value > MAX_UVARINT:
            is_cut = after < 0 and self.left < VARLONG
            raise BadBodyError("it ends too early" if is_cut else "a number has more than 64 bits")
        self.at = after
        return value
