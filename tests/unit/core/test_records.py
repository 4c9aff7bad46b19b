"""Headers of messages, those included that a client library does not survive."""

from collections.abc import Sequence

from kafkakit.core.records import UNREADABLE_HEADER, headers_of


class BrokenMessage:
    """As confluent-kafka 2.16 for a name that is not UTF-8: an error once, then pairs that lack their names."""

    def __init__(self) -> None:
        self.is_asked = False
        self.kept: Sequence[tuple[object, ...]] = [("a", b"1"), (b"2",), ("c", None)]

    def headers(self) -> Sequence[tuple[object, ...]]:
        if not self.is_asked:
            self.is_asked = True
            raise SystemError("returned a result with an exception set")
        return self.kept

    def set_headers(self, headers: Sequence[tuple[object, ...]]) -> None:
        self.kept = headers


class PlainMessage:
    def headers(self) -> None:
        return None


def test_headers_that_can_be_read_are_kept_beside_one_that_cannot() -> None:
    message = BrokenMessage()
    expected = [("a", b"1"), (UNREADABLE_HEADER, b"2"), ("c", None)]
    assert headers_of(message) == expected
    assert message.headers() == expected, "later calls are safe"


def test_a_message_without_headers() -> None:
    assert headers_of(PlainMessage()) == ()
