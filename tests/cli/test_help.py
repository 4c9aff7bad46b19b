"""Help: as wide as the terminal, options in sections, shared options in one line until --help-all asks for them."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kafkakit.cli.command_classes import (
    FOLDED,
    OPTIONS,
    SECTION_TABLES,
    SHARED_TITLE,
    plain_usage,
    section_of,
    shared_params,
)
from kafkakit.cli.completion import GRAMMAR
from kafkakit.cli.root import build_root, commands
from tests.rigs.command_line import Home


@pytest.mark.parametrize("columns", [60, 80, 140, 220])
@pytest.mark.parametrize("command", [[], ["topicmappr", "rebuild"], ["broker", "drain"]])
def test_help_is_as_wide_as_the_terminal(home: Home, command: list[str], columns: int) -> None:
    ran = home.run(*command, "--help", env={"COLUMNS": str(columns)})
    assert ran.code == 0
    prose = [line for line in ran.stdout.splitlines() if " kafkakit " not in line and not line.startswith("  -")]
    assert max(map(len, prose)) <= columns
    if command:
        assert max(map(len, prose)) > columns * 0.75


def test_the_options_of_planning_stand_in_sections(home: Home) -> None:
    shown = home.run("topicmappr", "rebalance", "--help").stdout
    places = [
        shown.index(f"\n{title}:\n") for title in ("Target", "Goal", "Limits", "Output", "kafka-kit compatibility")
    ]
    assert places == sorted(places)
    assert places[0] < shown.index("\n  --brokers") < places[1] < shown.index("\n  --band") < places[2]
    assert places[2] < shown.index("\n  --max-moves") < places[3] < shown.index("\n  --plan") < places[4]


def test_every_option_of_planning_has_a_section() -> None:
    shared = {param.name for param in shared_params()}
    for name, command in build_root().loaded()["topicmappr"].commands.items():
        own = [p.name for p in command.params if p.param_type_name == "option" and p.name not in shared]
        assert [p for p in own if section_of(["topicmappr", name], p) == OPTIONS] == [], name


def test_every_name_in_a_table_of_sections_is_an_option_of_its_commands() -> None:
    groups = build_root().loaded()
    taken = {
        group: {param.name for command in groups[group].commands.values() for param in command.params}
        for group in SECTION_TABLES
    }
    for group, table in SECTION_TABLES.items():
        users = [other for other, its in SECTION_TABLES.items() if its == table]
        assert set(table) - set().union(*(taken[user] for user in users)) == set(), group


@pytest.mark.parametrize("command", [[], ["topicmappr"], ["topicmappr", "rebuild"], ["version"]])
def test_shared_options_are_one_line_until_all_are_wanted(home: Home, command: list[str]) -> None:
    short, long = home.run(*command, "--help"), home.run(*command, "--help-all")
    assert (short.code, long.code) == (0, 0)
    assert FOLDED in short.stdout
    assert len(FOLDED) < 80
    assert "KAFKAKIT_TIMEOUT" not in short.stdout
    assert SHARED_TITLE in long.stdout
    assert FOLDED not in long.stdout
    assert all(f"{param.opts[0]}" in long.stdout for param in shared_params())
    assert long.stdout.endswith("\n")


@pytest.mark.parametrize("command", [["--help"], ["topicmappr", "rebuild", "--help"], ["streams", "lag", "--help"]])
def test_help_does_not_load_what_checks_values(home: Home, command: list[str]) -> None:
    home.work.mkdir(exist_ok=True)
    code = (
        "import sys\nfrom kafkakit.cli.root import run\n"
        f"assert run({command!r}) == 0\nsys.exit('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=home.environment({}), timeout=280, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_help_behind_other_options_is_the_same(home: Home) -> None:
    assert home.run("version", "--help") == home.run("version", "-o", "json", "--help")


NUMBERS = {"sandbox up", "sandbox load", "streams delete"}  # how many there are, or a switch


def test_topics_and_brokers_are_written_the_same_everywhere() -> None:
    seen: dict[str, set[str]] = {}
    for entry in commands(build_root()):
        for option in entry.options:
            for name in {"--topics", "--topics-exclude", "--brokers"} & set(option.names):
                if entry.words not in NUMBERS:
                    seen.setdefault(name, set()).add(str(option.value))
    assert seen == {"--topics": {"TOPICS"}, "--topics-exclude": {"TOPICS"}, "--brokers": {"BROKERS"}}


@pytest.mark.parametrize("command", ["topicmappr rebuild", "registry tag", "audit retention", "topicmappr check"])
def test_help_explains_the_notation(home: Home, command: str) -> None:
    shown = home.run(*command.split(), "--help", env={"COLUMNS": "120"}).stdout
    for name, meaning in GRAMMAR.items():
        assert f"{name}: {meaning}." in shown
    assert "TOPICS:" not in home.run("version", "--help").stdout


@pytest.mark.parametrize(
    ("command", "titles"),
    [("plan", ["Target", "Output", "Options"]), ("apply", ["Target", "Watch", "Options"]), ("watch", ["Watch"])],
)
def test_the_options_of_config_stand_in_sections(home: Home, command: str, titles: list[str]) -> None:
    shown = home.run("config", command, "--help").stdout
    places = [shown.index(f"\n{title}:\n") for title in titles]
    assert places == sorted(places)


def test_every_name_of_a_cluster_can_be_completed() -> None:
    wanted = {"TOPICS", "BROKERS", "TOPIC", "GROUP", "ID,..."}
    without = [
        f"{words} {param.opts}"
        for words, command in walk(build_root())
        for param in command.params
        if param.metavar in wanted and param._custom_shell_complete is None
    ]
    assert sorted(without) == ["topic create ['topic']", "topicmappr place ['topic']"]  # new topics


def test_usage_lines_have_no_braces_and_no_brackets_twice() -> None:
    for words, command in walk(build_root()):
        context = command.make_context(words, ["--"], resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(context))
        assert not set(usage) & set("{}"), usage
        assert "]]" not in usage, usage
        assert "......" not in usage, usage


@pytest.mark.parametrize(
    ("piece", "plain"),
    [
        ("{PLAN}", "PLAN"),
        ("{ID,...}", "ID,..."),
        ("{KEY=VALUE}...", "KEY=VALUE..."),
        ("[[PATH]...]...", "[PATH]..."),
        ("{KEY:VALUE...}...", "KEY:VALUE..."),
        ("[[RATE]]", "[RATE]"),
        ("[PLAN]", "[PLAN]"),
        ("[[LANE:]KEY=VALUE]...", "[[LANE:]KEY=VALUE]..."),
    ],
)
def test_a_piece_of_usage(piece: str, plain: str) -> None:
    assert plain_usage(piece) == plain


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    waiting = list(root.loaded().items())
    while waiting:
        words, command = waiting.pop(0)
        children = getattr(command, "commands", None)
        if children is None:
            yield words, command
        else:
            waiting += [(f"{words} {name}", child) for name, child in children.items()]


CHANGES = """
reassign: abort apply cleanup resume rollback
config: abort apply resume rollback
broker: cordon decommission drain rejoin replace uncordon
topic: alter create delete
registry: apply cleanup create delete import-labels migrate tag untag
streams: balance create delete evacuate link move repartition
streams assigner: drain
streams bombs: quarantine
streams commits: delete finish reject replay reset skip translate unack undo
streams dlq: purge replay
streams failover: abort back certify reclaim rehearse resume retire run
streams lane: add pause quota remove resume rules
"""
# Each has --dry-run, and never asks:
# - reassign pause and throttle are brakes, which must not need more keys at night than the name; continue and close are
#   of a run that was confirmed when it began, and close changes no cluster.
# - autothrottle set and remove are a brake as well, and kafka-kit's autothrottle-cli, which scripts call, does not ask.
# - autothrottle run and registry serve are services; timers run autothrottle once and metricsfetcher fetch.
# - profile add and import change no cluster, and refuse to replace a profile without --replace.
# - streams dlq copy is a service, or with --once the job of a timer, without which retention deletes records.
ASK_NOTHING = """
reassign: close continue pause throttle
autothrottle: once remove run set
metricsfetcher: fetch
registry: serve
streams dlq: copy
profile: add import
"""
# A service whose --auto-failover has `dry-run`; `explain` and `simulate` tell what it shares out.
NO_DRY_RUN = "streams assigner: run\n"
READ_CLUSTERS = """
topicmappr: add-brokers audit check drain explain fix-racks frontier leaders place rebalance rebalance-dirs rebuild
topicmappr: repair replan scale set-replication
reassign: list simulate status verify
config: diff history plan watch
autothrottle: explain show simulate unit
metricsfetcher: show unit
topic: describe list
partition: describe list
group: describe list
broker: describe list restart-check restart-gate restart-plan
cluster: describe
acl: list
quota: list
record: tail
registry: brokers history mappings topics translate-offsets unmapped
streams: history list pathway reconcile resolve show topology verify-drain
streams assigner: explain show simulate
streams bombs: scan watch
streams commits: decode diff encode explain limits show verify watch
streams dlq: list show
streams failover: history plan status
streams lag: check once serve share-groups watch
streams lane: list route
streams records: show
audit: all bombs cancel capacity diff drift fetch fixes here hotspots lag list logs metrics mirror report retention
audit: segments status unit
fleet: collect segments
profile: check list show use
"""
SANDBOXES_AND_SELF = "sandbox: demo down env exec kill load restart status up\nstreams: demo\n"
ALONE = {"status", "ui", "lint", "snapshot", "doctor", "version", "completion"}


def _listed(text: str) -> set[str]:
    lines = (line.split(": ") for line in text.split("\n") if line)
    return {f"{group} {name}" for group, names in lines for name in names.split()}


def test_every_command_that_changes_a_cluster_has_one_grammar_of_consent(home: Home) -> None:
    """It shows what it would do and asks; --yes answers, --dry-run only shows."""
    every = {one["words"]: one for one in home.run("--help-json", "-o", "json").json["commands"]}
    changes = _listed(CHANGES)
    asks_nothing = _listed(ASK_NOTHING)
    others = asks_nothing | _listed(NO_DRY_RUN) | _listed(READ_CLUSTERS) | _listed(SANDBOXES_AND_SELF) | ALONE
    assert changes | others == set(every), "a new command belongs into one of the lists"
    assert changes & others == set()
    for words, one in every.items():
        names = {name for option in one["options"] for name in option["names"]}
        assert {"--yes", "--dry-run"} <= names or words not in changes, words
        assert "--dry-run" in names or words not in asks_nothing, f"{words} changes something: it has --dry-run"
        assert "--yes" not in names or words in changes, f"{words} has --yes: it asks"
        assert "--apply" not in names or words == "registry import-labels", f"{words}: an old style that shows"


def test_no_summary_is_cut_at_80_columns(home: Home) -> None:
    words = [entry.words.split() for entry in commands(build_root())]
    groups = {tuple(command[:n]) for command in words for n in range(len(command))}
    for group in sorted(groups):
        shown = home.run(*group, "--help", env={"COLUMNS": "80"}).stdout
        assert [line for line in shown.splitlines() if line.endswith("...") and "Usage" not in line] == [], group


def test_every_command_has_an_example() -> None:
    without = [entry.words for entry in commands(build_root()) if "Examples:" not in entry.help]
    assert without == []
