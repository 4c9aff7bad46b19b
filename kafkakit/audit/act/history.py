"""Reads a run with what is known of it from earlier runs: the one before, the first dates, numbers over the days."""

import re
from collections.abc import Callable

from kafkakit.audit.act.results import SPEC, AuditRun, finished_run, read_findings, read_run, read_table
from kafkakit.audit.decide.comparison import Key, RunResults, compare, key_of, with_since
from kafkakit.audit.show.page_charts import DISTRIBUTIONS
from kafkakit.audit.show.view import Columns, RunView, worst_first
from kafkakit.core.errors import InputError
from kafkakit.ports.stores import RunStore

MOST_EARLIER = 30
MOST_ROWS = 5_000_000
"""Rows of a table that the page draws: 160 MB a column as numbers of Python."""
_RUN_NAME = re.compile(r"(.+)-(\d{4}-\d\d-\d\d)-[0-9a-f]{8}")
OpenStore = Callable[[str], RunStore]


def read_whole(store: RunStore) -> RunResults:
    """A run that came to its end, with its findings; `InputError` where there is none."""
    run = finished_run(store)
    return RunResults(spec=run.spec, results=run.results or (), findings=read_findings(store, run))


def run_location(open_store: OpenStore, location: str) -> str:
    """The run's own folder; of a folder of runs that of the newest one that is done, by date and then by data."""
    names = open_store(location).names()
    if SPEC in names:
        return location
    found = []
    for match in filter(None, map(_RUN_NAME.fullmatch, names)):
        try:
            run = read_run(open_store(f"{location}/{match[0]}"))
        except InputError:
            continue
        if run.results is not None:
            found.append((run.spec.snapshot_date, run.spec.now_ms, match[0]))
    return f"{location}/{max(found)[2]}" if found else location


def read_view(open_store: OpenStore, location: str, *, with_tables: bool = False) -> RunView:
    """A run against the last one of the same jobs and store on an earlier date, in the folder that holds both.

    Reads the findings of both, the fingerprints of up to 30 runs before, one a date, and with `with_tables` the
    columns that the page draws.
    """
    store = open_store(location)
    run = read_whole(store)
    earlier = _earlier(open_store, location, run)
    first_seen: dict[Key, str] = {}
    own = {key_of(f) for f in run.findings}
    for past_store, past in earlier:
        for key in _keys(past_store, past) & own:
            first_seen.setdefault(key, past.spec.snapshot_date)
    findings = worst_first(with_since(run.findings, first_seen, run.spec.snapshot_date))
    dated = RunResults(spec=run.spec, results=run.results, findings=findings)
    return RunView(
        run=dated,
        comparison=compare(read_whole(earlier[-1][0]), dated) if earlier else None,
        history=tuple(RunResults(spec=past.spec, results=past.results or ()) for _, past in earlier),
        tables=_tables(store, run) if with_tables else {},
    )


def _earlier(open_store: OpenStore, location: str, run: RunResults) -> list[tuple[RunStore, AuditRun]]:
    """The runs to compare with, oldest first: of each date the one with the newest data, of the same scope."""
    parent = location.rstrip("/").rpartition("/")[0]
    own = _RUN_NAME.fullmatch(run.spec.run_id)
    if not parent or own is None:
        return []
    names = [m for name in open_store(parent).names() if (m := _RUN_NAME.fullmatch(name)) and m[1] == own[1]]
    by_date: dict[str, tuple[RunStore, AuditRun]] = {}
    for match in sorted(names, key=lambda m: m[2], reverse=True):
        if match[2] >= run.spec.snapshot_date or (match[2] not in by_date and len(by_date) == MOST_EARLIER):
            continue
        store = open_store(f"{parent}/{match[0]}")
        try:
            past = read_run(store)
        except InputError:
            continue
        same = ("jobs", "input", "scope")
        if past.results is None or any(getattr(past.spec, name) != getattr(run.spec, name) for name in same):
            continue
        known = by_date.get(match[2])
        if known is None or known[1].spec.now_ms < past.spec.now_ms:
            by_date[match[2]] = store, past
    return [found for _, found in sorted(by_date.items(), key=lambda item: item[0])]


def _keys(store: RunStore, run: AuditRun) -> set[Key]:
    done = [result.job for result in run.results or () if not result.error]
    return {
        (job, fingerprint)
        for job in done
        for fingerprint in read_table(store, job, "findings", ("fingerprint",)).get("fingerprint", [])
    }


def _tables(store: RunStore, run: RunResults) -> dict[tuple[str, str], Columns]:
    wanted: dict[tuple[str, str], tuple[str, ...]] = {}
    for one in DISTRIBUTIONS:
        result = run.result(one.job)
        if result is not None and one.table in result.tables:
            wanted[one.job, one.table] = (*wanted.get((one.job, one.table), ()), one.column)
    return {place: read_table(store, *place, only=columns, limit=MOST_ROWS) for place, columns in wanted.items()}
