import json
import sys
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import pytest
import yaml

from kafkakit.cli.output import Output, OutputFormat, format_result
from kafkakit.config.security import Secret
from kafkakit.core.documents import json_text
from kafkakit.core.errors import RefusedError
from kafkakit.core.text import plain_value, text_table, tsv_lines
from kafkakit.report import pages
from kafkakit.report.pages import sections_page
from kafkakit.report.report import (
    INDENT,
    Bar,
    BarChart,
    FactList,
    NextCommands,
    Part,
    RawDocument,
    Remarks,
    Report,
    ResultTable,
    Section,
)

RESULT = Report(
    command="tool list",
    data={"items": ({"name": "a", "count": 3},), "at": datetime(2026, 1, 2, tzinfo=UTC)},
    sections=("a 3",),
    table=ResultTable(("name", "count"), (("a", 3), ("b\tc", None))),
)


SECTIONS: tuple[Part, ...] = (
    "head",
    Section("Empty:", (Remarks("note", ()), ResultTable(("a",), (), empty=""))),
    Section("Some:", ("one", Remarks("note", ("n",)), NextCommands(("kafkakit x",)))),
    FactList((("name", "x"), ("size", 3)), 6, INDENT),
    ResultTable(("id", "a b"), ((1, "x"), (20, "y"), (3, "z")), "Rows:", most=2, rest="and {} more"),
    ResultTable(("id",), (), "None:", empty="nothing"),
)


def test_sections_are_laid_out_and_the_first_table_gives_the_rows() -> None:
    report = Report(command="x", data={}, sections=iter(SECTIONS))
    assert report.text.splitlines() == [
        "head",
        *("", "Some:", "  one", "  note: n", "  next:", "kafkakit x"),
        *("  name  x", "  size  3"),
        *("", "Rows:", "  ID  A-B", "   1  x", "  20  y", "and 1 more"),
        *("", "None:", "  nothing"),
    ]
    assert report.text.endswith("nothing\n")
    assert format_result(report, OutputFormat.TSV) == "1\tx\n20\ty\n3\tz\n"


def test_every_kind_of_section_stands_on_the_page() -> None:
    bars = BarChart(
        (Bar(label="5%", bound=10, value=20, words="20 B"), Bar(label="1%", bound=0, value=None, words="none"))
    )
    refused = RefusedError("it was <refused>", hint="run kafkakit x")
    parts = ("Nine of ten.", *SECTIONS, "a  b", bars, "kafkakit status")
    report = Report(command="x y", data={}, sections=parts, warnings=("w",), failure=refused)
    page = sections_page(report, lambda text: text.replace("kafkakit", "kafkakit --profile p")).decode()
    assert "<title>Nine of ten.</title>" in page
    for shown in (
        *("<code>kafkakit x y</code>", "<p>head</p>", "<h2>Some</h2>", "<dt>name</dt><dd>x</dd>", "<h2>Rows</h2>"),
        *('<td class="n">20</td><td>y</td>', "<li>n</li>", "<pre>kafkakit x</pre>", "<pre>kafkakit status</pre>"),
        *("<p>nothing</p>", ">a  b\n</pre>", "it was &lt;refused&gt;", "run kafkakit --profile p x", "<li>w</li>"),
        *('class="b"', 'class="a"', ">20 B</text>"),
    ):
        assert shown in page, shown
    assert "Empty" not in page
    assert '<td class="n">3</td>' in page, "a page shows the rows that a text leaves out"


def test_a_page_leaves_out_no_line_and_cuts_nothing() -> None:
    long = "x" * 9_000
    report = Report(command="x", data={}, sections=("Nine of ten.", long, Remarks("note", (long,))))
    page = sections_page(report.naming("cid", "prod")).decode()
    assert "<title>Nine of ten.</title>" in page
    assert "cluster cid (profile prod)" in page
    assert page.count(long) == 2
    named = Report(command="x", data={}, sections=("cluster cid: one", "two")).naming("cid", "prod")
    assert "<title>cluster cid (profile prod): one</title>" in sections_page(named).decode()
    untitled = sections_page(Report(command="x", data={}, sections=(long,))).decode()
    assert ("<title>kafkakit x</title>" in untitled, long in untitled) == (True, True)


