"""`kafkakit config` over a cluster in memory: stdout, stderr and exit code of each command."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.read_only import ReadOnlyAdmin
from kafkakit.core.errors import TryLaterError
from kafkakit.ports.admin import ClusterAdmin
from tests.fakes.admin import FakeClock, FakeCluster
from tests.rigs.command_line import Home, Ran
from tests.rigs.metrics_http import Reply, Request, serving, vector
from tests.rigs.printed_repairs import command_in, commands_in, hint_of

QUICK = ("--baseline", "20s", "--window", "10s", "--every", "5s")


class Host:
    """An operator's host with profile `p`, and a mirrored cluster behind profile `m`."""

    def __init__(self, folder: Path) -> None:
        self.home, self.clock = Home(folder), FakeClock()
        self.clusters = {}
        for name, profile in (("prod", "p"), ("mirror", "m")):
            self.home.write_config(f"bootstrap_server: {name}:1\n", f"profiles.d/{profile}.yaml")
            cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, cluster_id=name)
            cluster.add_topic("t", {0: (1, 2, 3), 1: (2, 3, 1)}, size_bytes=1000)
            self.clock.on_sleep.append(cluster.advance)
            self.clusters[name] = cluster
        self.cluster = self.clusters["prod"]

    def open_admin(self, settings: Any, *, read_only: bool = False) -> ClusterAdmin:
        found = self.clusters[settings.bootstrap_servers.partition(":")[0]]
        return ReadOnlyAdmin(found) if read_only else found

    def run(self, *words: str, stdin: str = "") -> Ran:
        return self.home.run("--profile", "p", "config", *words, stdin=stdin)

    def plan(self, *words: str) -> Ran:
        return self.run("plan", *words, "--plan", "plan.json", "--force")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr(wiring, "open_admin", found.open_admin)
    monkeypatch.setattr(wiring, "system_clock", lambda: found.clock)
    return found


@pytest.mark.parametrize("value", ["retention.ms=1d", "retention.ms=5", "min.insync.replicas=4"])
def test_a_plan_that_lint_calls_an_error_is_not_written(host: Host, value: str) -> None:
    ran = host.run("plan", value, "--topic", "t", "--plan", "plan.json", "--exit-code")
    assert ran.code == 1
    assert "of level error, so no plan was written\nhint: choose other values, or pass --force" in ran.stderr
    assert "steps:" in ran.stdout
    assert not (host.home.work / "plan.json").exists()
    assert host.plan(value, "--topic", "t").code == 0
    assert (host.home.work / "plan.json").exists()


def test_plan_apply_history_and_rollback(host: Host) -> None:
    ran = host.plan("retention.ms=5", "--topic", "t")
    assert ran.code == 0
    assert "cluster prod (profile p): 1 setting to change in 1 step" in ran.stdout
    assert "carry it out with: kafkakit --profile p config apply plan.json" in ran.stdout
    assert host.run("plan", "retention.ms=5", "--topic", "t", "--force", "--exit-code", "-o", "json").code == 3
    done = host.run("apply", "plan.json", "--yes", *QUICK)
    assert done.code == 0
    assert "applied" in done.stdout.splitlines()[0]
    assert "step 1 of 1: topic t" in done.stderr
    assert host.cluster.topics["t"].configs == {"retention.ms": "5"}
    assert "nothing to do" in host.run("apply", "plan.json", "--yes", *QUICK).stdout
    (run,) = host.run("history", "-o", "json").json["runs"]
    assert (run["state"], run["settings"], run["steps"]) == ("applied", 1, "1/1")
    assert "topic t" in host.run("history", run["run"]).stdout
    back = host.run("rollback", "--yes")
    assert (back.code, host.cluster.topics["t"].configs) == (0, {})
    assert "rolled back by an operator" in back.stdout
    assert host.run("rollback", "--yes").code == 2


