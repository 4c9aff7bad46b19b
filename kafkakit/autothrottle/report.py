"""The results of `autothrottle`: what `show` and the service's pages tell, ticks, overrides, and simulated laws.

A tick is one line, or the result of a command. A simulation is a table of laws, and the rates of one of them over time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np

from kafkakit.autothrottle.decide.pacer import (
    Override,
    Overrides,
    PacerStatus,
    SavedTick,
    Tick,
    rates_data,
    reasons_data,
)
from kafkakit.autothrottle.decide.simulate import (
    SIDES,
    RateSample,
    SimulatedLaw,
    SimulationResult,
    busiest,
    merge_samples,
)
from kafkakit.core.documents import encode_json
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.quantities import count_of, format_bytes, format_percent, format_rate, format_rough_time
from kafkakit.core.rpc import HttpPage, Pages
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.execution.decide.schedule.work import BrokerRates, is_unlimited, rate_words
from kafkakit.report.exports import exposition, gauge, single_gauge
from kafkakit.report.report import Part, Remarks, Report, ResultTable, attributes, records

STATUS_COLUMNS = ("of", "name", "key", "value", "set_by")
SHOWN_OTHERS = 10
METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"


def status_report(found: PacerStatus, *, every: bool) -> Report:
    """What is set and by which process; of others' throttles the first ones, unless `every`."""
    rows = [(k, v, "autothrottle") for k, v in found.own.items()] + [(k, v, "others") for k, v in found.others.items()]
    return Report(
        command="autothrottle show",
        data={
            **attributes(found, "cluster_id moves"),
            "leader": found.leader or None,
            "run": found.run or None,
            "throttles": [{**k.as_data(), "value": v, "set_by": by} for k, v, by in rows],
            "overrides": overrides_data(found.overrides),
            "unreached_brokers": list(found.unreached),
            "last_tick": None if found.tick is None else _tick_data(found.tick),
        },
        sections=_status_sections(found, every=every),
        table=ResultTable(STATUS_COLUMNS, tuple((k.kind.value, k.name, k.key, v, by) for k, v, by in rows)),
    )


def _status_sections(found: PacerStatus, *, every: bool) -> Iterator[Part]:
    yield f"cluster {found.cluster_id}: {count_of(found.moves, 'move')} with a copy to make"
    yield f"leader: {found.leader or 'no pacer leads now'}"
    if found.run:
        yield f"may change the cluster now: {found.run}"
    yield Remarks("set by the pacer", (_describe_setting(k, v) for k, v in found.own.items()))
    if not found.own:
        yield "the pacer has set nothing"
    others = [_describe_setting(k, v) for k, v in found.others.items()]
    shown = others if every else others[:SHOWN_OTHERS]
    yield Remarks("set by others, not changed", shown)
    if len(others) > len(shown):
        yield f"and {len(others) - len(shown)} more of others: --all names them"
    yield from (f"override for {name}: {words}" for name, words in override_words(found.overrides))
    yield from (f"broker {b} does not answer; what is set on it is not known" for b in found.unreached)
    if (tick := found.tick) is not None:
        yield f"last tick: {tick.at:%Y-%m-%d %H:%M:%S} UTC by {tick.by}, law {tick.law}, {count_of(tick.moves, 'move')}"
        for b, side, rate, why, text in tick.reasons:
            yield f"  broker {b} {side}: {format_rate(rate)} ({why}: {text})"
        yield Remarks("  note", tick.notes)


def service_pages(last: Callable[[], Tick | None], leads: Callable[[], bool], failure: Callable[[], str]) -> Pages:
    """`/healthz` (503 after a tick that failed) and `/metrics`, by path."""

    def health(query: Mapping[str, str]) -> HttpPage:
        del query
        reason = failure()
        body = encode_json({"healthy": not reason, "leader": leads(), "problem": reason or None})
        return HttpPage(body=body, media="application/json", status=503 if reason else 200)

    def metrics(query: Mapping[str, str]) -> HttpPage:
        del query
        tick = last() if leads() else None
        found = [
            single_gauge("leader", "1 while this instance leads.", leads()),
            single_gauge("failed", "1 after a tick that failed.", bool(failure())),
        ]
        if tick is not None:
            rates = tick.rates
            sides = [] if rates is None else [("in", rates.into_of), ("out", rates.out_of)]
            samples = [
                ((("broker", str(b)), ("direction", side)), float(r))
                for side, of in sides
                for b, r in sorted(of.items())
            ]
            found += [
                single_gauge("moves", "Moves with a copy to make.", tick.moves),
                single_gauge("left_bytes", "Bytes that they still have to copy.", tick.left_bytes),
                single_gauge("not_removed", "Throttles that could not be removed.", len(tick.owed)),
                gauge("rate_bytes_per_second", "The rate that is set.", *samples),
            ]
        return HttpPage(body=exposition(found, "kafkakit_autothrottle_").encode(), media=METRICS_MEDIA)

    return {"/healthz": health, "/metrics": metrics}


