"""`kafkakit audit report|diff|metrics|fixes` at a shell, over folders as runs leave them."""

import json
import stat
from dataclasses import replace
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from kafkakit.audit.decide.runs import RunResults
from kafkakit.core.findings import finding_row
from kafkakit.core.fleet_tables import JobResult, spec_data, summary_data
from tests.places import ROOT
from tests.rigs.command_line import Home, Ran
from tests.rigs.kubernetes import cluster, printed
from tests.unit.adapters.test_metrics_services import intake
from tests.unit.audit.made import EVIL, NOW_MS, a_finding, a_run

COLUMNS = pa.schema(
    [
        (name, pa.int64() if name == "count" else pa.float64() if name == "score" else pa.string())
        for name in finding_row(a_finding("x"))
    ]
)


def leave(
    home: Home, run: RunResults, *, whole: bool = True, tables: dict[str, dict[str, list[Any]]] | None = None
) -> str:
    """The folder that a run leaves behind, below `results`."""
    folder = home.work / "results" / run.spec.run_id
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(spec_data(run.spec)))
    for result in run.results:
        if result.error:
            continue
        parts = {"findings": pa.Table.from_pylist(
            [finding_row(f) for f in run.findings if f.job == result.job], schema=COLUMNS
        )} | {name: pa.table(dict(columns)) for name, columns in (tables or {}).items()}  # fmt: skip
        for name, rows in parts.items():
            (folder / result.job / f"{name}.parquet").mkdir(parents=True)
            pq.write_table(rows, folder / result.job / f"{name}.parquet" / "part-00000.parquet")
    if whole:
        (folder / "summary.json").write_text(json.dumps(summary_data(run.spec, run.results)))
    return f"results/{run.spec.run_id}"


def week(home: Home) -> str:
    """Four days of runs; the folder of the last one."""
    leave(home, a_run(a_finding("a"), a_finding("back"), date="2026-11-17"))
    leave(home, a_run(a_finding("a"), date="2026-11-18"))
    leave(home, a_run(a_finding("a"), a_finding("fixed"), date="2026-11-19"))
    # Neither another store's runs, nor those of other jobs, nor later ones, nor cut ones are compared with.
    leave(home, a_run(a_finding("new"), date="2026-11-19", input="/other"))
    leave(home, a_run(a_finding("new", job="lag"), date="2026-11-19", jobs=("lag",)))
    leave(home, a_run(a_finding("new"), date="2026-11-21"))
    cut = a_run(a_finding("new"), date="2026-11-19", parameters={"drift.x": 1}, now_ms=NOW_MS + 1)
    leave(home, cut, whole=False)
    (home.work / "results" / "drift-2026-11-16-00000000").mkdir()
    findings = (
        a_finding("a", owner="team-a", repair="segment.ms=5"),
        a_finding("back"),
        a_finding("new", severity="error", repair="kafkakit topicmappr rebuild --topics new"),
    )
    return leave(home, a_run(*findings, date="2026-11-20"))


def audit(home: Home, *words: str, env: dict[str, str] | None = None) -> Ran:
    return home.run("audit", *words, env=env or {})


def test_a_report_compares_with_the_last_run_before_and_dates_findings(home: Home) -> None:
    ran = audit(home, "report", week(home), "-o", "json")
    assert (ran.code, ran.stderr) == (0, "")
    assert [(f["state"], f["where"], f["since"]) for f in ran.json["findings"]] == [
        ("new", "topic new of c1", "2026-11-20"),
        ("new", "topic back of c1", "2026-11-17"),
        ("still", "topic a of c1", "2026-11-17"),
    ]
    assert [f["where"] for f in ran.json["gone"]] == ["topic fixed of c1"]
    assert ran.json["compared_with"].startswith("drift-2026-11-19-")