def test_without_yes_or_with_a_dry_run_nothing_is_written(host: Host) -> None:
    host.plan("retention.ms=5", "--topic", "t")
    assert host.run("apply", "plan.json", *QUICK).code == 2
    dry = host.run("apply", "plan.json", "--dry-run")
    assert (dry.code, "nothing is done" in dry.stdout) == (0, True)
    assert host.cluster.calls == []
    assert host.run("history").stdout.endswith("no rollout on this host\n")


def test_history_needs_no_cluster(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in ("p", "m"):
        host.home.run(
            "--profile", profile, "config", "plan", "retention.ms=5", "--topic", "t", "--plan", "plan.json", "--force"
        )
        host.home.run("--profile", profile, "config", "apply", "plan.json", "--yes", *QUICK)

    def unreachable(settings: Any, *, read_only: bool = False) -> ClusterAdmin:
        raise TryLaterError(f"{settings.bootstrap_servers} does not answer")

    monkeypatch.setattr(wiring, "open_admin", unreachable)
    every = host.run("history", "-o", "json")
    assert {run["cluster_id"] for run in every.json["runs"]} == {"prod", "mirror"}
    assert (every.code, every.json["cluster_id"]) == (0, None)
    assert every.stderr == "warning: prod:1 does not answer; these are this host's rollouts of all clusters\n"
    for run in every.json["runs"]:
        assert f"rollout {run['run']} on cluster {run['cluster_id']}: applied" in host.run("history", run["run"]).stdout
    assert "there is no rollout 'x' of any cluster on this host" in host.run("history", "x").stderr
    host.home.write_config("bootstrap_server: prod:1\ncluster_id: prod\n", "profiles.d/p.yaml")
    of_one = host.run("history", "-o", "json")
    assert ([run["cluster_id"] for run in of_one.json["runs"]], of_one.stderr) == (["prod"], "")


def test_a_bad_change_is_taken_back_and_exits_with_1(host: Host) -> None:
    host.cluster.kill(3)
    host.plan("min.insync.replicas=3", "--topic", "t")
    ran = host.run("apply", "plan.json", "--yes", *QUICK)
    assert ran.code == 1
    assert "taken back: after topic t: partitions under min ISR: 2 (t-0, t-1), usual 0, limit 0" in ran.stderr
    assert host.cluster.topics["t"].configs == {}


def test_a_rehearsal_comes_first_and_one_that_fails_changes_nothing(host: Host) -> None:
    host.plan("retention.ms=5", "--topic", "t")
    assert host.run("apply", "plan.json", "--yes", "--rehearse", "m", *QUICK).code == 0
    assert host.clusters["mirror"].topics["t"].configs == {"retention.ms": "5"}
    host.clusters["mirror"].kill(3)
    host.plan("min.insync.replicas=3", "--topic", "t")
    ran = host.run("apply", "plan.json", "--yes", "--rehearse", "m", "--accept-unlike", *QUICK)
    assert ran.code == 1
    assert "the rehearsal on profile m was taken back" in ran.stderr
    assert host.cluster.topics["t"].configs == {"retention.ms": "5"}
    assert host.run("apply", "plan.json", "--yes", "--rehearse", "p", *QUICK).code == 2


def test_restarts_need_a_command_or_are_left(host: Host) -> None:
    host.plan("replica.fetch.max.bytes=9", "log.retention.ms=5", "--broker", "2")
    ran = host.run("apply", "plan.json", "--yes", *QUICK)
    assert (ran.code, "broker 2 must restart for replica.fetch.max.bytes" in ran.stderr) == (2, True)
    assert host.run("apply", "plan.json", "--yes", "--restart-with", "none.sh", *QUICK).code == 2
    assert host.run("apply", "plan.json", "--yes", "--leave-restarts", *QUICK).code == 0
    assert host.cluster.brokers[2].configs == {"log.retention.ms": "5"}


def test_watch_changes_nothing_and_tells_by_its_exit_code(host: Host) -> None:
    good = host.run("watch", *QUICK, "--windows", "2")
    assert (good.code, host.cluster.calls) == (0, [])
    host.clock.on_sleep.append(lambda _: host.cluster.kill(3) if host.clock.elapsed > 57 else None)
    bad = host.run("watch", *QUICK, "--windows", "3", "-o", "json")
    assert bad.code == 1
    assert any("under-replicated partitions" in line for line in bad.json["bad"])


def test_diff_between_a_file_and_the_cluster(host: Host) -> None:
    host.cluster.topics["t"].configs["retention.ms"] = "5"
    host.home.work.mkdir(parents=True, exist_ok=True)
    (host.home.work / "c.yaml").write_text(
        "kafkakit: cluster\ntopics:\n  - name: t\n    config: {retention.ms: 7}\n", encoding="utf-8"
    )
    ran = host.run("diff", "c.yaml", "live", "-o", "tsv", "--exit-code")
    assert (ran.code, ran.stdout) == (3, "topic t\tretention.ms\t7\t5\n")
    assert host.run("diff", "live", "profile:m", "-o", "json").json["differences"] != []
    assert host.run("diff", "time:yesterday", "live").code == 2
    assert host.run("diff", "missing.yaml", "live").code == 2
    assert json.loads(host.run("diff", "time:2025-01-01T00:00:00Z", "live", "-o", "json").stdout)["differences"] == []


def test_a_prometheus_server_tells_what_was_usual_and_what_is_worse(host: Host) -> None:
    """Its past is read at once; latency rises with the first change."""

    def answer(request: Request) -> Reply:
        at = float(request.words["time"])
        slow = bool(host.cluster.calls) and "requestmetrics" in request.words["query"]
        usual = 10.0 if "requestmetrics" in request.words["query"] else 0.0
        return vector(({}, 900.0 if slow else usual), at=at)

    host.plan("retention.ms=5", "--topic", "t")
    words = ("--metrics", "prometheus", "--baseline", "1h", "--window", "20s", "--every", "5s")
    with serving(answer) as server:
        begun = host.clock.elapsed
        ran = host.run("apply", "plan.json", "--yes", *words, "--prometheus-url", server.url)
        assert ran.code == 1
        assert "produce latency (p99): 900 ms, usual 10 ms, limit 15 ms" in ran.stderr
        assert host.cluster.topics["t"].configs == {}
        assert host.clock.elapsed - begun < 60
        queries = {request.words["query"] for request in server.got}
        assert len(queries) == 5
    away = host.run("watch", *words, "--prometheus-url", server.url)
    assert (away.code, "no baseline" in away.stderr) == (75, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--window", "1s", "--every", "5s"), "--window must be at least twice --every"),
        (("--window", "20s", "--every", "5s", "--baseline", "10s"), "--baseline must not be shorter than --window"),
        (("--window", "soon"), "--window"),
    ],
)
def test_windows_that_cannot_be_judged_are_refused(host: Host, words: tuple[str, ...], said: str) -> None:
    ran = host.run("watch", *words)
    assert (ran.code, said in ran.stderr) == (2, True)