def _describe_setting(key: ConfigKey, value: str) -> str:
    return f"{key.kind.value} {key.name} {key.key}={value if len(value) <= 80 else value[:77] + '...'}"


def _tick_data(tick: SavedTick) -> Mapping[str, object]:
    names = ("broker", "direction", "rate_bytes_per_s", "limited_by", "why")
    return {
        "at": tick.at.isoformat(),
        **attributes(tick, "by law moves rates"),
        "reasons": records(names, tick.reasons),
        "notes": list(tick.notes),
    }


RATE_COLUMNS = ("broker", "direction", "rate_bytes_per_s", "limited_by", "why")
SHOWN_NOTES = 3


def tick_line(tick: Tick) -> str:
    """The summary of a tick, for the log."""
    if not tick.moves:
        words = ["no moves"]
    else:
        words = [f"{count_of(tick.moves, 'move')}, {format_bytes(tick.left_bytes)} left", _rates_words(tick.rates)]
    if tick.requested_from:
        words.append(f"requested from {tick.requested_from}" if tick.moves else f"left to {tick.requested_from}")
    elif tick.writes:
        words.append(count_of(tick.writes, "change"))
    notes = [*tick.owed, *tick.notes]
    words += notes[:SHOWN_NOTES]
    if len(notes) > SHOWN_NOTES:
        words.append(f"and {count_of(len(notes) - SHOWN_NOTES, 'more note')}")
    return "; ".join(words)


def log_line(at: datetime, message: str, tick: Tick | None = None) -> str:
    """A line of the service's log for programs: one JSON object."""
    data = {"at": at.isoformat(), "message": message} | ({} if tick is None else {"tick": tick_data(tick)})
    return encode_json(data).decode().rstrip()


def once_report(tick: Tick, cluster_id: str, command: str = "autothrottle once", *, is_dry: bool = False) -> Report:
    """What a tick did, text only if something changed or is to be said; `is_dry`: what it would do, and why."""
    failure = OperationFailedError(f"not removed: {tick.owed[0]}") if tick.owed and not tick.moves else None
    return Report(
        command=command,
        data={"cluster_id": cluster_id, **tick_data(tick), "dry_run": is_dry},
        sections=_explanation(tick) if is_dry else () if tick.is_quiet else (tick_line(tick),),
        table=ResultTable(RATE_COLUMNS, reasons_data(tick.decision.reasons)),
        failure=failure,
    )


def tick_data(tick: Tick) -> dict[str, object]:
    """A tick for programs."""
    return {
        **attributes(tick, "moves left_bytes"),
        "rates": rates_data(tick.rates),
        "changes": tick.writes,
        "requested_from": tick.requested_from or None,
        "reasons": records(RATE_COLUMNS, reasons_data(tick.decision.reasons)),
        "overrides": overrides_data(tick.overrides),
        "notes": list(tick.notes),
        "not_removed": list(tick.owed),
    }


def _explanation(tick: Tick) -> Iterator[Part]:
    """What the law decides now and why, for people."""
    rows = [
        (b, s, format_rate(rate), binding, text) for b, s, rate, binding, text in reasons_data(tick.decision.reasons)
    ]
    yield from (tick_line(tick), "")
    yield ResultTable(("broker", "direction", "rate", "limited by", "why"), rows, empty="")
    yield from (f"override for {name}: {words}" for name, words in override_words(tick.overrides))


def _rates_words(rates: BrokerRates | None) -> str:
    return "no rates set" if rates is None or is_unlimited(rates) else rate_words(rates)


OVERRIDE_COLUMNS = ("broker", "in_bytes_per_s", "out_bytes_per_s", "autoremove")


def overrides_report(
    command: str, overrides: Overrides, cluster_id: str, before: Overrides | None = None, *, is_dry: bool = False
) -> Report:
    """All overrides that hold from now on; with `before`, those that are gone since come first.

    `is_dry`: those that would hold, and would be gone.
    """
    left = dict(override_words(overrides))
    gone = [] if before is None else [(name, words) for name, words in override_words(before) if name not in left]
    verb = "would remove" if is_dry else "removed"
    lines = [f"{verb} the override for {name}: {words}" for name, words in gone]
    if before is not None and not gone:
        lines.append("nothing to remove")
    if is_dry:
        lines.append("nothing was changed; afterwards there would be:")
    lines += [f"override for {name}: {words}" for name, words in left.items()] or ["no override is set"]
    return Report(
        command=command,
        data={"cluster_id": cluster_id, "overrides": overrides_data(overrides), "dry_run": is_dry},
        sections=lines,
        table=ResultTable(
            OVERRIDE_COLUMNS,
            tuple((name, o.into, o.out, o.autoremove) for name, o in _overrides_by_name(overrides).items()),
        ),
    )


