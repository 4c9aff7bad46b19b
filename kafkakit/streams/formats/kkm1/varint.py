"""Unsigned integers of seven bits a byte (LEB128), zigzag for signed ones, and a cursor that reads them safely."""

MAX_UVARINT = (1 << 64) - 1


class BadBodyError(ValueError):
    """Bytes that no writer of this format makes; the message says what is wrong with them."""


class TooLargeError(ValueError):
    """Bytes that would take more memory or time than their reader allows."""


def uvarint(value: int) -> bytes:
    """The bytes of a number from 0 to 2**64 - 1, the lowest seven bits first."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def uvarint_size(value: int) -> int:
    """How many bytes `uvarint` makes of a number."""
    return max(1, (value.bit_length() + 6) // 7)


def zigzag(value: int) -> int:
    """A signed number as an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    """What `zigzag` made unsigned."""
    return value >> 1 if not value & 1 else -((value + 1) >> 1)


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
        data, at, end = self.data, self.at, self.end
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                if value > MAX_UVARINT:
                    break
                self.at = at
                return value
            shift += 7
            if shift > 63:
                break
        raise BadBodyError("it ends too early" if at >= end and shift <= 63 else "a number has more than 64 bits")