def test_nothing_open_is_no_rollout_to_resume_or_abort(host: Host) -> None:
    assert host.run("resume", "--yes").code == 2
    assert host.run("abort", "--yes").code == 2
    assert host.run("resume", "nope", "--yes").code == 2


def test_a_dry_run_and_a_question_say_what_would_be_done(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.plan("retention.ms=5", "--topic", "t")
    assert "1. topic t: retention.ms=5" in host.run("apply", "plan.json", "--dry-run").stdout
    assert host.run("apply", "plan.json", "--yes", *QUICK).code == 0
    assert "every value is set already" in host.run("apply", "plan.json", "--dry-run").stdout
    (run,) = (run["run"] for run in host.run("history", "-o", "json").json["runs"])
    dry = host.run("rollback", "--dry-run")
    assert f"rollout {run} " in dry.stdout
    assert "would be taken back:\n  topic t retention.ms: 5 -> not set\n\nnothing is done" in dry.stdout
    assert host.cluster.topics["t"].configs == {"retention.ms": "5"}
    asked: list[str] = []
    monkeypatch.setattr("kafkakit.cli.context.CliContext.input_allowed", True)
    monkeypatch.setattr("kafkakit.cli.output.Output.ask_typed", lambda _, question: asked.append(question))
    declined = host.run("rollback")
    assert (declined.code, len(asked)) == (0, 1)
    assert "topic t retention.ms: 5 -> not set" in declined.stderr
    assert host.cluster.topics["t"].configs == {"retention.ms": "5"}


def test_a_dry_run_compares_the_mirror(host: Host) -> None:
    host.clusters["mirror"].add_topic("u", {0: (1, 2)}, size_bytes=1)
    host.plan("retention.ms=5", "--topic", "t")
    assert host.run("apply", "plan.json", "--dry-run", "--rehearse", "m").code == 0
    host.clusters["mirror"].topics["t"].configs["retention.ms"] = "9"
    ran = host.run("apply", "plan.json", "--dry-run", "--rehearse", "m")
    assert (ran.code, "topic t retention.ms is 9 there, not set here" in ran.stderr) == (2, True)
    assert host.run("apply", "plan.json", "--dry-run", "--rehearse", "m", "--accept-unlike").code == 0
    assert host.clusters["mirror"].calls == []


def test_an_abort_without_an_open_rollout_here_asks_elsewhere(host: Host) -> None:
    """Where no process has the lease there is nothing to ask either."""
    ran = host.run("abort", "--yes")
    assert (ran.code, "no rollout of this cluster is open on this host" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "retnetion.ms=5", "--topic", "t"), "did you mean retention.ms?"),
        (("diff", "profile:", "live"), "names no profile"),
        (("watch", "--metrics", "datadog"), "no api key is given"),
        (("watch", "--metrics", "prometheus", "--prometheus-url", "http://127.0.0.1:1", *QUICK), "127.0.0.1:1"),
    ],
)
def test_messages_name_what_is_wrong(host: Host, words: tuple[str, ...], said: str) -> None:
    ran = host.run(*words)
    assert ran.code in (2, 75)
    assert said in ran.stderr


