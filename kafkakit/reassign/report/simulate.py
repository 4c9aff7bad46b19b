"""What simulated cases look like: a table, plots of rate and disk use in time, and the same as data."""

from collections.abc import Iterable, Iterator, Sequence

from kafkakit.core.errors import InfeasibleError
from kafkakit.core.quantities import count_of, format_bytes, format_rate, format_rough_time
from kafkakit.execution.decide.schedule.work import LogDirPlace
from kafkakit.reassign.decide.simulate import Case, DirPeak, SimulationSample
from kafkakit.report.report import Bar, Part, Remarks, Report, ResultTable, attributes, text_plot

COLUMNS = (
    "order", "throttle", "done", "seconds", "eta_seconds", "bound_seconds", "copied_bytes", "filled_dirs", "peak_use",
    "under_replicated_partition_seconds", "under_min_isr_partition_seconds",
    "offline_partition_seconds", "hanging",
)  # fmt: skip
_LINES = 16
_SHOWN = 5


def simulate_report(cases: Sequence[Case], notes: Sequence[str], *, plain: bool) -> Report:
    """The cases side by side; `plain` uses ASCII only."""
    return Report(
        command="reassign simulate",
        data=cases_data(cases, notes),
        sections=_case_sections(cases, notes, plain=plain),
        table=ResultTable(COLUMNS, case_rows(cases)),
        failure=_refusal(cases),
    )


def _refusal(cases: Sequence[Case]) -> InfeasibleError | None:
    """What `apply` says of moves that no order serves."""
    immovable = {key: why for case in cases for key, why in case.immovable.items()}
    if not immovable:
        return None
    reasons = tuple(f"{key}: {why}" for key, why in sorted(immovable.items()))
    return InfeasibleError(
        f"apply refuses this plan: {count_of(len(immovable), 'move')} cannot be made in any order: {reasons[0]}",
        reasons=reasons if len(reasons) > 1 else (),
        hint="free space, add a broker, or allow more with --max-disk-use; else make a new plan",
    )


def case_rows(cases: Sequence[Case]) -> tuple[tuple[object, ...], ...]:
    """One record a case, as `COLUMNS` names them."""
    return tuple(
        (
            c.order.value,
            "none" if c.throttle is None else c.throttle,
            c.duration_s is not None,
            c.duration_s,
            round(c.eta_s),
            round(c.bound_s),
            c.copied_bytes,
            [str_place(p.place) for p in c.filled],
            round(max((p.use for p in c.peaks), default=0.0), 4),
            c.under_replicated_s,
            c.under_min_isr_s,
            c.offline_s,
            len(c.hanging),
        )
        for c in cases
    )


def str_place(place: LogDirPlace | None) -> str:
    """A log dir as `broker:path`."""
    return "" if place is None else f"{place.broker}:{place.log_dir}" if place.log_dir else str(place.broker)


def cases_data(cases: Sequence[Case], notes: Sequence[str]) -> dict[str, object]:
    """All cases with their peaks and samples, for JSON and YAML."""
    return {"cases": [_case_data(c) for c in cases], "notes": list(notes)}


def _case_data(case: Case) -> dict[str, object]:
    return {
        "order": case.order.value,
        "throttle": case.throttle,
        "done": case.duration_s is not None,
        "seconds": case.duration_s,
        "eta_seconds": round(case.eta_s, 1),
        "bound_seconds": round(case.bound_s, 1),
        "bottleneck": None
        if case.bottleneck is None
        else {"broker": case.bottleneck.broker, "direction": case.bottleneck.direction},
        **attributes(case, "copied_bytes detours"),
        "under_replicated_partition_seconds": case.under_replicated_s,
        "under_min_isr_partition_seconds": case.under_min_isr_s,
        "offline_partition_seconds": case.offline_s,
        "hanging": [str(k) for k in case.hanging],
        "stuck": {str(k): why for k, why in sorted(case.immovable.items())},
        "log_dirs": [
            {
                "broker": p.place.broker,
                "path": p.place.log_dir,
                **attributes(p, "peak_bytes total_bytes"),
                "filled_at_seconds": p.filled_at_s,
            }
            for p in case.peaks
        ],
        "samples": [
            {"at_seconds": s.at_s, "bytes_per_s": round(s.bytes_per_s), "fullest": str_place(s.fullest), "use": s.use}
            for s in (_Bucket(part).as_sample() for part in parts(case.samples, 200))
        ],
    }


