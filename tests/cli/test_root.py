"""The root command: help without heavy imports, shared options anywhere, every failure as one line and a code."""

import ast
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any
from unittest import mock

import pytest
import typer
import yaml

from kafkakit import __version__, wiring
from kafkakit.cli import completion
from kafkakit.cli import root as cli
from kafkakit.cli.command_classes import CliCommand, CliContext, cli_context, new_group
from kafkakit.cli.output import CONSENT_HINT
from kafkakit.cli.root import ALIASES, ENTRIES, CommandSource, build_root, commands
from kafkakit.core.errors import (
    EXIT_CODE_MEANING,
    DeadlineReached,
    InfeasibleError,
    InterruptedRunError,
    OperationFailedError,
    ServiceStoppedError,
    TerminationRequested,
    TryLaterError,
    UsageError,
)
from kafkakit.report.report import Report
from tests.fakes.admin import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.rigs.command_line import Home

HEAVY = [
    "ortools", "numpy", "pandas", "pyspark", "datadog_api_client", "grpc", "rich", "kafka", "confluent_kafka",
    "kazoo", "msgspec", "yaml", "asyncio", "re2", "jinja2",
]  # fmt: skip


def python(home: Home, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    home.work.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=home.environment(env),
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["profile", "--help"],
        ["topicmappr", "rebuild", "--help"],
        ["streams", "lag", "--help"],
        ["streams", "lag", "once", "--help"],
        ["streams", "topology", "--help"],
    ],
)
def test_help_loads_nothing_heavy(home: Home, arguments: list[str]) -> None:
    code = (
        "import sys\nfrom kafkakit.cli.root import run\n"
        f"code = run({arguments!r})\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\nsys.exit(code)"
    )
    ran = python(home, code)
    assert (ran.returncode, ran.stderr) == (0, "[]\n")
    assert "kafkakit" in ran.stdout


NOT_FOR_A_FILE = [
    "pydantic", "yaml", "email", "fractions", "importlib.metadata", "kafkakit.core.lease", "kafkakit.core.query",
    "kafkakit.core.cluster_facts", "kafkakit.streams.model.log_dirs",
]  # fmt: skip


@pytest.mark.parametrize("options", [["-o", "json"], ["--env", "prod"], ["--select", "KKR"]])
def test_lint_of_a_file_loads_no_more_than_it_needs(home: Home, options: list[str]) -> None:
    words = ["lint", "--fail-on", "never", *options, "server.properties"]
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom kafkakit.cli.root import run\n"
        f"os.chdir({str(home.work)!r})\n"
        "Path('server.properties').write_text('node.id=1\\nprocess.roles=broker\\nlog.retention.hours=24\\n')\n"
        f"code = run({words!r})\n"
        f"print(sorted(set({NOT_FOR_A_FILE!r}) & set(sys.modules)), file=sys.stderr)\nsys.exit(code)"
    )
    ran = python(home, code)
    assert (ran.returncode, ran.stderr) == (0, "[]\n")
    assert "KKR201" in ran.stdout


NOT_BEFORE_A_REQUEST = [
    "pydantic", "ortools", "numpy", "networkx", "confluent_kafka", "kafkakit.topicmappr", "kafkakit.placement",
    "kafkakit.simulator", "kafkakit.execution.decide.journal", "kafkakit.execution.decide.plan_state",
    "kafkakit.execution.decide.progress", "kafkakit.execution.decide.runs", "kafkakit.execution.decide.schedule",
    "kafkakit.execution.decide.status", "kafkakit.execution.decide.throttle", "kafkakit.streams.lag",
    "kafkakit.streams.assigner",
    "kafkakit.streams.commits", "kafkakit.streams.moves", "kafkakit.streams.demo",
]  # fmt: skip
UNTIL_CONNECT = """
import os, sys
heavy = sys.argv.pop(1).split(",")

def note(event, _):
    if event == "socket.connect":
        print("loaded:", sorted(set(heavy) & set(sys.modules)), flush=True)
        os._exit(0)

sys.addaudithook(note)
from kafkakit.cli.root import run
run(sys.argv[1:])
"""


