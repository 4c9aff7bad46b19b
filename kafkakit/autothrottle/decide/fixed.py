"""The law that needs no metrics: one rate for each broker that takes part in moves."""

from collections.abc import Callable

from kafkakit.autothrottle.decide.law import Decision, Memory, Reason, Side
from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.execution.decide.schedule.work import Rates


def fixed_law(rate: int) -> Callable[[Observed, Memory], Decision]:
    """The law for a rate in bytes per second."""

    def decide(observed: Observed, memory: Memory) -> Decision:
        sides = {(f.source, Side.OUT) for f in observed.flows} | {(f.destination, Side.INTO) for f in observed.flows}
        reasons = tuple(
            Reason(broker=b, side=s, rate=rate, binding="fixed", text="given by --rate") for b, s in sorted(sides)
        )
        return Decision(rates=Rates(into=rate, out=rate), memory=memory, reasons=reasons)

    return decide