def _case_sections(cases: Sequence[Case], notes: Sequence[str], *, plain: bool) -> Iterator[Part]:
    """The table of cases, then each case's plot and what went wrong in it; `plain` uses ASCII only."""
    columns = ("order", "throttle", "takes", "eta", "bound", "copied", "fullest dir", "ends")
    yield ResultTable(columns, [_row(case) for case in cases])
    for case in cases:
        yield from ("", _title(case), *_plot(case, plain=plain), *_remarks(case))
    yield from [""] if notes else []
    yield Remarks("note", notes)


def _throttle(case: Case) -> str:
    return "none" if case.throttle is None else format_rate(case.throttle)


def _row(case: Case) -> tuple[str, ...]:
    peak = max(case.peaks, key=lambda p: p.use, default=None)
    return (
        case.order.value,
        _throttle(case),
        "-" if case.duration_s is None else format_rough_time(case.duration_s),
        format_rough_time(case.eta_s),
        format_rough_time(case.bound_s),
        format_bytes(case.copied_bytes),
        "-" if peak is None or not peak.total_bytes else f"{str_place(peak.place)} {peak.use:.1%}",
        _ending_text(case),
    )


def _ending_text(case: Case) -> str:
    if case.filled:
        return "a dir fills"
    return "done" if case.duration_s is not None else "hangs"


def _title(case: Case) -> str:
    where = ""
    if case.bottleneck is not None:
        where = f"; the most work: {case.bottleneck.direction} broker {case.bottleneck.broker}"
    return f"{case.order.value}, throttle {_throttle(case)}{where}"


class _Bucket:
    """Neighbouring samples as one: the mean rate, the fullest dir."""

    def __init__(self, samples: Sequence[SimulationSample]) -> None:
        self._samples = samples

    def as_sample(self) -> SimulationSample:
        top = max(self._samples, key=lambda s: s.use)
        rate = sum(s.bytes_per_s for s in self._samples) / len(self._samples)
        return SimulationSample(at_s=self._samples[-1].at_s, bytes_per_s=rate, fullest=top.fullest, use=top.use)


def parts(samples: Sequence[SimulationSample], most: int) -> Iterable[Sequence[SimulationSample]]:
    """Cut samples into at most `most` runs of about the same length."""
    count = min(most, len(samples))
    for k in range(count):
        yield samples[k * len(samples) // count : (k + 1) * len(samples) // count]


def _plot(case: Case, *, plain: bool) -> list[str]:
    found = [_Bucket(part).as_sample() for part in parts(case.samples, _LINES)]
    bars = [
        Bar(
            label=format_rough_time(s.at_s),
            bound=round(s.bytes_per_s),
            value=round(s.bytes_per_s),
            words=format_rate(s.bytes_per_s) + (f", fullest {str_place(s.fullest)} {s.use:.1%}" if s.fullest else ""),
        )
        for s in found
    ]
    return text_plot(bars, width=32, plain=plain)


def _remarks(case: Case) -> Iterable[str]:
    for peak in case.filled[:_SHOWN]:
        yield _filled_text(peak)
    if len(case.filled) > _SHOWN:
        yield f"and {count_of(len(case.filled) - _SHOWN, 'more dir')} fill"
    if case.detours:
        yield f"{count_of(case.detours, 'detour')} over a spare place"
    if case.immovable:
        key, why = min(case.immovable.items())
        yield f"{count_of(len(case.immovable), 'partition')} cannot move, first {key}: {why}"
    elif case.hanging:
        yield f"{count_of(len(case.hanging), 'partition')} not in place at the end, first {case.hanging[0]}"
    if case.under_replicated_s or case.offline_s:
        yield (
            f"partition-seconds under-replicated: {case.under_replicated_s}, "
            f"below min ISR: {case.under_min_isr_s}, without a leader: {case.offline_s}"
        )


def _filled_text(peak: DirPeak) -> str:
    when = format_rough_time(peak.filled_at_s or 0)
    return f"{str_place(peak.place)} fills up after {when} and goes offline with everything in it"