def test_a_failover_loads_no_more_than_it_needs_before_its_first_request(home: Home) -> None:
    """Nothing answers at these addresses; a value of each type is checked on the way."""
    home.work.mkdir(exist_ok=True)
    config = home.work / "config.yaml"
    profiles = {
        "prod": {"bootstrap_server": "127.0.0.1:9", "control_store": "kafka"},
        "east": {"bootstrap_server": "127.0.0.1:9"},
    }
    config.write_text(yaml.safe_dump({"profiles": profiles}))
    words = f"--config {config} --profile prod streams failover run orders --to east --yes --accept-loss 5 --wait 1m"
    code = f"import sys; sys.argv[1:] = {[','.join(NOT_BEFORE_A_REQUEST), *words.split()]!r}\n{UNTIL_CONNECT}"
    ran = python(home, code)
    assert (ran.stdout, ran.stderr) == ("loaded: []\n", "")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("", "3 0.5 None\n"),
        ("--number 007 --file a", "7 0.5 a\n"),
        ("--number 9 --part 1", "9 1.0 None\n"),
        ("--number 10", "it must be at most 9"),
        ("--number 1", "it must be at least 2"),
        ("--number x", "it is not a whole number"),
        ("--part x", "it is not a number"),
    ],
)
def test_values_are_converted_and_refused_by_their_options(
    words: str, answer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_group("t")

    @app.command("try", cls=CliCommand)
    def attempt(
        number: Annotated[int, typer.Option(min=2, max=9)] = 3,
        part: float = 0.5,
        file: Annotated[Path | None, typer.Option()] = None,
    ) -> None:
        assert not isinstance(file, str)
        print(number, part, file)

    monkeypatch.setitem(sys.modules, "tried", SimpleNamespace(app=app))
    monkeypatch.setattr(cli, "ENTRIES", (CommandSource("try", "tried", "t", is_group=False),))
    code, shown = cli.run(["try", *words.split()]), capsys.readouterr()
    assert (code, shown.out) == (0, answer) or (code == 2 and answer in shown.err)


FIRST_THREAD = """
import os, sys, threading, time
from kafkakit.cli.root import run

names = sys.argv.pop(1).split(",")

def tell():
    print("missing:", ",".join(name for name in names if name not in sys.modules), flush=True)

def started(*given, **more):
    tell()
    os._exit(0)

# A service that has nothing to do yet waits, and has begun no thread.
threading.Thread.start = threading.Event.wait = threading.Condition.wait = time.sleep = started
run(sys.argv[1:])
tell()
"""


def imported_by_adapters() -> set[str]:
    """The modules of Kafka's clients that adapters import, at the top or where they need them."""
    found = set[str]()
    for path in (Path(wiring.__file__).parent / "adapters").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
    return {name for name in found if name.split(".")[0] in ("kafka", "confluent_kafka")}


@pytest.mark.parametrize(
    "line",
    [
        "streams lag serve --listen 127.0.0.1:0",
        "streams lag watch --count 1",
        "streams lag once --wait 1s",
        "registry serve --no-token --http-listen 127.0.0.1:0 --grpc-listen 127.0.0.1:0",
        "autothrottle run --rate 10MB",
        "streams assigner run",
        "fleet collect --profiles a,b --to store",
    ],
)
def test_what_talks_to_kafka_is_imported_before_there_are_threads(home: Home, line: str) -> None:
    names = imported_by_adapters()
    assert {"kafka.protocol.admin", "confluent_kafka.admin"} <= names
    home.write_config("profiles: {a: {bootstrap_server: '127.0.0.1:1'}, b: {bootstrap_server: '127.0.0.1:2'}}\n")
    home.work.mkdir(exist_ok=True)
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_THREAD, ",".join(sorted(names)), "--profile", "a", *line.split()],
        env=home.environment({"PYTHONPATH": str(Path(wiring.__file__).parents[1])}),
        capture_output=True, text=True, cwd=home.work, timeout=280, check=False,
    )  # fmt: skip
    told = {line for line in ran.stdout.splitlines() if line.startswith("missing:")}
    assert told == {"missing: "}, ran.stderr  # also of the process that a registry forks


def test_the_table_of_groups_agrees_with_the_modules(home: Home) -> None:
    for entry in ENTRIES:
        app = getattr(import_module(entry.module), entry.app)
        assert isinstance(app, typer.Typer)
        assert entry.is_group or len(app.registered_commands) == 1
        command = cli.load(entry)
        assert command.name == entry.name
        assert command.help, f"{entry.name} has no help"
        ran = home.run(entry.name, "--help")
        assert (ran.code, ran.stderr) == (0, "")
        assert f"Usage: kafkakit {entry.name}" in ran.stdout


