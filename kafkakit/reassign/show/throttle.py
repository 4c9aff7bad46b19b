"""The result of `reassign throttle`."""

from collections.abc import Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.execution.decide.rates import is_unlimited, rate_words, rates_to_data
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.reassign.decide.throttle_change import ThrottleResult
from kafkakit.report.report import Report

COLUMNS = ("broker", "in", "out", "inside")


def throttle_report(result: ThrottleResult) -> Report:
    """The rates that hold from now on; what could not be set fails."""
    failure = None
    if result.problems:
        failure = OperationFailedError(f"the throttle is not changed everywhere: {result.problems[0]}")
    return Report(
        command="reassign throttle",
        data=_data(result),
        text=_text(result),
        columns=COLUMNS,
        rows=_rows(result.rates),
        failure=failure,
    )


def _text(result: ThrottleResult) -> str:
    """The result for people."""
    what = "throttle" if not is_unlimited(result.rates) else "throttle lifted"
    lines = [f"{what}: {rate_words(result.rates)}" if what == "throttle" else what]
    if result.moves is None:
        lines.append(f"applied by {result.by}")
    else:
        lines.append(f"set for {result.moves} moves in flight of {result.by}")
    if not is_unlimited(result.rates):
        lines.append("brokers average over about 10 s: a higher rate begins with a burst, a lower one with a pause")
    lines += [f"problem: {p}" for p in result.problems]
    return "\n".join(lines) + "\n"


def _data(result: ThrottleResult) -> dict[str, object]:
    """The result for programs."""
    return {
        "cluster_id": result.cluster_id,
        "taken_up_by": result.by,
        "moves_in_flight": result.moves,
        "rates": rates_to_data(result.rates),
        "problems": list(result.problems),
    }


def _rows(rates: Rates) -> tuple[tuple[object, ...], ...]:
    """One row for all brokers (`*`), one for each broker with rates of its own, in `COLUMNS`."""
    own = sorted({*rates.into_of, *rates.out_of})
    rows: Sequence[tuple[object, ...]] = [(b, rates.into_broker(b), rates.out_of_broker(b), rates.inside) for b in own]
    return (("*", rates.into, rates.out, rates.inside), *rows)
