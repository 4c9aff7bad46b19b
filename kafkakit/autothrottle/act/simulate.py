"""Playing laws against a scenario, with the progress shown."""

from collections.abc import Iterator, Sequence

from kafkakit.autothrottle.decide.law import Law
from kafkakit.autothrottle.decide.simulate.cases import Simulation, simulate
from kafkakit.autothrottle.decide.simulate.scenario import Scenario
from kafkakit.ports.reporter import Reporter


def play_laws(
    scenario: Scenario,
    laws: Sequence[tuple[str, Law]],
    reporter: Reporter,
    *,
    reserve: float,
    tick_s: int,
    window_s: int,
) -> Simulation:
    """Each law alone, one after another."""
    with reporter.progress("simulating") as bar:

        def begun() -> Iterator[tuple[str, Law]]:
            for number, (name, law) in enumerate(laws):
                bar.update(number, len(laws), name)
                yield name, law

        return simulate(scenario, begun(), reserve=reserve, tick_s=tick_s, window_s=window_s)