def test_help_names_every_group(home: Home) -> None:
    ran = home.run("--help")
    assert ran.code == 0
    assert [entry.name for entry in ENTRIES if f"\n  {entry.name} " not in ran.stdout] == []


def test_version(home: Home) -> None:
    assert home.run("--version").stdout.startswith("kafkakit ")
    ran = home.run("version", "-o", "json")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.json["kafkakit"] == {"command": "version", "schema": 1}
    assert ran.json["python"] == ".".join(str(part) for part in sys.version_info[:3])
    assert ran.json["schemas"] == {"plan": 1, "cluster-snapshot": 1}
    assert {"kafka-python", "confluent-kafka", "ortools"} <= set(ran.json["packages"])


@pytest.mark.parametrize("output", ["text", "json", "yaml", "tsv"])
def test_shared_options_stand_before_or_after_the_command(home: Home, output: str) -> None:
    before = home.run("-o", output, "version")
    after = home.run("version", "--output", output)
    by_env = home.run("version", env={"KAFKAKIT_OUTPUT": output})
    assert before == after == by_env
    assert before.code == 0
    assert home.run("-o", "json", "version", "-o", output) == after
    assert home.run("-o", output, "version", env={"KAFKAKIT_OUTPUT": "json"}) == after


def test_the_result_can_go_to_a_file(home: Home) -> None:
    ran = home.run("version", "-o", "yaml", "--output-file", "v.yaml")
    assert (ran.code, ran.stdout, ran.stderr) == (0, "", "")
    assert yaml.safe_load((home.work / "v.yaml").read_text())["kafkakit"]["command"] == "version"


def test_a_dash_as_the_result_file_is_stdout(home: Home) -> None:
    assert home.run("version", "--output-file", "-") == home.run("version")
    assert list(home.work.iterdir()) == []


def test_overrides_before_and_after_add_up(home: Home) -> None:
    ran = home.run("-X", "cluster_id=a", "profile", "show", "-X", "request_timeout=9s", "-o", "json")
    values = ran.json["values"]
    assert (values["cluster_id"]["value"], values["request_timeout"]["value"]) == ("a", "9s")


def test_the_list_of_keys(home: Home) -> None:
    ran = home.run("profile", "show", "-X", "list", "-o", "tsv")
    assert ran.code == 0
    keys = {line.split("\t")[0] for line in ran.stdout.splitlines()}
    assert {"bootstrap_server", "security.sasl.password_file"} <= keys
    assert "security.sasl.password" not in keys


def test_a_name_that_looks_like_an_option_is_given_behind_two_dashes(home: Home) -> None:
    ran = home.run("streams", "commits", "show", "-x")
    assert (ran.code, ran.stderr.splitlines()[0]) == (2, "error: no such option: -x")
    assert ran.stderr.splitlines()[1].endswith("show --help; if -x is a name, give it last, behind --")
    assert "behind" not in home.run("streams", "list", "-x").stderr, "takes no names"
    assert "behind" not in home.run("streams", "commits", "show", "--al").stderr, "more likely a mistyped option"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--no-such",), "no such option: --no-such"),
        (("versoin",), "no such command 'versoin'. Did you mean 'version'?"),
        (("profile",), "missing command"),
        (("version", "-o", "xml"), "invalid value for '-o' / '--output'"),
        (("sandbox", "up", "--brokers", "x"), "invalid value for '--brokers': it is not a whole number"),
        (("config", "watch", "--windows", "0"), "invalid value for '--windows': it must be at least 1"),
        (
            ("topicmappr", "rebuild", "--partition-size-factor", "x"),
            "invalid value for '--partition-size-factor': it is not a number",
        ),
        (("config", "watch", "--windows", "2000"), "invalid value for '--windows': it must be at most 1000"),
        (("version", "extra"), "got unexpected extra argument(s) (extra)"),
        (("version", "-X", "nonsense=1"), "-X 'nonsense' is not a known key"),
        (("version", "--timeout", "soon"), "--timeout 'soon' is not a duration"),
        (("--profile", "nowhere", "profile", "show"), "there is no profile 'nowhere'"),
        (("profile", "use"), "name one profile, or pass --none"),
        (("profile", "use", "a", "--none"), "name one profile, or pass --none"),
        (("profile", "check"), "no Kafka address is configured"),
    ],
)
def test_wrong_usage_is_one_line_a_hint_and_2(home: Home, arguments: tuple[str, ...], message: str) -> None:
    ran = home.run(*arguments)
    assert (ran.code, ran.stdout) == (2, "")
    error, hint = ran.stderr.splitlines()
    assert error.startswith(f"error: {message}")
    assert hint.startswith("hint: ")
    as_json = home.run("-o", "json", *arguments)
    assert (as_json.code, as_json.stderr) == (2, ran.stderr)
    if "-o" not in arguments:
        told = as_json.json["error"]
        assert (told["exit_code"], f"hint: {told['hint']}") == (2, hint)
        assert error == f"error: {told['message']}"


