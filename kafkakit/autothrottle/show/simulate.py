"""What laws of rates would do: a table of laws, and the rates of one of them over time."""

from collections.abc import Iterator, Sequence

import numpy as np

from kafkakit.autothrottle.decide.simulate.cases import SIDES, RateSample, SimulatedLaw, Simulation, busiest, merged
from kafkakit.core.quantities import counted, format_bytes, format_percent, format_rate, format_rough_time
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report

COLUMNS = (
    "law", "finished", "seconds", "breach_seconds", "longest_breach_seconds", "changes", "left_bytes",
)  # fmt: skip
_LINES, _SHOWN_SIDES = 20, 4
_DATA_SIDES = 8
_SHOWN_BREACHES = 3


def simulation_report(found: Simulation, notes: Sequence[str]) -> Report:
    """The result of `autothrottle simulate`."""
    scenario = found.scenario
    notes = (*notes, *_remarks(found))
    is_partial = found.is_cut and not all(law.played.finished for law in found.laws)
    cut = f"simulated for {format_rough_time(scenario.seconds)} only, which is the limit of work"
    return Report(
        command="autothrottle simulate",
        data={
            "scenario": scenario.name,
            "brokers": len(scenario.broker_ids),
            "flows": len(scenario.source),
            "bytes": round(float(scenario.left.sum())),
            "least_seconds": found.least_s,
            "reserve": found.reserve,
            "ideal_seconds": found.ideal_s,
            "max_seconds": scenario.seconds,
            "is_cut": found.is_cut,
            "laws": [_law_data(law, scenario.broker_ids) for law in found.laws],
            "notes": list(notes),
        },
        text=_text(found, notes),
        columns=COLUMNS,
        rows=tuple(_row(law) for law in found.laws),
        warnings=(cut,) if is_partial else (),
    )


def _row(law: SimulatedLaw) -> tuple[object, ...]:
    played = law.played
    ended = played.seconds if played.finished else None
    left = round(played.left_bytes)
    return law.name, played.finished, ended, played.breach_s, played.longest_s, played.changes, left


def _law_data(law: SimulatedLaw, brokers: Sequence[int]) -> dict[str, object]:
    sides = busiest(law.samples, _DATA_SIDES)
    return {
        **dict(zip(COLUMNS, _row(law), strict=True)),
        "breaches": [
            {"broker": b, "direction": way, "seconds": seconds, "longest_seconds": longest}
            for b, way, seconds, longest in _breaches(law, brokers)
        ],
        "samples": [
            {
                "at_seconds": sample.at_s,
                "copied_bytes_per_s": round(float(sample.copied[0].sum())),
                "rates": [
                    {
                        "broker": brokers[n],
                        "direction": SIDES[way].value,
                        "rate_bytes_per_s": _rate(sample, way, n),
                        "copied_bytes_per_s": round(float(sample.copied[way, n])),
                    }
                    for way, n in sides
                ],
            }
            for sample in law.samples
        ],
        "warnings": list(law.warnings),
    }


def _breaches(law: SimulatedLaw, brokers: Sequence[int]) -> list[tuple[int, str, int, int]]:
    """Broker, direction, seconds, the longest; most seconds first."""
    played = law.played
    found = [
        (brokers[n], SIDES[way].value, int(played.waited[way, n]), int(played.longest[way, n]))
        for way, n in zip(*np.nonzero(played.waited), strict=True)
    ]
    return sorted(found, key=lambda b: (-b[2], b[0], b[1]))


def _rate(sample: RateSample, way: int, n: int) -> int | None:
    rate = sample.rates[way, n]
    return int(rate) if np.isfinite(rate) else None


def _text(found: Simulation, notes: Sequence[str]) -> str:
    scenario = found.scenario
    if not len(scenario.source):
        return "no moves\n"
    ideal = "more than " if found.ideal_s >= scenario.seconds else ""
    least = "more than " if found.least_s >= scenario.seconds else ""
    lines = [
        f"{counted(len(scenario.source), 'flow')} between {counted(len(scenario.broker_ids), 'broker')}, "
        f"{format_bytes(round(float(scenario.left.sum())))} to copy",
        f"lowest possible time {least}{format_rough_time(found.least_s)}; with {format_percent(found.reserve)} of each "
        f"capacity kept free, ideal rates take {ideal}{format_rough_time(found.ideal_s)}",
        "",
        text_table(("law", "takes", "clients wait", "longest", "changes", "left"), map(_words, found.laws)),
    ]
    if len(found.laws) == 1:
        lines += ["", *_rates_table(found.laws[0], scenario.broker_ids)]
    shown = _SHOWN_BREACHES if len(found.laws) == 1 else 1
    for law in found.laws:
        breaches = _breaches(law, scenario.broker_ids)
        lines += [
            f"{law.name}: broker {b} {way}: bytes of clients wait more than 250 ms for {format_rough_time(seconds)}, "
            f"{format_rough_time(longest)} at the longest"
            for b, way, seconds, longest in breaches[:shown]
        ]
        if len(breaches) > shown:
            lines.append(f"{law.name}: and {counted(len(breaches) - shown, 'more direction')} of brokers")
        lines += [f"{law.name}: {warning}" for warning in law.warnings]
    lines += [f"note: {note}" for note in notes]
    return "\n".join(lines) + "\n"


def _words(law: SimulatedLaw) -> tuple[object, ...]:
    played = law.played
    return (
        law.name,
        format_rough_time(played.seconds) if played.finished else None,
        format_rough_time(played.breach_s),
        format_rough_time(played.longest_s),
        played.changes,
        None if played.finished else format_bytes(round(played.left_bytes)),
    )


def _rates_table(law: SimulatedLaw, brokers: Sequence[int]) -> Iterator[str]:
    """What was copied, and the rates set for the directions that copied most."""
    sides = busiest(law.samples, _SHOWN_SIDES)
    rows = [
        (
            format_rough_time(sample.at_s),
            format_rate(float(sample.copied[0].sum())),
            *(_rate_words(sample, way, n) for way, n in sides),
        )
        for sample in merged(law.samples, -(-len(law.samples) // _LINES))
    ]
    yield text_table(("from", "copied", *(f"{brokers[n]} {SIDES[way].value}" for way, n in sides)), rows)


def _rate_words(sample: RateSample, way: int, n: int) -> str | None:
    if not sample.copied[way, n]:
        return None
    rate = _rate(sample, way, n)
    return "none" if rate is None else format_rate(rate)


def _remarks(found: Simulation) -> Iterator[str]:
    scenario = found.scenario
    full = np.flatnonzero((scenario.clients > scenario.real).any(axis=(0, 2))).tolist()
    if full:
        ids = ", ".join(str(scenario.broker_ids[n]) for n in full[:8]) + (", ..." if len(full) > 8 else "")
        yield f"clients alone take more than the capacity of broker {ids} at times"
