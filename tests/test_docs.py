"""Every command and option has help and is documented, and the documents say what the program does."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kafkakit.cli.root import CommandEntry, OptionEntry, build_root, commands, root_options
from kafkakit.config.keys import VARIABLES
from kafkakit.core.errors import EXIT_CODE_MEANING
from kafkakit.core.rights import DUTIES
from kafkakit.rules.catalogue import all_rules
from tests.places import ROOT
from tests.rigs.documents import acl_markdown, reference_markdown
from tests.rigs.package_picture import BEGIN, END, is_up_to_date, picture, with_picture
from tests.rigs.plots import BLUE, LETTER, Line, Panel, plot

README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
ROOT_COMMAND = build_root()
COMMANDS = commands(ROOT_COMMAND)


def names(command: CommandEntry) -> str:
    return command.words


@pytest.mark.parametrize("command", COMMANDS, ids=names)
def test_a_command_and_its_options_have_help_and_are_documented(command: CommandEntry) -> None:
    assert command.help.strip(), f"{command.words} has no help"
    assert f"kafkakit {command.words}" in README + REFERENCE
    for option in (*command.arguments, *command.options):
        assert_documented(option, command.words)


def test_the_shared_options_have_help_and_are_documented() -> None:
    assert {"--output", "--profile", "-X", "--help-json"} <= {
        name for option in root_options(ROOT_COMMAND) for name in option.names
    }
    for option in root_options(ROOT_COMMAND):
        assert_documented(option, "kafkakit")


def assert_documented(option: OptionEntry, where: str) -> None:
    assert option.help.strip(), f"{where} {option.names} has no help"
    assert not option.help.endswith(" "), option.names
    for name in option.names:
        assert re.search(rf"`[^`\n]*{re.escape(name)}[^`\n]*`", README + REFERENCE), f"{where} {name}"


def test_the_reference_is_what_the_program_says() -> None:
    assert reference_markdown(ROOT_COMMAND) == REFERENCE, "docs/commands.md is not up to date: run make docs"


def test_the_table_of_rights_is_the_one_in_the_program() -> None:
    text = (ROOT / "docs" / "acl.md").read_text(encoding="utf-8")
    assert acl_markdown() == text, "docs/acl.md is not up to date: run make docs"
    options = {name for command in COMMANDS for option in command.options for name in option.names}
    options |= {name for command in COMMANDS for option in command.arguments for name in option.names}
    paths = {command.words for command in COMMANDS}
    for duty in DUTIES[:-1]:
        for named in duty.commands:
            words, _, option = named.partition(" --")
            assert any(path == words or path.startswith(f"{words} ") for path in paths), named
            assert not option or any(name.split("/")[0] == f"--{option}" for name in options), named


def test_the_readme_counts_the_rules_that_there_are() -> None:
    assert f"{len(all_rules())} rules for configuration" in README


def test_the_exit_code_table_is_the_one_in_the_program() -> None:
    section = README.partition("## Exit codes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", section, flags=re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == [(int(c), m) for c, m in EXIT_CODE_MEANING.items()]


def test_no_option_that_acts_can_be_set_by_a_variable() -> None:
    acting = {"--yes", "--apply", "--force", "--allow-drift", "--exit-code"}
    for command in COMMANDS:
        for option in command.options:
            assert not (acting & set(option.names) and option.env), f"{command.words} {option.names}"


def test_variables_of_the_program_are_known_to_the_settings() -> None:
    told = {name for option in root_options(ROOT_COMMAND) for name in option.env}
    told |= {name for command in COMMANDS for option in command.options for name in option.env}
    assert {name for name in told if name.startswith("KAFKAKIT_")} <= set(VARIABLES)


def test_the_paths_that_the_guide_for_developers_names_exist() -> None:
    guide = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:kafkakit|tests|bench|docs)/[A-Za-z0-9_./-]+)`", guide))
    assert len(named) > 20
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_the_picture_of_the_packages_is_drawn_from_the_imports() -> None:
    drawn = picture(ROOT / "kafkakit")
    guide = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    assert is_up_to_date(guide, drawn), "the picture in docs/development.md is not up to date: run make docs"
    assert len(drawn.splitlines()) <= 30
    assert with_picture(with_picture(guide, drawn), drawn) == with_picture(guide, drawn)


def test_a_picture_may_be_a_tenth_off_and_no_more() -> None:
    drawn = "a 4,000/50<br>b 300/4\na --> b"
    for change, is_right in (
        (("4,000", "4,400"), True), (("4,000", "4,500"), False), (("/50", "/55"), True), (("/50", "/60"), False),
        (("b 300", "b 500"), True), (("b 300", "c 300"), False), (("a --> b", "b --> a"), False),
    ):  # fmt: skip
        assert is_up_to_date(f"text\n{BEGIN}\n{drawn.replace(*change)}\n{END}\n", drawn) is is_right, change


PAGES = ("README.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md"))))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = link.partition("#")
        if ":" in path:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if heading and target.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}, link


def test_pages_name_every_picture_and_say_what_is_seen() -> None:
    named = set()
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for alt, path in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text):
            if ":" not in path:
                assert alt.strip(), f"{page}: {path} has no alt text"
                named.add(((ROOT / page).parent / path).resolve())
    assert named == set((ROOT / "docs" / "pictures").iterdir())


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").iterdir()), ids=lambda path: path.name)
def test_a_picture_is_whole_and_fetches_nothing(picture: Path) -> None:
    data = picture.read_bytes()
    if picture.suffix == ".png":
        assert (data[:6], data[-8:-4]) == (b"\x89PNG\r\n", b"IEND")
        return
    root = ElementTree.fromstring(data)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(data) < 60_000
    assert not re.search(r"href|url\([^#]|@import|<script", data.decode())


def test_words_of_marks_lie_beside_each_other_and_in_the_picture() -> None:
    line = Line("rate", [(0, 3), (10, 7), (20, 5)], BLUE, is_step=True)
    marks = [(5.0, "opened"), (5.1, "routed"), (19.9, "the end of it"), (5.2, "sealed")]
    drawn = plot("Rates follow", [Panel("MB/s", [line]), Panel("records", [line])], marks, 20)
    words = [label for label in drawn.labels if label.style == "mark"]
    assert [label.text for label in words] == ["opened", "routed", "sealed", "the end of it"]
    assert len({label.y for label in words[:3]}) == 3
    assert all(float(label.x) + LETTER * len(label.text) <= drawn.width for label in words)
    (first, _) = [curve.places for curve in drawn.curves if curve.style == BLUE]
    assert [y for _, y in first] == [first[0][1], first[0][1], first[2][1], first[2][1], first[4][1], first[4][1]]
