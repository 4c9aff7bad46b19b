"""Routes for tests, and a control store that ends the process at a chosen write."""

from kafkakit.core.errors import TryLaterError
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from tests.fakes.control import FakeControlStore


class Killed(BaseException):
    """The process ends here."""


class CutStore(FakeControlStore):
    """The fake, whose `cut`-th write from now ends the process: before it happens, or after with `after`.

    `lost` holds numbers of writes whose answers are lost, and `refused` those that did not happen and say nothing.
    Those in `forgotten` are answered, and gone afterwards.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cut: int | None = None
        self.after = False
        self.lost: set[int] = set()
        self.refused: set[int] = set()
        self.forgotten: set[int] = set()
        self.count = 0

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        number, self.count = self.count, self.count + 1
        if number == self.cut and not self.after:
            raise Killed
        if number in self.refused:
            raise TryLaterError("the control store did not answer")
        before = self._documents.get(path)
        version = super()._replace(path, value, expected)
        if number in self.forgotten:
            self._documents.pop(path)
            self._documents |= {} if before is None else {path: before}
        if number == self.cut:
            raise Killed
        if number in self.lost:
            raise TryLaterError("the control store did not answer")
        return version


def segment(number: int, *, topic: str = "", cluster: str = "c1", state: SegmentState = SegmentState.ACTIVE) -> Segment:
    """A segment on cluster `c1-id` (profile `c1`)."""
    name = topic or f"t{number}"
    return Segment(
        id=number,
        cluster=cluster,
        cluster_id=f"{cluster}-id",
        topic=name,
        topic_id=f"id-of-{name}",
        partitions=2,
        state=state,
    )


def route(stream: str = "orders", *lanes: str, epoch: int = 1) -> Route:
    """A route with a segment for each lane."""
    names = lanes or ("live",)
    made = tuple(Lane(name=name, segments=(segment(n),)) for n, name in enumerate(names, 1))
    return Route(stream=stream, epoch=epoch, next_segment=len(names) + 1, lanes=made)