def test_a_report_writes_a_page_and_sarif_beside_the_text(home: Home) -> None:
    run = a_run(a_finding(EVIL), jobs=("retention",), date="2026-11-20")
    result = JobResult(job="retention", tables={"partitions": 3}, clusters=run.results[0].clusters)
    run = RunResults(spec=run.spec, results=(result,), findings=(a_finding(EVIL, job="retention"),))
    folder = leave(home, run, tables={"partitions": {"overshoot": [0.2, 7.0, 8.0], "other": [1.0, 2.0, 3.0]}})
    ran = audit(home, "report", folder, "--html", "page.html", "--sarif", "a.sarif", "--fail-on", "warning")
    assert ran.code == 1
    assert ran.stdout.startswith(f"run {run.spec.run_id} of 2026-11-20: 1 job, 2 clusters")
    assert ran.stderr == "SARIF: a.sarif\npage: page.html\n"
    page = (home.work / "page.html").read_text()
    assert page.count("<svg") == 1
    assert "<script" not in page
    log = json.loads((home.work / "a.sarif").read_text())
    jsonschema.validate(log, json.loads((ROOT / "tests/cases/lint/sarif-schema-2.1.0.json").read_text()))
    assert len(log["runs"][0]["results"]) == 1


def test_a_failed_job_makes_the_report_fail(home: Home) -> None:
    folder = leave(home, a_run(jobs=("drift", "lag"), failed={"lag": "boom"}))
    ran = audit(home, "report", folder)
    assert ran.code == 1
    assert "FAILED: lag: boom" in ran.stdout


def test_a_run_without_a_result_is_refused(home: Home) -> None:
    folder = leave(home, a_run(), whole=False)
    for command in ("report", "metrics", "fixes"):
        ran = audit(home, command, folder)
        assert (ran.code, ran.stdout) == (2, "")
        assert "the run has no result yet" in ran.stderr
    assert audit(home, "diff", folder, folder).code == 2
    assert "is not an audit run" in audit(home, "report", "nowhere").stderr


def test_two_runs_are_compared_by_folder_or_by_name(home: Home) -> None:
    one = leave(home, a_run(a_finding("a"), a_finding("b"), date="2026-11-19"))
    two = leave(home, a_run(a_finding("b", owner="team-b"), a_finding("c"), date="2026-11-20"))
    ran = audit(home, "diff", one, two)
    assert ran.code == 1
    assert ran.stdout.endswith("1 new, 1 gone, 1 still there\n")
    names = [folder.removeprefix("results/") for folder in (one, two)]
    again = audit(home, "diff", *names, "--output", "results", "-o", "json")
    assert [f["where"] for f in again.json["new"]] == ["topic c of c1"]
    assert [f["owner"] for f in again.json["still"]] == ["team-b"]
    assert audit(home, "diff", one, two, "--fail-on", "error").code == 0
    assert audit(home, "diff", one, one).code == 0


def test_metrics_are_written_to_a_file_for_prometheus(home: Home) -> None:
    ran = audit(home, "metrics", week(home), "--output-file", "audits.prom")
    assert (ran.code, ran.stdout) == (0, "")
    text = (home.work / "audits.prom").read_text()
    assert 'kafkakit_audit_findings{audit="drift",cluster="c1",rule="KKT001",severity="error"} 1\n' in text
    assert 'kafkakit_audit_new_findings{severity="error"} 1\n' in text


def test_metrics_go_to_datadog_with_a_key_from_the_environment_or_a_file(home: Home) -> None:
    folder = week(home)
    key = home.work / "key"
    key.write_text("from-a-file\n")
    key.chmod(stat.S_IRUSR)
    with intake(202) as (site, got):
        ran = audit(home, "metrics", folder, "--datadog", "--datadog-site", site, env={"DD_API_KEY": "k3y"})
        assert (ran.code, ran.stderr) == (0, "")
        sent = sum(len(body["series"]) for _, _, body in got)
        assert ran.stdout == f"{sent} series sent to {site}\n"
        assert audit(home, "metrics", folder, "--datadog", "--datadog-key-file", "key", env={"DD_SITE": site}).code == 0
    assert [name for _, name, _ in got] == ["k3y", "from-a-file"]
    times = {one["points"][0]["timestamp"] for _, _, body in got for one in body["series"]}
    assert min(times) > NOW_MS / 1000, "the service takes no values as old as the snapshot"


def test_without_a_key_nothing_is_sent(home: Home) -> None:
    with intake(202) as (site, got):
        ran = audit(home, "metrics", week(home), "--datadog", "--datadog-site", site)
    assert (ran.code, got) == (2, [])
    assert "DD_API_KEY" in ran.stderr


