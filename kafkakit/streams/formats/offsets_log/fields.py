"""The primitive fields of `__consumer_offsets`, read with bounds: fixed numbers, strings, tagged fields."""


class MalformedError(ValueError):
    """A field does not fit its bytes; never leaves this package, where it becomes an `Undecodable`."""


class Fields:
    """A cursor over the bytes of one key or value; every method raises `MalformedError` rather than read past the end.

    `flexible` chooses between the two encodings of strings: two-byte lengths, or varints that count from one (zero is
    null).
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.flexible = False

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return len(self.data) - self.at

    def take(self, size: int, name: str) -> bytes:
        """The next `size` bytes."""
        if size < 0 or size > self.left:
            raise MalformedError(f"{name} runs over the end")
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self, size: int, name: str) -> int:
        """A signed big-endian number."""
        return int.from_bytes(self.take(size, name), "big", signed=True)

    def uvarint(self, name: str) -> int:
        """An unsigned varint of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1, name)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedError(f"{name} has an endless length")

    def raw(self, name: str) -> bytes | None:
        """Bytes with their length, None for null."""
        size = self.uvarint(name) - 1 if self.flexible else self.integer(2, name)
        if size < -1:
            raise MalformedError(f"{name} has a negative length")
        return None if size < 0 else self.take(size, name)

    def text(self, name: str) -> str:
        """A string that may not be null."""
        data = self.raw(name)
        if data is None:
            raise MalformedError(f"{name} is null")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise MalformedError(f"{name} is not UTF-8") from None

    def tagged(self) -> dict[int, bytes]:
        """The tagged fields that close a flexible structure; none where it is not flexible."""
        found: dict[int, bytes] = {}
        if self.flexible:
            name = "tagged fields"
            for _ in range(self.uvarint(name)):
                tag = self.uvarint(name)
                found[tag] = self.take(self.uvarint(name), name)
        return found
