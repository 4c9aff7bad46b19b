"""A schedule in words: how long, why not faster, and what goes round."""

from kafkakit.core.quantities import counted, format_bytes, format_rate
from kafkakit.execution.decide.schedule.forecast import Forecast
from kafkakit.execution.decide.schedule.work import Bottleneck, Place, Schedule, Step, StepKind

SHOWN_STEPS = 10
SHOWN_IMMOVABLE = 5


def format_span(seconds: float) -> str:
    """A span of time as people say it: `45 s`, `3 min 20 s`, `3 h 05 min`, `2 d 4 h`."""
    total = max(0, round(seconds))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02} s"
    minutes = round(total / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def eta_line(schedule: Schedule, forecast: Forecast | None = None) -> str:
    """The one line that is said before the first byte: a time, or an interval where the basis is thin."""
    eta, bound = format_span(schedule.makespan_s), f" (bound {format_span(schedule.bound_s)})"
    if forecast is not None and forecast.is_interval:
        eta = f"{format_span(forecast.least_s)} to {format_span(forecast.most_s)}"
        bound = "" if forecast.basis else bound  # which holds for known rates alone
    line = f"ETA {eta}{bound}"
    return f"{line}, bottleneck {bottleneck_words(schedule.bottleneck)}" if schedule.bottleneck else line


def bottleneck_words(found: Bottleneck) -> str:
    """Which broker, which way, how much at which rate."""
    return f"broker {found.broker} {found.direction}: {format_bytes(found.bytes)} at {format_rate(found.bytes_per_s)}"


def schedule_lines(schedule: Schedule, forecast: Forecast | None = None, *, shown: int = SHOWN_STEPS) -> list[str]:
    """The schedule for people: the ETA, detours and other steps that are no plain moves, first steps, what cannot move.

    Times of steps are from the start of the run.
    """
    lines = [eta_line(schedule, forecast), *(f"  {b}" for b in (forecast.basis if forecast else ()))]
    extra = [s for s in schedule.steps if s.why and s.kind in (StepKind.DETOUR, StepKind.INSIDE)]
    if extra:
        bytes_twice = sum(s.size_bytes for s in extra)
        lines.append(f"{counted(len(extra), 'detour')} past full dirs, {format_bytes(bytes_twice)} copied twice:")
        lines += [f"  {s.why}" for s in extra[:shown]]
        lines += _more(len(extra), shown)
    if schedule.steps:
        lines.append(f"{counted(len(schedule.steps), 'step')}, the first:")
        lines += [f"  {step_words(s)}" for s in schedule.steps[:shown]]
        lines += _more(len(schedule.steps), shown)
    if schedule.immovable:
        lines.append(f"{counted(len(schedule.immovable), 'partition')} that no order brings to the target:")
        lines += [f"  {key}: {reason}" for key, reason in list(schedule.immovable.items())[:SHOWN_IMMOVABLE]]
        lines += _more(len(schedule.immovable), SHOWN_IMMOVABLE)
    return [*lines, *(f"note: {n}" for n in schedule.notes)]


def step_words(step: Step) -> str:
    """One step in a line: when, which partition, where to."""
    when = f"{format_span(step.start_s)} to {format_span(step.end_s)}"
    size = format_bytes(step.size_bytes)
    if step.kind is StepKind.INSIDE:
        (came,), (gone,) = step.adding, step.removing
        return f"{when}: {step.key} on broker {came.broker} from {gone.log_dir} to {came.log_dir} ({size})"
    what = f"{step.key} to [{','.join(map(str, step.target))}]"
    if not step.adding:
        return f"{when}: {what} (nothing to copy)"
    copies = " and ".join(_place(p) for p in step.adding)
    kind = "" if step.kind is StepKind.MOVE else f", {step.kind.value}"
    under_way = ", under way" if step.running else ""
    return f"{when}: {what} ({size} from {step.leader} to {copies}{kind}{under_way})"


def _place(place: Place) -> str:
    return f"{place.broker}:{place.log_dir}" if place.log_dir else str(place.broker)


def _more(count: int, shown: int) -> list[str]:
    return [f"  and {count - shown} more"] if count > shown else []