def test_a_folder_of_runs_stands_for_the_newest_that_is_done(home: Home) -> None:
    week(home)
    (home.work / "results" / "drift-2026-11-30-0000000z").mkdir()
    leave(home, a_run(date="2026-11-29"), whole=False)
    ran = audit(home, "report", "results", "-o", "json")
    assert (ran.json["snapshot_date"], ran.json["compared_with"][:16]) == ("2026-11-21", "drift-2026-11-20")
    (home.work / "empty").mkdir()
    assert "is not an audit run" in audit(home, "report", "empty").stderr


def test_units_are_printed_for_each_scheduler(home: Home) -> None:
    given = ("--fleet", "/etc/kafkakit/f.yaml", "--store", "/srv/s", "--results", "/srv/r", "--image", "kit:1")
    for form, start in (
        ("systemd", "# kafkakit-audits.service\n[Unit]"),
        ("cron", "30 3 * * * "),
        ("k8s", "apiVersion"),
    ):
        ran = audit(home, "unit", "--format", form, *given)
        assert (ran.code, ran.stderr) == (0, "")
        assert ran.stdout.startswith(start)
    refused = audit(home, "unit", "--format", "cron", "--store", "/s", "--results", "/r")
    assert (refused.code, "no clusters are named" in refused.stderr) == (2, True)
    assert audit(home, "unit", "--format", "cron", *given, "--job", "nothing").code == 2


def test_fixes_are_a_cluster_file_that_lint_reads(home: Home) -> None:
    ran = audit(home, "fixes", week(home), "--output-file", "fixes.yaml")
    assert (ran.code, ran.stdout, ran.stderr) == (0, "", "")
    text = (home.work / "fixes.yaml").read_text()
    assert text.splitlines()[1] == "# kafkakit topicmappr rebuild --topics new"
    assert yaml.safe_load(text)["topics"] == [{"name": "a", "config": {"segment.ms": "5"}}]
    linted = home.run("lint", "-o", "json", "--fail-on", "never", "fixes.yaml")
    assert (linted.code, linted.json["resources"]["topic"]) == (0, 1)
    assert audit(home, "fixes", week_folder(home), "--cluster", "c2").stdout.startswith("# repairs of")


def test_fixes_ask_for_a_larger_volume_where_it_may_grow(home: Home) -> None:
    gib, repair = 2**30, "kafkakit topicmappr rebalance --topics '.*' --brokers -1 --plan plan.json"
    message = "/data reaches 85% in 12 days: 70.0GB of 107.4GB are used"
    findings = [
        replace(
            a_finding(f"{of}{broker}", job="capacity", rule="KKX009", repair=repair),
            where=f"broker {broker} of {of}",
            cluster=of,
            message=message,
        )
        for of, broker in (("c1", 0), ("c1", 1), ("c1", 7), ("c2", 0))
    ]
    run = a_run(*findings, jobs=("capacity",))
    rows = [("c1", 0, "/data", 100 * gib, 65 * gib, 2.0 * gib), ("c1", 1, "/data", 100 * gib, 80 * gib, None)]
    names = ("cluster", "broker", "path", "total_bytes", "used_bytes", "slope")
    run = replace(run, results=(replace(run.results[0], tables={"dirs": len(rows)}),))
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    folder = leave(home, run, tables={"dirs": columns})
    (home.work / "pods.json").write_bytes(printed(cluster("abc")))
    ran = audit(home, "fixes", folder, "--cluster", "c1", "--pods", "pods.json", "-o", "json")
    assert (ran.code, ran.stderr) == (0, "")
    patch = "kubectl patch pvc data-kafka-{} -n kafka -p "
    size = '\'{{"spec":{{"resources":{{"requests":{{"storage":"{}Gi"}}}}}}}}\''
    assert ran.json["commands"] == [
        f"{patch.format(0)}{size.format(150)}  # its volume may grow to 150Gi, enough for 42d 12h at this rate",
        f"{patch.format(1)}{size.format(130)}  # its volume may grow to 130Gi",
        repair,
    ]
    fixed = home.work / "pods.json"
    fixed.write_bytes(printed(cluster("abc", expands=False)))
    ran = audit(home, "fixes", folder, "--cluster", "c1", "--pods", "pods.json", "-o", "json")
    assert ran.json["commands"] == [repair]
    refused = audit(home, "fixes", folder, "--pods", "pods.json")
    assert (refused.code, refused.stderr.splitlines()[0]) == (2, "error: --pods is about one cluster")


def week_folder(home: Home) -> str:
    (found,) = (home.work / "results").glob("drift-2026-11-20-*")
    return str(found)