def overrides_data(overrides: Overrides) -> dict[str, object]:
    """Overrides for programs; rates in bytes per second."""
    return {
        n: {"in": o.into, "out": o.out, "autoremove": o.autoremove} for n, o in _overrides_by_name(overrides).items()
    }


def override_words(overrides: Overrides) -> tuple[tuple[str, str], ...]:
    """Overrides for people, by the name of what they are for."""
    found = _overrides_by_name(overrides).items()
    return tuple(("all brokers" if name == "all" else f"broker {name}", _describe_override(o)) for name, o in found)


def _overrides_by_name(overrides: Overrides) -> dict[str, Override]:
    every = {} if overrides.every is None else {"all": overrides.every}
    return {**every, **{str(b): o for b, o in overrides.of.items()}}


def _describe_override(override: Override) -> str:
    sides = [(w, r) for w, r in (("in", override.into), ("out", override.out)) if r is not None]
    words = ", ".join(f"{word} {format_rate(rate)}" for word, rate in sides)
    return f"{words}, until the moves end" if override.autoremove else words


LAW_COLUMNS = (
    "law", "finished", "seconds", "breach_seconds", "longest_breach_seconds", "changes", "left_bytes",
)  # fmt: skip
_LINES, _SHOWN_SIDES = 20, 4
_DATA_SIDES = 8
_SHOWN_BREACHES = 3


def simulation_report(found: SimulationResult, notes: Sequence[str]) -> Report:
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
        sections=_simulation_sections(found, notes),
        table=ResultTable(LAW_COLUMNS, tuple(_row(law) for law in found.laws)),
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
        **dict(zip(LAW_COLUMNS, _row(law), strict=True)),
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


def _simulation_sections(found: SimulationResult, notes: Sequence[str]) -> Iterator[Part]:
    scenario = found.scenario
    if not len(scenario.source):
        yield "no moves"
        return
    ideal = "more than " if found.ideal_s >= scenario.seconds else ""
    least = "more than " if found.least_s >= scenario.seconds else ""
    yield (
        f"{count_of(len(scenario.source), 'flow')} between {count_of(len(scenario.broker_ids), 'broker')}, "
        f"{format_bytes(round(float(scenario.left.sum())))} to copy"
    )
    yield (
        f"lowest possible time {least}{format_rough_time(found.least_s)}; with {format_percent(found.reserve)} of each "
        f"capacity kept free, ideal rates take {ideal}{format_rough_time(found.ideal_s)}"
    )
    columns = ("law", "takes", "clients wait", "longest", "changes", "left")
    yield from ("", ResultTable(columns, [_law_cells(law) for law in found.laws]))
    if len(found.laws) == 1:
        yield from ("", _rates_table(found.laws[0], scenario.broker_ids))
    shown = _SHOWN_BREACHES if len(found.laws) == 1 else 1
    for law in found.laws:
        breaches = _breaches(law, scenario.broker_ids)
        yield from (
            f"{law.name}: broker {b} {way}: bytes of clients wait more than 250 ms for {format_rough_time(seconds)}, "
            f"{format_rough_time(longest)} at the longest"
            for b, way, seconds, longest in breaches[:shown]
        )
        if len(breaches) > shown:
            yield f"{law.name}: and {count_of(len(breaches) - shown, 'more direction')} of brokers"
        yield Remarks(law.name, law.warnings)
    yield Remarks("note", notes)


def _law_cells(law: SimulatedLaw) -> tuple[object, ...]:
    played = law.played
    return (
        law.name,
        format_rough_time(played.seconds) if played.finished else None,
        format_rough_time(played.breach_s),
        format_rough_time(played.longest_s),
        played.changes,
        None if played.finished else format_bytes(round(played.left_bytes)),
    )


def _rates_table(law: SimulatedLaw, brokers: Sequence[int]) -> ResultTable:
    """What was copied, and the rates set for the directions that copied most."""
    sides = busiest(law.samples, _SHOWN_SIDES)
    rows = [
        (
            format_rough_time(sample.at_s),
            format_rate(float(sample.copied[0].sum())),
            *(_rate_words(sample, way, n) for way, n in sides),
        )
        for sample in merge_samples(law.samples, -(-len(law.samples) // _LINES))
    ]
    return ResultTable(("from", "copied", *(f"{brokers[n]} {SIDES[way].value}" for way, n in sides)), rows)


def _rate_words(sample: RateSample, way: int, n: int) -> str | None:
    if not sample.copied[way, n]:
        return None
    rate = _rate(sample, way, n)
    return "none" if rate is None else format_rate(rate)


def _remarks(found: SimulationResult) -> Iterator[str]:
    scenario = found.scenario
    full = np.flatnonzero((scenario.clients > scenario.real).any(axis=(0, 2))).tolist()
    if full:
        ids = ", ".join(str(scenario.broker_ids[n]) for n in full[:8]) + (", ..." if len(full) > 8 else "")
        yield f"clients already take more than the capacity of broker {ids} at times"
