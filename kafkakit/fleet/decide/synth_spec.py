"""What fleet a command line asks for."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date

from kafkakit.core.errors import InputError, UsageError
from kafkakit.fleet.decide.synth_defect import one_of_each
from kafkakit.fleet.decide.synth_defects import DEFECTS
from kafkakit.fleet.decide.synth_fleet import SynthRequest
from kafkakit.fleet.decide.synth_logs import FILE_DEFECTS
from kafkakit.fleet.decide.synth_shape import SIZES, Tier

DEFAULT = "default"


def asked_fleet(
    tier: Tier,
    seed: int,
    defects: str,
    read: Callable[[str], bytes],
    last_day: date,
    *,
    days: int,
    is_skewed: bool,
    segment_rows: int | None,
) -> SynthRequest:
    """The request of a command; `defects` is empty, `default` or a file that `read` reads."""
    size = SIZES[tier] if segment_rows is None else replace(SIZES[tier], segment_rows=segment_rows)
    healthy = SynthRequest(size=size, seed=seed, last_day=last_day, days=days, is_skewed=is_skewed)
    if not defects:
        return healthy
    return replace(healthy, defects=_one_of_each(healthy) if defects == DEFAULT else _counts(defects, read))


def _one_of_each(healthy: SynthRequest) -> Mapping[str, int]:
    return {**one_of_each(DEFECTS, healthy.shapes(), healthy.segment_share), **dict.fromkeys(FILE_DEFECTS, 1)}


def _counts(defects: str, read: Callable[[str], bytes]) -> Mapping[str, int]:
    try:
        found = json.loads(read(defects))
    except (ValueError, RecursionError) as error:
        raise InputError(defects, f"is not JSON: {error}") from None
    if not isinstance(found, dict) or any(type(n) is not int or n < 0 for n in found.values()):
        raise InputError(defects, "is not an object of counts", hint='write it like {"retention-overshoot": 2}')
    known = sorted({*DEFECTS, *FILE_DEFECTS})
    unknown = sorted(found.keys() - set(known))
    if unknown:
        raise UsageError(f"no defect is called {', '.join(unknown)}", hint=f"there are: {', '.join(known)}")
    return found
