"""From a request to a spec, and from what lies in a folder to the state of a run."""

import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.audit.decide.launch import Backend
from kafkakit.audit.decide.request import (
    JOBS,
    AuditRequest,
    AuditScope,
    ScopeRequest,
    parameters_of,
    snapshot_date,
    spec_of_request,
)
from kafkakit.audit.decide.runs import RUN_DOCUMENT, Progress, RunPhase, RunRecord, fails_on, progress_of, state_of
from kafkakit.core.errors import ExitCode, InputError, UsageError
from kafkakit.core.findings import FailOn, Rule, Severity, fails
from kafkakit.core.fleet_tables import JobResult, JobSpec, spec_data, spec_of
from kafkakit.core.lease import Holder, Life
from tests.places import ROOT

REQUEST = AuditRequest(jobs=("drift",), input="/in", output="/out")
KNOWN = ("2026-10-01", "2026-11-18", "2026-11-20")
DAY_END_MS = 1_795_219_200_000  # of 2026-11-20


def spec(request: AuditRequest = REQUEST, wanted: str = "2026-11-20", taken: int | None = 7, now: int = 9) -> JobSpec:
    return spec_of_request(request, known=KNOWN, wanted=wanted, taken_ms=taken, now_ms=now, version="1")


def test_the_jobs_are_those_of_the_registry() -> None:
    sys.path.insert(0, str(ROOT / "spark"))
    try:
        from kafkakit_spark.runner import NAMES
    finally:
        sys.path.remove(str(ROOT / "spark"))
    assert tuple(JOBS) == NAMES


def test_the_newest_date_is_taken_and_history_is_limited() -> None:
    assert snapshot_date(REQUEST, KNOWN, "2026-12-01") == "2026-11-20"
    assert snapshot_date(replace(REQUEST, date="2026-11-18"), KNOWN, "2026-12-01") == "2026-11-18"
    assert spec().dates == ("2026-11-18", "2026-11-20")
    assert spec(replace(REQUEST, days=1)).dates == ("2026-11-20",)
    assert spec(replace(REQUEST, days=51)).dates == KNOWN
    assert spec(wanted="2026-11-18").dates == ("2026-11-18",)


def test_segments_need_no_snapshot() -> None:
    request = replace(REQUEST, segments=("/logs",))
    assert snapshot_date(request, (), "2026-12-01") == "2026-12-01"
    assert spec(request, taken=None).now_ms == 9
    assert spec(request, taken=None, now=DAY_END_MS + 5).now_ms == DAY_END_MS


