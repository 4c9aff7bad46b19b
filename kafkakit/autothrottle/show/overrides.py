"""Overrides as words, data and the result of a command."""

from kafkakit.autothrottle.decide.overrides import Override, Overrides
from kafkakit.core.quantities import format_rate
from kafkakit.report.report import Report

COLUMNS = ("broker", "in_bytes_per_s", "out_bytes_per_s", "autoremove")


def overrides_report(command: str, overrides: Overrides, cluster_id: str, before: Overrides | None = None) -> Report:
    """All overrides that hold from now on; with `before`, those that are gone since come first."""
    left = dict(override_words(overrides))
    gone = [] if before is None else [(name, words) for name, words in override_words(before) if name not in left]
    lines = [f"removed the override for {name}: {words}" for name, words in gone]
    if before is not None and not gone:
        lines.append("nothing to remove")
    lines += [f"override for {name}: {words}" for name, words in left.items()] or ["no override is set"]
    return Report(
        command=command,
        data={"cluster_id": cluster_id, "overrides": overrides_data(overrides)},
        text="\n".join(lines) + "\n",
        columns=COLUMNS,
        rows=tuple((name, o.into, o.out, o.autoremove) for name, o in _named(overrides).items()),
    )


def overrides_data(overrides: Overrides) -> dict[str, object]:
    """Overrides for programs; rates in bytes per second."""
    return {n: {"in": o.into, "out": o.out, "autoremove": o.autoremove} for n, o in _named(overrides).items()}


def override_words(overrides: Overrides) -> tuple[tuple[str, str], ...]:
    """Overrides for people, by the name of what they are for."""
    found = _named(overrides).items()
    return tuple(("all brokers" if name == "all" else f"broker {name}", _words(o)) for name, o in found)


def _named(overrides: Overrides) -> dict[str, Override]:
    every = {} if overrides.every is None else {"all": overrides.every}
    return {**every, **{str(b): o for b, o in overrides.of.items()}}


def _words(override: Override) -> str:
    sides = [(w, r) for w, r in (("in", override.into), ("out", override.out)) if r is not None]
    words = ", ".join(f"{word} {format_rate(rate)}" for word, rate in sides)
    return f"{words}, until the moves end" if override.autoremove else words