def test_a_page_has_values_as_a_text_has_them_and_its_time() -> None:
    rows = ((1, True, (1, 2), None, datetime(2026, 1, 2, tzinfo=UTC)),)
    report = Report(command="x", data={}, sections=(ResultTable(("a", "b", "c", "d", "e"), rows),))
    page = sections_page(report, at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)).decode()
    for shown in (
        "<td>yes</td>",
        "<td>1,2</td>",
        ">-</td>",
        "<td>2026-01-02T00:00:00+00:00</td>",
        "2026-01-02 03:04:05 UTC",
    ):
        assert shown in page, shown


@pytest.mark.parametrize("text", ["", "x" * 300_000])
def test_a_document_that_says_nothing_to_people_is_shown_by_its_rows(text: str) -> None:
    report = Report(command="x", data={}, sections=(RawDocument(text),), table=ResultTable(("id",), ((17,),)))
    page = sections_page(report).decode()
    assert ('<td class="n">17</td>' in page, len(page) < 100_000) == (True, True)


def test_a_page_that_cannot_be_written_hides_no_result_and_a_failure_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.html"
    private = Report(command="x", data={}, sections=("r",), is_private=True)
    Output(page_file=page).result(private)
    assert page.stat().st_mode & 0o777 == 0o600
    Output(page_file=page).failure("x", {"message": "the cluster is away", "hint": "try again"})
    assert "the cluster is away" in page.read_text()
    page.unlink()
    page.mkdir()
    capsys.readouterr()
    output = Output(page_file=page)
    output.result(RESULT)
    told = capsys.readouterr()
    assert (told.out, output.page_failed) == ("a 3\n", True)
    assert told.err.startswith("warning: no page is written: ")


def test_a_page_says_how_many_rows_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS", 2)
    page = sections_page(Report(command="x", data={}, sections=(ResultTable(("a",), ((1,), (2,), (3,))),))).decode()
    assert "<title>kafkakit x</title>" in page
    assert ("<td>2</td>" not in page, '<td class="n">3</td>' in page) == (True, False)
    assert "and 1 more" in page


def test_a_document_stands_on_its_page_as_it_is() -> None:
    page = sections_page(Report(command="x", data={}, sections=(RawDocument("a: <1>\n  b: 2\n"),))).decode()
    assert "a: &lt;1&gt;\n  b: 2\n" in page


class Kind(Enum):
    ONE = "one"


def test_text_ends_with_one_line_end() -> None:
    assert format_result(RESULT, OutputFormat.TEXT) == "a 3\n"


def test_tsv_has_a_record_a_line_and_a_dash_for_nothing() -> None:
    assert format_result(RESULT, OutputFormat.TSV) == "a\t3\nb c\t-\n"


def test_json_and_yaml_carry_the_header_and_the_same_data() -> None:
    expected = {
        "kafkakit": {"command": "tool list", "schema": 1},
        "items": [{"name": "a", "count": 3}],
        "at": "2026-01-02T00:00:00+00:00",
    }
    assert yaml.safe_load(format_result(RESULT, OutputFormat.JSON)) == expected
    assert yaml.safe_load(format_result(RESULT, OutputFormat.YAML)) == expected


def test_values_without_a_json_form_become_plain() -> None:
    assert plain_value({1: Kind.ONE, "s": Secret("x"), "f": frozenset({2, 1}), "p": Path("/a")}) == {
        "1": "one",
        "s": "***",
        "f": [1, 2],
        "p": "/a",
    }


def test_a_table_aligns_numbers_right_and_names_without_blanks() -> None:
    table = text_table(("broker id", "rack"), ((1, "a"), (1002, None)))
    assert table.splitlines() == ["BROKER-ID  RACK", "        1  a", "     1002  -"]


def test_a_table_without_rows_is_its_heading() -> None:
    assert text_table(("a", "b"), ()) == "A  B"


def test_tsv_of_lists_and_switches() -> None:
    assert tsv_lines([((1, 2), True, False, "")]) == "1,2\tyes\tno\t-\n"