def test_no_command_at_all_is_wrong_usage(home: Home) -> None:
    ran = home.run()
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: missing command")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A command `tool act` that does what a test puts into `act`."""
    actions: dict[str, Any] = {}
    app = new_group("A tool for tests.")

    @app.callback()
    def group() -> None:
        """Make it a group."""

    @app.command("act", cls=CliCommand)
    def act(ctx: typer.Context) -> None:
        """Do it."""
        actions["act"](cli_context(ctx))

    module = type(sys)("tests_tool")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests_tool", module)
    monkeypatch.setattr(cli, "ENTRIES", (*ENTRIES, CommandSource("tool", "tests_tool", "A tool for tests.")))
    return actions


def raising(error: BaseException) -> Any:
    def act(cli: Any) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (UsageError("bad", hint="good"), 2, "error: bad\nhint: good\n"),
        (OperationFailedError("failed"), 1, "error: failed\n"),
        (InfeasibleError("cannot", reasons=("r1", "r2")), 4, "  r1\n  r2\nerror: cannot\n"),
        (TryLaterError("busy"), 75, "error: busy\n"),
        (InterruptedRunError("stopped", hint="kafkakit continue"), 130, "error: stopped\nhint: kafkakit continue\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
        (typer.Abort(), 1, "error: aborted\n"),
        (typer.Exit(3), 3, ""),
    ],
)
def test_an_error_becomes_its_line_and_code(
    home: Home, tool: dict[str, Any], error: BaseException, code: int, stderr: str
) -> None:
    tool["act"] = raising(error)
    ran = home.run("tool", "act")
    assert (ran.code, ran.stdout, ran.stderr) == (code, "", stderr)
    as_json = home.run("tool", "act", "-o", "json")
    if stderr:
        assert as_json.json["kafkakit"] == {"command": "tool act", "schema": 1}
        assert as_json.json["error"]["exit_code"] == code
    assert as_json.stderr == stderr


def test_reasons_stand_in_the_json(home: Home, tool: dict[str, Any]) -> None:
    tool["act"] = raising(InfeasibleError("cannot", reasons=("r1", "r2"), hint="add one"))
    assert home.run("tool", "act", "-o", "json").json["error"] == {
        "message": "cannot",
        "hint": "add one",
        "exit_code": 4,
        "reasons": ["r1", "r2"],
    }


def test_an_unexpected_error_goes_to_a_private_file(home: Home, tool: dict[str, Any]) -> None:
    home.write_config(
        "bootstrap_server: a:1\nsecurity: {protocol: SASL_PLAINTEXT, sasl: {mechanism: PLAIN, username: a}}\n",
        "profiles.d/p.yaml",
    )

    def act(cli: Any) -> None:
        raise ZeroDivisionError(f"it is {cli.settings.security.password.reveal()}\nreally")

    tool["act"] = act
    ran = home.run("tool", "act", "--profile", "p", env={"KAFKAKIT_SASL_PASSWORD": "hunter2"})
    assert (ran.code, ran.stdout) == (1, "")
    error, hint = ran.stderr.splitlines()
    assert error == "error: unexpected ZeroDivisionError: it is *** really"
    (report,) = (home.state / "crashes").iterdir()
    assert hint == f"hint: this is a bug in kafkakit; the traceback is in {report}"
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text()
    assert "Traceback" in text
    assert "hunter2" not in text


def test_where_no_report_can_be_written_the_error_is_still_one_line(home: Home, tool: dict[str, Any]) -> None:
    tool["act"] = raising(RecursionError("deep"))
    ran = home.run("tool", "act", env={"KAFKAKIT_STATE_DIR": "/proc/nowhere"})
    assert ran.code == 1
    assert ran.stderr == (
        "error: unexpected RecursionError: deep\nhint: this is a bug in kafkakit; the traceback could not be written\n"
    )


