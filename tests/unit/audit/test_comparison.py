"""Two runs compared: no finding is lost or told twice, and what was not looked at is never gone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.audit.decide.runs import RunResults, compare, fails, key_of, with_since
from kafkakit.core.findings import AuditFinding, FailOn
from tests.unit.audit.made import KINDS, a_finding, a_run


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
    assert [fails((note, warning), level) for level in FailOn] == [False, True, True, False]
    assert [fails((note,), level) for level in FailOn] == [False, False, True, False]


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
