"""From a request to a spec, and from what lies in a folder to the state of a run.

Two runs compared. Repairs of findings as one change that lint reads.
"""

import json
import re
import sys
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.audit.decide.launch import JOBS, Backend
from kafkakit.audit.decide.request import (
    NUMBERS,
    TEXTS,
    AuditRequest,
    AuditScope,
    ScopeRequest,
    parameters_of,
    snapshot_date,
    spec_of_request,
)
from kafkakit.audit.decide.runs import (
    RUN_DOCUMENT,
    JobProgress,
    RunPhase,
    RunRecord,
    RunResults,
    collect_repairs,
    compare,
    fails_on,
    key_of,
    progress_of,
    state_of,
    with_since,
)
from kafkakit.audit.decide.runs import fails as fails_runs
from kafkakit.audit.report.exports import fixes_report
from kafkakit.core.errors import ExitCode, InputError, UsageError
from kafkakit.core.findings import AuditFinding, FailOn, Rule, Severity, fails
from kafkakit.core.fleet_tables import JobResult, JobSpec, spec_data, spec_of
from kafkakit.core.lease import Holder, Life
from tests.places import ROOT
from tests.rigs.lint_runs import linted
from tests.unit.audit.made import EVIL, KINDS, a_finding, a_run

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
        ("yesterday", KNOWN, "is not a date"),
    ],
)
def test_a_date_without_snapshots_is_refused(date: str | None, known: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        snapshot_date(replace(REQUEST, date=date), known, "2026-12-01")
    assert said in caught.value.message


def test_a_run_is_named_by_all_but_its_time() -> None:
    assert spec(taken=7).run_id == spec(taken=8).run_id
    others = [
        replace(REQUEST, input="/x"), replace(REQUEST, parameters=("drift.stale_days=1",)), replace(REQUEST, days=1),
        replace(REQUEST, segments=("/s",)), replace(REQUEST, jobs=("lag",)),
    ]  # fmt: skip
    assert len({spec(request).run_id for request in [REQUEST, *others]}) == 6


def test_thresholds_are_numbers_and_names_texts() -> None:
    assert parameters_of(("lag.z=1", "lag.slo_share=0.5", "lag.kafka=x=y"), ("lag",)) == {
        "lag.z": 1, "lag.slo_share": 0.5, "lag.kafka": "x=y",
    }  # fmt: skip
    for text in ("lag.z", "lag=1", "lag.=1", "drift.stale_days=1", "lag.z=", "lag.a=1", "lag.z=x", "lag.z=inf"):
        with pytest.raises(UsageError):
            parameters_of((text,), ("lag",))


def test_the_thresholds_that_are_known_are_those_that_jobs_read() -> None:
    read = re.compile(r'\.number\("(\w+)"|parameters\.get\(f?"(?:\w+|{inputs\.job})\.(\w+)"')
    found = {}
    for path in sorted((ROOT / "spark" / "kafkakit_spark" / "jobs").glob("*.py")):
        names = {one or other for one, other in read.findall(path.read_text("utf-8"))}
        if names:
            found[path.stem] = names
    assert found == {job: {*NUMBERS.get(job, ()), *TEXTS.get(job, ())} for job in {*NUMBERS, *TEXTS}}


def test_progress_is_found_among_other_lines() -> None:
    line = '{"kafkakit": "progress", "job": "lag", "phase": "start", "number": 3, "of": 8}'
    assert str(progress_of(line)) == "job 3 of 8: lag"
    ended = '{"kafkakit": "progress", "job": "lag", "phase": "failed", "seconds": 1.26, "error": "no disk"}'
    assert progress_of(ended) == JobProgress(job="lag", phase="failed", seconds=1.26, error="no disk")
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
    made = spec(replace(REQUEST, parameters=("drift.stale_days=1",), segments=("/s",)))
    assert made.run_id == "drift-2026-11-20-93df23c3"
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


def names(findings: tuple[AuditFinding, ...]) -> list[str]:
    return [f.where.split()[1] for f in findings]


def test_new_gone_and_still_there_are_told_by_fingerprint() -> None:
    one = a_run(a_finding("a"), a_finding("b"), date="2026-11-19")
    two = a_run(a_finding("b", message="b is worse"), a_finding("c"))
    found = compare(one, two)
    assert (names(found.new), names(found.gone), names(found.still)) == (["c"], ["a"], ["b"])
    assert found.still[0].message == "b is worse", "the words are those of the later run"
    assert found.notes == ()
    assert (found.earlier, found.later) == (one.spec.run_id, two.spec.run_id)


def test_a_cluster_that_was_left_out_is_neither_gone_nor_new() -> None:
    both = {"c1": KINDS, "c2": KINDS}
    one = a_run(a_finding("a", cluster="c1"), a_finding("a", cluster="c2"), clusters=both)
    two = a_run(a_finding("a", cluster="c1"), clusters={"c1": KINDS}, date="2026-11-21")
    found = compare(one, two)
    assert found.gone == ()
    assert [f.cluster for f in found.unseen_after] == ["c2"]
    assert found.notes == (f"drift did not look at c2 in {two.spec.run_id}",)
    back = compare(two, one)
    assert back.new == ()
    assert [f.cluster for f in back.unseen_before] == ["c2"]


def test_a_table_that_was_not_collected_again_does_not_end_its_findings() -> None:
    one = a_run(a_finding("a"), clusters={"c1": ("partitions", "segments")})
    assert compare(one, a_run(clusters={"c1": ("partitions",)})).gone == ()
    assert names(compare(one, a_run(clusters={"c1": ("partitions", "segments", "topics")})).gone) == ["a"]


def test_a_job_that_failed_ends_no_finding() -> None:
    one = a_run(a_finding("a"), a_finding("b", job="lag"), jobs=("drift", "lag"))
    found = compare(one, a_run(jobs=("drift", "lag"), failed={"lag": "boom"}))
    assert (names(found.gone), names(found.unseen_after)) == (["a"], ["b"])
    assert any("lag failed in " in note for note in found.notes)


def test_clusters_known_from_segment_trees_alone_are_compared_where_the_trees_are_the_same() -> None:
    one = a_run(a_finding("a", cluster="tree"), segments=("/d1",))
    assert names(compare(one, a_run(segments=("/d1", "/d2"))).gone) == ["a"]
    assert compare(one, a_run(segments=("/d2",))).gone == ()
    assert compare(one, a_run(segments=("/d1",), clusters={"tree": ()})).gone != ()


def test_a_cluster_without_any_table_was_looked_at_all_the_same() -> None:
    one = a_run(a_finding("a", cluster="bare"), clusters={"bare": ()})
    assert compare(one, a_run(clusters={})).gone == ()
    assert names(compare(one, a_run(clusters={"bare": ()})).gone) == ["a"]


def test_one_fingerprint_in_two_jobs_is_two_findings() -> None:
    one = a_run(a_finding("a"), jobs=("drift", "lag"))
    assert names(compare(one, a_run(a_finding("a"), a_finding("a", job="lag"), jobs=("drift", "lag"))).new) == ["a"]


def test_differences_of_the_runs_are_told() -> None:
    found = compare(a_run(parameters={"drift.x": 1}, version="1"), a_run(jobs=("lag",), input="/other", version=""))
    assert found.notes == (
        f"drift is not part of {found.later}",
        f"lag is not part of {found.earlier}",
        "the runs read different stores: /store and /other",
        "the runs have different thresholds: drift.x",
        "the runs were made by different versions: 1 and unknown",
    )


FINDINGS = st.lists(
    st.builds(
        a_finding, st.sampled_from("abcd"), job=st.sampled_from(("drift", "lag")), cluster=st.sampled_from(("c1", "c2"))
    ),
    max_size=12,
)
RUNS = st.builds(
    lambda found, clusters, failed: a_run(
        *(f for f in found if f.job not in failed and f.cluster in clusters),
        jobs=("drift", "lag"),
        clusters=dict.fromkeys(clusters, KINDS),
        failed=failed,
    ),
    FINDINGS,
    st.sets(st.sampled_from(("c1", "c2"))),
    st.sampled_from(({}, {"lag": "boom"})),
)


@given(RUNS, RUNS)
@settings(max_examples=150)
def test_each_finding_is_in_exactly_one_part(one: RunResults, two: RunResults) -> None:
    found = compare(one, two)
    later = [*found.new, *found.still, *found.unseen_before]
    assert sorted(map(key_of, later)) == sorted(map(key_of, two.findings))
    kept = [f for f in one.findings if key_of(f) in {key_of(s) for s in found.still}]
    earlier = [*found.gone, *found.unseen_after, *kept]
    assert sorted(map(key_of, earlier)) == sorted(map(key_of, one.findings))
    back = compare(two, one)
    assert (back.gone, back.unseen_after) == (found.new, found.unseen_before)


@given(RUNS)
@settings(max_examples=30)
def test_a_run_has_no_difference_from_itself(run: RunResults) -> None:
    found = compare(run, run)
    assert (found.new, found.gone, found.unseen_before, found.unseen_after) == ((), (), (), ())
    assert found.still == run.findings


def test_the_first_date_is_that_of_the_first_run_that_found_it() -> None:
    a, b = a_finding("a"), a_finding("b", since="2026-01-01")
    found = with_since((a, b), {key_of(a): "2026-11-02"}, "2026-11-20")
    assert [f.since for f in found] == ["2026-11-02", "2026-01-01"]
    assert with_since((a,), {}, "2026-11-20")[0].since == "2026-11-20"


def test_failing_goes_by_severity() -> None:
    note, warning = a_finding("a", severity="note"), a_finding("a")
    assert [fails_runs((note, warning), level) for level in FailOn] == [False, True, True, False]
    assert [fails_runs((note,), level) for level in FailOn] == [False, False, True, False]


def test_what_is_beyond_a_scope_is_neither_gone_nor_new() -> None:
    one = a_run(a_finding("a"), a_finding("b"), a_finding("a", cluster="c2"))
    two = a_run(topics={"c1": ("b",)}, scope={"topics": "where tier = hot"})
    found = compare(one, two)
    assert (names(found.gone), names(found.unseen_after)) == (["b"], ["a", "a"])
    assert found.notes == ("the runs have different scopes: findings that only one of them reports are not compared",)
    assert names(compare(two, one).unseen_before) == ["a", "a"]
    brokers = a_run(brokers={"c1": ("1",)}, scope={"brokers": "1"})
    assert names(compare(one, brokers).gone) == ["a", "b", "a"], "topics are not limited there"
    assert len(compare(a_run(broker_finding("1"), broker_finding("2")), brokers).unseen_after) == 1


def broker_finding(name: str) -> AuditFinding:
    return a_finding("x", where=f"broker {name} of c1", fingerprint=name)


def test_settings_are_grouped_by_cluster_and_resource_and_lint_reads_them() -> None:
    findings = (
        a_finding("orders", repair="segment.ms=600000\nsegment.bytes=1048576", code="KKR201"),
        a_finding("x", where="partition orders-3 of c1", repair="retention.ms=86400000", code="KKR202"),
        a_finding("x", where="broker 5 of c1", repair="log.cleaner.threads=2"),
        a_finding("x", where="cluster c2", cluster="c2", repair="log.retention.ms=5000"),
        a_finding("x", cluster="c2", repair="kafkakit topicmappr rebalance --topics x"),
        a_finding("y", cluster="c2", repair="kafkakit topicmappr rebalance --topics x"),
        a_finding("z"),
    )
    report = fixes_report(collect_repairs(findings), "r1")
    assert list(yaml.safe_load_all(report.text)) == [
        {
            "kafkakit": "cluster",
            "cluster": "c1",
            "brokers": [{"id": 5, "dynamic": {"log.cleaner.threads": "2"}}],
            "topics": [
                {
                    "name": "orders",
                    "config": {"retention.ms": "86400000", "segment.bytes": "1048576", "segment.ms": "600000"},
                }
            ],
        },
        {"kafkakit": "cluster", "cluster": "c2", "defaults": {"log.retention.ms": "5000"}},
    ]
    assert report.text.splitlines()[:2] == [
        "# repairs of the findings of run r1: 5 settings of 2 clusters, 1 command",
        "# kafkakit topicmappr rebalance --topics x",
    ]
    assert report.rows[1] == ("c1", "topic", "orders", "retention.ms", "86400000", ["KKR201", "KKR202"])
    assert report.warnings == ()
    read = linted({"fixes.yaml": report.text}).result
    assert read.resources["topic"] == 1
    assert not {c.finding.rule for c in read.checked if c.finding.rule.startswith("KKL")}


def test_one_cluster_can_be_chosen() -> None:
    findings = (a_finding("a", repair="k.a=1"), a_finding("b", cluster="c2", repair="k.b=2"))
    assert list(collect_repairs(findings, "c2").settings) == ["c2"]


def test_the_worse_finding_wins_and_the_other_is_told() -> None:
    findings = (a_finding("a", repair="segment.ms=1"), a_finding("a", repair="segment.ms=2", code="KKR202"))
    made = collect_repairs(findings)
    assert made.settings == {"c1": {("topic", "a"): {"segment.ms": "1"}}}
    assert made.left_out == ("KKR202 at topic a of c1: segment.ms=2 is not taken, a worse finding asks for 1",)


def test_what_cannot_be_a_change_is_told() -> None:
    findings = (
        a_finding("a", where="group billing of c1", repair="k.a=1"),
        a_finding("b", repair="rm -rf /"),
        a_finding("c", where="broker x of c1", repair="k.a=1"),
    )
    made = collect_repairs(findings)
    assert (made.settings, made.commands, len(made.left_out)) == ({}, (), 3)
    assert fixes_report(made, "r").text == (
        "# repairs of the findings of run r: 0 settings of 0 clusters, 0 commands\n"
    )


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
@settings(max_examples=60)
def test_any_name_and_value_come_back_from_the_file(topic: str, value: str) -> None:
    value = " ".join(value.split())
    finding = a_finding("a", where=f"topic {topic} of {EVIL}", cluster=EVIL, repair=f"retention.ms={value}")
    repairs = collect_repairs((finding,))
    report = fixes_report(repairs, EVIL)
    if repairs.settings:
        (document,) = yaml.safe_load_all(report.text)
        assert document["cluster"] == EVIL
        assert document["topics"] == [{"name": topic, "config": {"retention.ms": value}}]