def test_the_time_limit_stops_a_command_and_lets_it_clean_up(home: Home, tool: dict[str, Any]) -> None:
    cleaned: list[bool] = []

    def act(cli: Any) -> None:
        assert cli.timeout_s == 0.05
        try:
            signal.pause()
        finally:
            cleaned.append(True)

    tool["act"] = act
    ran = home.run("--timeout", "50ms", "tool", "act")
    assert (ran.code, ran.stdout, ran.stderr) == (75, "", "error: stopped after --timeout (0.05 s)\n")
    assert cleaned == [True]


def test_an_interrupted_run_that_sigterm_stopped_exits_143(home: Home, tool: dict[str, Any]) -> None:
    def act(cli: Any) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        except KeyboardInterrupt:
            raise InterruptedRunError("the move continues", hint="kafkakit reassign apply p.json") from None

    tool["act"] = act
    ran = home.run("tool", "act")
    assert (ran.code, ran.stderr) == (143, "error: the move continues\nhint: kafkakit reassign apply p.json\n")


def test_a_second_sigterm_does_not_disturb_the_clean_up(home: Home, tool: dict[str, Any]) -> None:
    cleaned: list[bool] = []

    def act(cli: Any) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append(True)

    tool["act"] = act
    assert home.run("tool", "act").code == 143
    assert cleaned == [True]


def test_handlers_are_put_back(home: Home) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)]
    home.run("version")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)] == before