def test_what_stops_or_waits_prints_commands_for_the_same_cluster(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        if host.cluster.calls:
            host.clock.on_sleep.remove(interrupt)
            raise KeyboardInterrupt

    host.plan("retention.ms=5", "--topic", "t")
    host.clock.on_sleep.append(interrupt)
    cut = host.run("apply", "plan.json", "--yes", *QUICK)
    assert (cut.code, host.cluster.topics["t"].configs) == (130, {"retention.ms": "5"})
    lines = "\nkafkakit --profile p config resume --yes\nkafkakit --profile p config abort --yes\n"
    assert cut.stderr.endswith(f"error: stopped; the rollout stays open\nhint: continue it, or take it back:{lines}")
    host.plan("segment.ms=600000", "--topic", "t")
    other = host.run("apply", "plan.json", "--yes", *QUICK)
    assert (other.code, other.stderr.endswith(f"finish it, or take it back, first:{lines}")) == (2, True)
    assert host.run("abort", "--yes").code == 0
    assert host.cluster.topics["t"].configs == {}


def carried_out(host: Host, words: list[str], *more: str) -> Ran:
    """A printed command, as it stands."""
    assert words[:2] == ["--profile", "p"], words
    return host.home.run(*words, *more)


def test_the_commands_of_a_plan_and_of_a_rollout_do_what_they_say(host: Host) -> None:
    planned = host.plan("retention.ms=5", "--topic", "t")
    words = command_in(planned.stdout[planned.stdout.index("carry it out with: ") :])
    assert words[2:] == ["config", "apply", "plan.json"]
    done = carried_out(host, words, "--yes", *QUICK)
    assert (done.code, host.cluster.topics["t"].configs) == (0, {"retention.ms": "5"})
    (back,) = commands_in(done.stdout)
    (run,) = (run["run"] for run in host.run("history", "-o", "json").json["runs"])
    assert back[2:] == ["config", "rollback", run]
    aborted = host.run("abort", run, "--yes")
    assert (aborted.code, commands_in(aborted.stderr)) == (2, [back]), "it is applied, so it is rolled back"
    assert (carried_out(host, back, "--yes").code, host.cluster.topics["t"].configs) == (0, {})


@pytest.mark.parametrize("file", ["plan.json", "my plan.json"])
def test_the_command_of_a_plan_names_its_file(host: Host, file: str) -> None:
    planned = host.run("plan", "retention.ms=5", "--topic", "t", "--plan", file, "--force")
    words = command_in(planned.stdout[planned.stdout.index("carry it out with: ") :])
    assert (words[2:], carried_out(host, words, "--dry-run").code) == (["config", "apply", file], 0)


@pytest.mark.parametrize(("word", "after"), [("resume", {"retention.ms": "5"}), ("abort", {})])
@pytest.mark.parametrize("at", ["stopped", "in the way"])
def test_a_rollout_that_is_open_ends_as_its_commands_say(host: Host, word: str, after: dict[str, str], at: str) -> None:
    def interrupt(_: float) -> None:
        if host.cluster.calls:
            host.clock.on_sleep.remove(interrupt)
            raise KeyboardInterrupt

    host.plan("retention.ms=5", "--topic", "t")
    host.clock.on_sleep.append(interrupt)
    ran = host.run("apply", "plan.json", "--yes", *QUICK)
    if at == "in the way":
        host.plan("segment.ms=600000", "--topic", "t")
        ran = host.run("apply", "plan.json", "--yes", *QUICK)
    words = next(words for words in commands_in(ran.stderr) if words[3] == word)
    assert carried_out(host, words).code == 0
    assert host.cluster.topics["t"].configs == after
    (run,) = host.run("history", "-o", "json").json["runs"]
    assert run["state"] == ("applied" if word == "resume" else "taken back")
    again = host.run("apply", "plan.json", "--yes", *QUICK)
    assert (again.code, commands_in(again.stderr)) == (0, []), again.stderr


@pytest.mark.parametrize("words", [("history", "nope"), ("abort", "nope", "--yes"), ("resume", "--yes"), ("rollback",)])
def test_a_rollout_that_is_not_there_is_looked_for_with_the_command_of_the_hint(
    host: Host, words: tuple[str, ...]
) -> None:
    host.plan("retention.ms=5", "--topic", "t")
    host.run("apply", "plan.json", "--yes", *QUICK)
    (run,) = (run["run"] for run in host.run("history", "-o", "json").json["runs"])
    assert host.run("rollback", "--yes").code == 0
    ran = host.run(*words)
    assert ran.code == 2
    listed = carried_out(host, command_in(hint_of(ran)))
    assert (listed.code, run in listed.stdout) == (0, True)


def test_a_plan_that_is_out_of_date_is_made_again(host: Host) -> None:
    host.plan("retention.ms=5", "--topic", "t")
    host.cluster.topics["t"].configs["retention.ms"] = "9"
    ran = host.run("apply", "plan.json", "--yes", *QUICK)
    assert (ran.code, "the cluster changed since the plan" in ran.stderr) == (2, True)
    assert commands_in(hint_of(ran)) == [["--profile", "p", "config", "plan"]]
    assert host.plan("retention.ms=5", "--topic", "t").code == 0
    assert host.run("apply", "plan.json", "--yes", *QUICK).code == 0


@pytest.mark.parametrize(
    ("way", "configs"), [("--leave-restarts", {"log.retention.ms": "5"}), ("--restart-with COMMAND", None)]
)
def test_the_options_that_a_restart_needs_let_the_plan_through(
    host: Host, way: str, configs: dict[str, str] | None
) -> None:
    host.plan("replica.fetch.max.bytes=9", "log.retention.ms=5", "--broker", "2")
    ran = host.run("apply", "plan.json", "--yes", *QUICK)
    assert (ran.code, way in hint_of(ran)) == (2, True)
    script = host.home.work / "restart.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    more = [word.replace("COMMAND", "restart.sh") for word in way.split()]
    if configs is None:
        assert host.run("apply", "plan.json", "--dry-run", *more).code == 0
        return
    assert host.run("apply", "plan.json", "--yes", *QUICK, *more).code == 0
    assert host.cluster.brokers[2].configs == configs


def test_findings_of_a_cluster_are_listed_and_ended_as_the_hint_says(host: Host) -> None:
    host.cluster.topics["t"].configs["min.insync.replicas"] = "9"
    ran = host.run("plan", "--finding", "KKD999", "--plan", "plan.json")
    assert ran.code == 2
    words = command_in(hint_of(ran))
    found = carried_out(host, words, "-o", "json", "--fail-on", "never")
    assert (found.code, words[2:]) == (0, ["lint", "--live"])
    fixable = next(f for f in found.json["findings"] if f["rule"] == "KKD101")
    assert host.run("plan", "--finding", fixable["fingerprint"], "--plan", "plan.json").code == 0
    assert host.run("apply", "plan.json", "--yes", *QUICK).code == 0
    again = carried_out(host, words, "-o", "json", "--fail-on", "never")
    assert "KKD101" not in {f["rule"] for f in again.json["findings"]}


def interrupt_after_a_change(host: Host, cluster: FakeCluster) -> None:
    def interrupt(_: float) -> None:
        if cluster.calls:
            host.clock.on_sleep.remove(interrupt)
            raise KeyboardInterrupt

    host.clock.on_sleep.append(interrupt)


def test_a_rollout_that_is_open_on_the_mirror_is_ended_there(host: Host) -> None:
    """The defect: the printed commands were for the cluster that is to be changed, where nothing is open."""
    mirror = host.clusters["mirror"]
    of_mirror = ("--profile", "m", "config")
    host.home.run(*of_mirror, "plan", "segment.ms=600000", "--topic", "t", "--plan", "m.json", "--force")
    interrupt_after_a_change(host, mirror)
    assert host.home.run(*of_mirror, "apply", "m.json", "--yes", *QUICK).code == 130
    host.plan("retention.ms=5", "--topic", "t")
    ran = host.run("apply", "plan.json", "--yes", "--rehearse", "m", *QUICK)
    assert ran.code == 2
    abort = next(words for words in commands_in(hint_of(ran)) if words[3] == "abort")
    assert abort[:2] == ["--profile", "m"]
    assert (host.home.run(*abort).code, mirror.topics["t"].configs) == (0, {})
    assert host.run("apply", "plan.json", "--yes", "--rehearse", "m", *QUICK).code == 0
    assert host.cluster.topics["t"].configs == {"retention.ms": "5"}


@pytest.mark.parametrize("way", ["again", "abort"])
def test_a_rehearsal_that_was_stopped_goes_on_or_is_taken_back_as_said(host: Host, way: str) -> None:
    mirror, words = host.clusters["mirror"], ("apply", "plan.json", "--yes", "--rehearse", "m", *QUICK)
    host.plan("retention.ms=5", "--topic", "t")
    interrupt_after_a_change(host, mirror)
    cut = host.run(*words)
    assert (cut.code, mirror.topics["t"].configs, host.cluster.calls) == (130, {"retention.ms": "5"}, [])
    assert "stopped; the rehearsal on profile m stays open" in cut.stderr
    abort = command_in(hint_of(cut))
    assert abort == ["--profile", "m", "config", "abort", "--yes"]
    if way == "abort":
        assert (host.home.run(*abort).code, mirror.topics["t"].configs) == (0, {})
    assert host.run(*words).code == 0
    assert host.cluster.topics["t"].configs == mirror.topics["t"].configs == {"retention.ms": "5"}