@pytest.mark.parametrize(
    ("date", "known", "said"),
    [
        (None, (), "has no snapshot"),
        ("2026-11-19", KNOWN, "has no snapshot of 2026-11-19; the newest is 2026-11-20"),
        ("2026-11-19", (), "it has none"),
        ("yesterday", KNOWN, "is no date"),
    ],
)
def test_a_date_without_snapshots_is_refused(date: str | None, known: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        snapshot_date(replace(REQUEST, date=date), known, "2026-12-01")
    assert said in caught.value.message


def test_a_run_is_named_by_all_but_its_time() -> None:
    assert spec(taken=7).run_id == spec(taken=8).run_id
    others = [
        replace(REQUEST, input="/x"), replace(REQUEST, parameters=("drift.a=1",)), replace(REQUEST, days=1),
        replace(REQUEST, segments=("/s",)), replace(REQUEST, jobs=("lag",)),
    ]  # fmt: skip
    assert len({spec(request).run_id for request in [REQUEST, *others]}) == 6


def test_parameters_are_numbers_where_they_can_be() -> None:
    assert parameters_of(("drift.a=1", "drift.b=0.5", "drift.c=x=y"), ("drift",)) == {
        "drift.a": 1, "drift.b": 0.5, "drift.c": "x=y",
    }  # fmt: skip
    for text in ("drift.a", "drift=1", "drift.=1", "lag.a=1", "drift.a="):
        with pytest.raises(UsageError):
            parameters_of((text,), ("drift",))


def test_progress_is_found_among_other_lines() -> None:
    line = '{"kafkakit": "progress", "job": "lag", "phase": "start", "number": 3, "of": 8}'
    assert str(progress_of(line)) == "job 3 of 8: lag"
    ended = '{"kafkakit": "progress", "job": "lag", "phase": "failed", "seconds": 1.26, "error": "no disk"}'
    assert progress_of(ended) == Progress(job="lag", phase="failed", seconds=1.26, error="no disk")
    assert str(progress_of(ended)) == "lag failed: no disk"
    assert str(progress_of(ended.replace("failed", "end").replace("no disk", ""))) == "lag done in 1.3 s"
    for other in ("WARN x", line[:-4], '{"kafkakit": "progress"}', '{"kafkakit": "progress", "job": 1, "of": null}'):
        assert progress_of(other) is None


COUNTS = st.dictionaries(st.sampled_from([s.value for s in Severity]), st.integers(0, 2))


@given(st.lists(COUNTS, max_size=3), st.sampled_from(FailOn))
def test_a_run_fails_as_its_findings_would(counts: list[dict[str, int]], fail_on: FailOn) -> None:
    found = [Rule("r", Severity(s), "").finding("w", "m") for c in counts for s, n in c.items() for _ in range(n)]
    results = [JobResult(job="j", findings=c) for c in counts]
    assert fails_on(results, fail_on) == fails(found, fail_on)
    assert fails_on([*results, JobResult(job="k", error="e")], fail_on)


HOLDER = Holder(host="h", user="u", command="r", pid=5, started_ticks=1, machine="m")
RECORD = RunRecord(run="r", backend=Backend.LOCAL, started_ms=1, driver=HOLDER)
DONE = (JobResult(job="a", findings={"error": 1}), JobResult(job="b"))


@pytest.mark.parametrize(
    ("results", "record", "life", "phase", "code"),
    [
        (DONE, RECORD, Life.GONE, RunPhase.DONE, ExitCode.FAILED),
        (DONE[1:], RECORD, Life.ALIVE, RunPhase.DONE, ExitCode.DONE),
        ((), None, None, RunPhase.DONE, ExitCode.DONE),
        ((JobResult(job="a", error="e"),), RECORD, Life.GONE, RunPhase.FAILED, ExitCode.FAILED),
        (None, RECORD, Life.ALIVE, RunPhase.RUNNING, ExitCode.TRY_LATER),
        (None, RECORD, Life.GONE, RunPhase.FAILED, ExitCode.FAILED),
        (None, RECORD, Life.UNKNOWN, RunPhase.UNKNOWN, ExitCode.TRY_LATER),
        (None, replace(RECORD, stopped="cancelled"), Life.GONE, RunPhase.STOPPED, ExitCode.FAILED),
        (None, replace(RECORD, stopped="cancelled"), Life.ALIVE, RunPhase.RUNNING, ExitCode.TRY_LATER),
        (None, None, None, RunPhase.SUBMITTED, ExitCode.TRY_LATER),
    ],
)
def test_the_state_of_a_run(
    results: tuple[JobResult, ...] | None, record: RunRecord | None, life: Life | None, phase: RunPhase, code: ExitCode
) -> None:
    state = state_of("/out/r", "r", results, record, life, ("a", "b"))
    assert (state.phase, state.exit_code(FailOn.WARNING)) == (phase, code)
    assert state.exit_code(FailOn.NEVER) == (ExitCode.DONE if phase is RunPhase.DONE else code)


def test_a_record_is_read_back() -> None:
    assert RUN_DOCUMENT.decode(RUN_DOCUMENT.encode(RECORD), "f") == RECORD
    with pytest.raises(InputError):
        RUN_DOCUMENT.decode(b"{}", "f")


def test_a_run_without_a_scope_is_named_as_before_there_were_scopes() -> None:
    made = spec(replace(REQUEST, parameters=("drift.a=1",), segments=("/s",)))
    assert made.run_id == "drift-2026-11-20-7c55a6fb"
    assert not {"scope", "clusters", "topics", "brokers"} & spec_data(made).keys()


def test_a_scope_is_part_of_the_spec_and_of_the_runs_name() -> None:
    hot = ScopeRequest(topics="where tier = hot")
    names = [
        spec_of_request(
            replace(REQUEST, scope=hot), known=KNOWN, wanted="2026-11-20", taken_ms=7, now_ms=9, version="1",
            scope=AuditScope(clusters=("c",), topics={"c": topics}, brokers={}),
        )
        for topics in (("a",), ("a", "b"))
    ]  # fmt: skip
    assert names[0].scope == {"topics": "where tier = hot"}
    assert names[0].run_id != names[1].run_id, "tags that changed make another run"
    assert [spec_of(json.loads(json.dumps(spec_data(one)))) for one in names] == names
