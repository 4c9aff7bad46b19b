"""The overflow ladder: what a consumer does as its commit metadata fill up, before anything must be forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.streams.formats.kkm1.encode import Encoded

PAUSE_AT = 0.6
CLOSE_HOLES_AT = 0.8


class Step(StrEnum):
    """How full the metadata are, and what to do about it."""

    FREE = "free"
    PAUSE = "pause"
    CLOSE_HOLES = "close-holes"
    WIDEN = "widen"
    COARSEN = "coarsen"


_ADVICE = {
    Step.FREE: "fetch and work as you like",
    Step.PAUSE: "fetch nothing new of this partition, and continue trying what is pending",
    Step.CLOSE_HOLES: "fetch nothing new, and move records that keep failing to the slow lane or the reject ledger",
    Step.WIDEN: "commit in the wide alphabet, which holds two and a half times as much, and continue closing holes",
    Step.COARSEN: "fetch nothing new: acknowledgements are being forgotten, and are delivered again after a restart",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One rung of the ladder, for a partition and its next commit.

    `should_pause` stops new fetches, `should_close_holes` sends repeat offenders elsewhere. `duplicates` are
    acknowledged records that are delivered again if the consumer stops after this commit.
    """

    step: Step
    fill: float
    should_pause: bool
    should_close_holes: bool
    duplicates: int

    @property
    def text(self) -> str:
        """The advice in words."""
        return _ADVICE[self.step]


def advise(encoded: Encoded, alphabets: Sequence[str] = ("b",)) -> Advice:
    """The rung that an encoding stands on, when it was made with these alphabets.

    Below 60 % of the limit: free; below 80 %: no new fetches; above: close holes too. A payload that had to widen
    is past that, however little of the wide alphabet's space it takes: the space is for what was under way already.
    """
    if encoded.fill > 1:
        step = Step.COARSEN
    elif encoded.alphabet and encoded.alphabet != alphabets[0]:
        step = Step.WIDEN
    elif encoded.fill >= CLOSE_HOLES_AT:
        step = Step.CLOSE_HOLES
    else:
        step = Step.PAUSE if encoded.fill >= PAUSE_AT else Step.FREE
    return Advice(
        step=step,
        fill=encoded.fill,
        should_pause=step is not Step.FREE,
        should_close_holes=step in (Step.CLOSE_HOLES, Step.WIDEN, Step.COARSEN),
        duplicates=encoded.forgotten,
    )