# A signal that the tests' own parent ignores, as nohup and background jobs do, is put back to what a terminal gives.
SLEEPER = """
import signal, sys, time, typer
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
from kafkakit.cli import command_classes as command, root as cli
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.root import CommandSource
app = command.new_group("t")
@app.command("wait", cls=command.CliCommand)
def wait(ctx: typer.Context) -> None:
    "Wait."
    try:
        print("ready", file=sys.stderr, flush=True)
        time.sleep(600)
    finally:
        print("cleaned", file=sys.stderr, flush=True)
module = type(sys)("m"); module.app = app; sys.modules["m"] = module
cli.ENTRIES = (CommandSource("wait", "m", "t", is_group=False),)
sys.exit(cli.run(["wait"]))
"""


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_signal_lets_finally_run(home: Home, number: signal.Signals, code: int, word: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stderr=subprocess.PIPE, text=True, env=home.environment()
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=280)
    assert (process.returncode, stderr) == (code, f"cleaned\nerror: {word}\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_service_that_is_stopped_has_not_failed(home: Home, number: signal.Signals) -> None:
    sleeper = SLEEPER.replace('    "Wait."\n', '    "Wait."\n    cli_context(ctx).is_service = True\n')
    assert sleeper != SLEEPER
    with subprocess.Popen(
        [sys.executable, "-c", sleeper], stderr=subprocess.PIPE, text=True, env=home.environment()
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=280)
    code = 130 if number == signal.SIGINT else 143
    assert (process.returncode, stderr) == (code, f"cleaned\nstopped ({number.name})\n")


def test_the_usual_end_of_a_service_is_not_an_error_in_json(home: Home, tool: dict[str, Any]) -> None:
    tool["act"] = raising(ServiceStoppedError(TerminationRequested(), "all is saved"))
    ran = home.run("tool", "act", "-o", "json")
    assert (ran.code, ran.stderr) == (143, "stopped (SIGTERM); all is saved\n")
    assert ran.json["stopped"] == {
        "message": "stopped (SIGTERM); all is saved",
        "signal": "SIGTERM",
        "exit_code": 143,
    }
    assert "error" not in ran.json


def test_a_service_whose_time_is_over_says_so(home: Home, tool: dict[str, Any]) -> None:
    def act(cli: Any) -> None:
        cli.is_service = True
        raise DeadlineReached

    tool["act"] = act
    ran = home.run("tool", "act", "--timeout", "5s")
    assert (ran.code, ran.stderr) == (75, "error: stopped after --timeout (5 s)\n")


def test_a_reader_that_goes_away_is_not_an_error_message(home: Home) -> None:
    kafkakit = Path(sys.executable).parent / "kafkakit"
    command = f"{kafkakit} --help-json | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=home.environment(), timeout=280, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout.strip() in ("0", "1")


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ("profile show -o json", ">/dev/full"),
        ("--help", ">/dev/full"),
        ("profile show", ">&-"),
        ("--version", ">&-"),
    ],
)
def test_a_stdout_that_takes_nothing_is_one_line_and_no_fault_of_the_kit(
    home: Home, arguments: str, target: str
) -> None:
    kafkakit = Path(sys.executable).parent / "kafkakit"
    ran = subprocess.run(
        ["bash", "-c", f"{kafkakit} {arguments} {target}"],
        capture_output=True,
        text=True,
        env=home.environment(),
        timeout=280,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: cannot write")
    assert len(ran.stderr.splitlines()) == 1
    assert not (home.state / "crashes").exists()


def test_a_stderr_that_takes_nothing_does_not_stop_the_result(home: Home) -> None:
    kafkakit = Path(sys.executable).parent / "kafkakit"
    for target in ("2>/dev/full", "2>&-"):
        ran = subprocess.run(
            ["bash", "-c", f"KAFKAKIT_OUTPTU=x {kafkakit} profile show -o tsv {target}"],
            capture_output=True,
            text=True,
            env=home.environment(),
            timeout=280,
            check=False,
        )
        assert ran.returncode == 0
        assert "security.protocol\tPLAINTEXT\tdefault\n" in ran.stdout


def test_a_folder_that_cannot_be_made_is_one_line(home: Home) -> None:
    home.write_config("bootstrap_server: a:1\n", "profiles.d/p.yaml")
    for words in (("profile", "use", "p"), ("sandbox", "down")):
        ran = home.run(*words, env={"KAFKAKIT_STATE_DIR": "/dev/null/kafkakit"})
        assert (ran.code, ran.stdout) == (1, "")
        assert ran.stderr.startswith("error: cannot use /dev/null/kafkakit")
        assert ran.stderr.endswith(": Not a directory\n")


def test_a_result_that_cannot_be_written_is_a_failure_in_json_too(home: Home) -> None:
    ran = home.run("version", "-o", "json", "--output-file", "/dev/null/v.json")
    assert (ran.code, ran.json["kafkakit"]["command"]) == (2, "version")
    assert ran.json["error"]["message"] == "--output-file: /dev/null is not a folder"


def test_colour_on_request_only(home: Home) -> None:
    assert "\x1b" not in home.run("profile", "show", "nowhere").stderr
    assert "\x1b[31merror:" in home.run("--color", "always", "profile", "show", "nowhere").stderr
    assert "\x1b" not in home.run("--help", env={"FORCE_COLOR": "1", "GITHUB_ACTIONS": "true"}).stdout


@pytest.mark.parametrize(
    ("environment", "arguments", "expected"),
    [({}, (), True), ({"CI": "true"}, (), False), ({"CI": "false"}, (), True), ({}, ("--no-input",), False),
     ({"KAFKAKIT_NO_INPUT": "1"}, (), False)],
)  # fmt: skip
def test_who_may_be_asked(
    home: Home, tool: dict[str, Any], environment: dict[str, str], arguments: tuple[str, ...], expected: bool
) -> None:
    seen: list[bool] = []
    tool["act"] = lambda cli: seen.append(cli.input_allowed)
    with mock.patch("kafkakit.config.read.environment._is_terminal", return_value=True):
        assert home.run("tool", "act", *arguments, env=environment).code == 0
    assert seen == [expected]


def test_no_terminal_means_nobody_is_asked(home: Home, tool: dict[str, Any]) -> None:
    tool["act"] = lambda cli: cli.output.ask_typed("Apply?")
    ran = home.run("tool", "act", stdin="yes\n")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == f"error: confirmation needed, but no input is possible here: Apply?\nhint: {CONSENT_HINT}\n"


def test_no_variable_is_invented_for_an_option(home: Home, tool: dict[str, Any]) -> None:
    tool["act"] = lambda cli: cli.output.result(Report(command="tool act", data={}, sections=("done",)))
    ran = home.run("tool", "act", env={"KAFKAKIT_OUTPUT_FILE": "stolen", "KAFKAKIT_TOOL_ACT_OUTPUT": "json"})
    assert ran.stdout == "done\n"
    assert not (home.work / "stolen").exists()


def test_help_json_is_the_whole_reference(home: Home) -> None:
    ran = home.run("--help-json")
    assert ran.code == 0
    assert "profile check" in [command["words"] for command in ran.json["commands"]]
    assert ran.json["exit_codes"] == {str(int(code)): meaning for code, meaning in EXIT_CODE_MEANING.items()}


def complete(home: Home, line: str, **env: str) -> list[str]:
    words = line.split(" ")
    ran = subprocess.run(
        [Path(sys.executable).parent / "kafkakit"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=home.environment(
            {"_KAFKAKIT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), **env}
        ),
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_touch_no_file(home: Home, shell: str) -> None:
    ran = python(home, "from kafkakit.cli.root import run; run([])", _KAFKAKIT_COMPLETE=f"source_{shell}")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "_KAFKAKIT_COMPLETE" in ran.stdout
    assert [path for path in home.folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("program", [(), ("topicmappr",), ("metricsfetcher",)])
def test_kafka_kits_commands_about_the_program(home: Home, program: tuple[str, ...]) -> None:
    script = home.run(*program, "completion", "bash")
    assert (script.code, "_KAFKAKIT_COMPLETE" in script.stdout) == (0, True)
    assert home.run(*program, "completion", "fish", "-o", "json").json["shell"] == "fish"
    assert home.run(*program, "completion", "tcsh").code == 2
    assert home.run(*program, "version").stdout.startswith("NAME ")
    assert home.run(*program, "--version").stdout == f"kafkakit {__version__}\n"
    assert home.run(*program, "help").stdout == home.run(*program, "--help").stdout
    assert home.run(*program, "help", "nope").code == 2


def test_help_of_a_command_is_its_help(home: Home) -> None:
    shown = home.run("topicmappr", "rebuild", "--help").stdout
    assert home.run("topicmappr", "help", "rebuild").stdout == shown
    assert home.run("help", "topicmappr", "rebuild").stdout == shown


def test_names_are_completed(home: Home) -> None:
    for name in ("prod", "staging"):
        home.write_config("bootstrap_server: a:1\n", f"profiles.d/{name}.yaml")
    assert complete(home, "kafkakit prof") == ["profile"]
    assert complete(home, "kafkakit --profile ") == ["prod", "staging"]
    assert complete(home, "kafkakit profile show s") == ["staging"]
    assert complete(home, "kafkakit version -o ") == ["text", "json", "yaml", "tsv"]
    home.write_config("[")
    assert complete(home, "kafkakit --profile ") == []


def test_topics_are_completed_where_they_cannot_be_kept(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = CliContext()
    cli.take("bootstrap_server", "127.0.0.1:1", "flag --bootstrap-server")
    context: Any = SimpleNamespace(find_object=lambda kind: cli, params={})
    monkeypatch.setattr(completion, "_read_topics", lambda ctx, cli, settings: ["orders", "users"])
    for name, value in home.environment({"XDG_CACHE_HOME": "/dev/null"}).items():
        monkeypatch.setenv(name, value)
    assert completion.complete_topic_names(context, "o") == ["orders"]


@pytest.mark.parametrize(
    ("complete_kind", "typed", "found"),
    [
        (completion.complete_topic_names, "or", ["orders"]),
        (completion.complete_broker_ids, "1001,10", ["1001,1002", "1001,1003"]),
        (completion.complete_group_names, "pay", ["payments"]),
    ],
)
def test_names_of_the_cluster_are_completed_with_one_request(
    home: Home, monkeypatch: pytest.MonkeyPatch, complete_kind: Any, typed: str, found: list[str]
) -> None:
    cluster = FakeCluster({1001: "a", 1002: "b", 1003: "c"})
    cluster.add_topic("orders", {0: (1001, 1002)}, size_bytes=1)
    groups = FakeGroups()
    groups.add_group("payments")
    asked: list[str] = []
    monkeypatch.setattr(cluster, "_read", asked.append)
    monkeypatch.setattr("kafkakit.wiring.open_admin", lambda settings, read_only=False: cluster)
    monkeypatch.setattr("kafkakit.wiring.open_groups", lambda settings, read_only=False: groups)
    cli = CliContext()
    cli.take("bootstrap_server", "127.0.0.1:1", "flag --bootstrap-server")
    context: Any = SimpleNamespace(find_object=lambda kind: cli, params={})
    for name, value in home.environment({}).items():
        monkeypatch.setenv(name, value)
    shown = complete_kind(context, typed)
    assert [name for name in shown if name.split(",")[-1] not in typed.split(",")] == found
    assert asked in ([], ["topic_names"], ["cluster"])


def test_topics_are_completed_from_the_cache_and_never_fail(home: Home) -> None:
    assert complete(home, "kafkakit -B 127.0.0.1:1 topicmappr rebuild --topics ") == []
    assert complete(home, "kafkakit topicmappr rebuild --topics ") == []
    from kafkakit.cli.completion import _cache_file
    from kafkakit.config.read.settings import GivenSettings, load_settings

    given = GivenSettings(flags={"bootstrap_server": ("127.0.0.1:1", "flag")})
    settings = load_settings(given, home.environment(), warn=lambda _: None, input_allowed=False)
    cache = _cache_file(settings, "topics", "")
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps(["orders", "orders-dlq", "users"]))
    assert complete(home, "kafkakit -B 127.0.0.1:1 topicmappr rebuild --topics or") == ["orders", "orders-dlq"]
    assert complete(home, "kafkakit -B 127.0.0.1:1 topicmappr rebuild --topics users,or") == [
        "users,orders",
        "users,orders-dlq",
    ]
    cache.write_text("{")
    assert complete(home, "kafkakit -B 127.0.0.1:1 topicmappr rebuild --topics or") == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("topic create orders --set min.in", ["min.insync.replicas="]),
        ("topic create orders --set message.timestamp.type=", ["CreateTime", "LogAppendTime"]),
        ("registry create orders --topic-config preall", ["preallocate="]),
        ("config plan unclean.leader.election.enable=t", ["true"]),
        ("config plan num.io", ["num.io.threads="]),
        ("config plan --delete message.timestamp.t", ["message.timestamp.type"]),
        ("-X security.tls.key_password_f", ["security.tls.key_password_file="]),
    ],
)
def test_keys_of_settings_are_completed_and_so_are_their_values(home: Home, line: str, found: list[str]) -> None:
    shown = complete(home, f"kafkakit {line}")
    assert [name.rpartition("=")[2] if "=" in line else name for name in shown] == found
    words = re.split(r"(?<==)|(?==)| ", f"kafkakit {line}")  # as bash takes them apart
    script = (
        'compopt() { echo "$*" >&2; }; source <(kafkakit completion bash); COMP_WORDS=("${@:2}"); '
        "COMP_CWORD=$(( $# - 2 )); _kafkakit_completion kafkakit; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script, "bash", "-", *words], capture_output=True, text=True, timeout=280, check=False,
        env=home.environment({"PATH": path}),
    )  # fmt: skip
    assert ran.stdout.split() == found
    assert ran.stderr.split() == (["-o", "nospace"] if found[0].endswith("=") else [])


SERVICES = (
    "autothrottle run", "registry serve", "ui", "streams lag serve", "streams assigner run",
)  # fmt: skip


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("flag", ["--html", "--output-file"])
def test_a_service_has_no_result_that_could_be_written(home: Home, service: str, flag: str) -> None:
    done = home.run("-B", "127.0.0.1:1", flag, str(home.folder / "page"), *service.split())
    assert (done.code, done.stderr.splitlines()[:2]) == (
        2,
        [f"error: {flag}: this command runs until it is stopped and has no result", f"hint: leave out {flag}"],
    )


def aliases() -> Iterator[tuple[str, str]]:
    for word, meant in ALIASES.items():
        if isinstance(meant, str):
            yield word, meant
        else:
            yield from ((f"{word} {name}", target) for name, target in meant.items())


def resolved(words: str) -> Any:
    group, rest = build_root(), words.split()
    while rest:
        context = typer.Context(group, resilient_parsing=True)
        _, group, rest = group.resolve_command(context, rest)
    return group


@pytest.mark.parametrize(("alias", "meant"), list(aliases()))
def test_an_alias_is_the_command_itself_and_no_copy(alias: str, meant: str) -> None:
    assert resolved(alias).callback is resolved(meant).callback
    assert [p.opts for p in resolved(alias).params] == [p.opts for p in resolved(meant).params]


def test_every_alias_stands_for_a_command_of_the_reference() -> None:
    known = {command.words for command in commands(build_root())}
    assert {meant for _, meant in aliases()} <= known
    assert not {alias for alias, _ in aliases()} & known


def test_no_help_names_an_alias() -> None:
    root = build_root()
    text = root.get_help(typer.Context(root, info_name="kafkakit"))
    listed = {line.split()[0] for line in text.splitlines() if line.startswith("  ") and line.split()}
    assert "status" in listed
    assert not listed & set(ALIASES)