def test_the_result_goes_to_stdout_and_words_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.say("hello")
    output.warn("careful")
    output.result(RESULT)
    caught = capsys.readouterr()
    assert caught.out == "a 3\n"
    assert caught.err == "hello\nwarning: careful\n"


def test_colour_is_only_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(color=True)
    output.error("no", "try")
    output.result(RESULT)
    caught = capsys.readouterr()
    assert "\x1b[31merror:\x1b[0m no\n" in caught.err
    assert "\x1b" not in caught.out


@pytest.mark.parametrize(
    ("rows", "animate", "page", "said"),
    [(40, True, False, True), (20, True, False, False), (40, False, False, False), (40, True, True, False)],
)
def test_a_page_is_offered_for_a_table_that_is_longer_than_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: int, animate: bool,
    page: bool, said: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("LINES", "30")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    report = Report(command="x", data={}, sections=(ResultTable(("n",), tuple((n,) for n in range(rows))),))
    output = Output(animate=animate, page_file=tmp_path / "p.html" if page else None)
    output.result(report)
    assert (f"{rows + 1} lines: with --html FILE" in capsys.readouterr().err) is said


def test_an_error_is_one_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    Output().error("first\nsecond", "do\nthis")
    assert capsys.readouterr().err == "error: first second\nhint: do this\n"


def test_commands_in_a_hint_have_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    Output().error("stopped", "to resume,\nto undo:\nkafkakit a b\nkafkakit c\nnot a line")
    assert capsys.readouterr().err == "error: stopped\nhint: to resume, to undo:\nkafkakit a b\nkafkakit c not a line\n"


def test_a_failure_after_the_result_does_not_make_two_documents(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(output_format=OutputFormat.JSON)
    output.result(RESULT)
    output.failure("tool list", {"message": "half done"})
    assert "half done" not in capsys.readouterr().out


def test_the_result_file_is_written_and_stdout_stays_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Output(output_file=tmp_path / "out", output_format=OutputFormat.TSV).result(RESULT)
    assert (tmp_path / "out").read_text() == "a\t3\nb c\t-\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert capsys.readouterr().out == ""


def test_progress_elsewhere_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Output().progress("copying") as progress:
        progress.update(1, 2)
        progress.update(2, 2)
    assert capsys.readouterr().err == "copying\n"


def test_progress_on_a_terminal_shows_the_note(capsys: pytest.CaptureFixture[str]) -> None:
    with Output(animate=True).progress("copying") as progress:
        progress.update(1, 2, "half of it")
    assert "half of it" in capsys.readouterr().err


def test_where_nobody_can_answer_the_question_is_refused() -> None:
    with pytest.raises(RefusedError, match="confirmation needed") as caught:
        Output(input_allowed=False).ask_typed("Apply 3 moves?")
    assert caught.value.hint == "pass --yes to do it, or --dry-run to see what would be done"


@pytest.mark.parametrize(
    ("typed", "expected"), [("yes\n", True), ("  yes \n", True), ("y\n", False), ("\n", False), ("", False)]
)
def test_only_the_typed_word_confirms(
    typed: str, expected: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert Output(input_allowed=True).ask_typed("Apply 3 moves?") is expected
    caught = capsys.readouterr()
    assert caught.out == ""
    assert "Apply 3 moves?" in caught.err


def test_text_that_the_stream_cannot_hold_is_escaped(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Output().say("topic \udcff")
    assert capsysbinary.readouterr().err == b"topic \\udcff\n"


def test_json_text_is_that_of_the_library_with_an_indent() -> None:
    values: list[object] = [
        {}, [], {"a": []}, {"a": {}}, [[]], "x", 3, None, {"": ""}, [{"a": 1, "b": [1, 2]}, []],
        {"a": [1, [2, {"b": {}}]]},
        [1, 2.5, 1e22, 1e-7, -0.0, 10**30, True, None], {"\u00e9\u2028\x7f\x1b": 'a"\\/\n\t\U0001f600, [x]: {y}'},
        [float("nan"), float("inf")], ["\udc80"],
    ]  # fmt: skip
    for value in values:
        for ascii_only in (True, False):
            assert json_text(value, ascii_only=ascii_only) == json.dumps(value, indent=2, ensure_ascii=ascii_only)
