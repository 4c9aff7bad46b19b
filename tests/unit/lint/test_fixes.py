"""Fixes: the finding is gone, and nothing else of the file changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.lint.decide.fixing import fix_all
from tests.rigs.lint_runs import linted, read, request


def fixed(text: str, *, unsafe: bool = True, path: str = "a.yaml") -> str:
    run = fix_all(read({path: text}), (), request(), None, unsafe=unsafe)
    return run.changed[0].after.text if run.changed else text


KEYS = ("retention.ms", "segment.ms", "cleanup.policy", "x")
HEAD = "kafkakit: cluster\ntopics:\n"
CASES = {
    "a flow mapping stays one": (
        '- {name: a, config: {retention.ms: "5", cleanup.policy: delete}}\n',
        '- {name: a, config: {retention.ms: "5", segment.ms: "86400000", cleanup.policy: delete}}\n',
    ),
    "a value is replaced with the quotes it had": (
        "- name: a\n  config:\n    retention.ms: 5\n    segment.ms: 172800000  # two days\n",
        "- name: a\n  config:\n    retention.ms: 5\n    segment.ms: 86400000  # two days\n",
    ),
    "line ends stay": (
        "- name: a\r\n  config:\r\n    retention.ms: 5\r\n",
        "- name: a\r\n  config:\r\n    retention.ms: 5\r\n    segment.ms: 86400000\r\n",
    ),
    "a file without an end of line gets none": (
        "- name: a\n  config:\n    retention.ms: 5",
        "- name: a\n  config:\n    retention.ms: 5\n    segment.ms: 86400000",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_only_the_named_entries_change(case: str) -> None:
    before, after = CASES[case]
    assert fixed(HEAD + before) == HEAD + after


def test_safe_fixes_alone_leave_the_others() -> None:
    text = HEAD + "- name: a\n  config:\n    retention.ms: '0'\n    cleanup.policy: delete\n"
    assert fixed(text, unsafe=False) == HEAD + "- name: a\n  config:\n    cleanup.policy: delete\n"


def test_fixing_twice_changes_nothing_more() -> None:
    text = HEAD + "".join(f"- name: t{n}\n  config: {{retention.ms: '{n}', x: y}}\n" for n in range(4))
    once = fixed(text)
    assert once != text
    assert fixed(once) == once


def test_a_diff_names_the_file_and_shows_only_changed_lines() -> None:
    text = HEAD + "- name: a\n  config:\n    retention.ms: 5\n"
    run = fix_all(read({"dir/a.yaml": text}), (), request(), None, unsafe=True)
    assert run.diff.startswith("--- a/dir/a.yaml\n+++ b/dir/a.yaml\n")
    assert [line for line in run.diff.splitlines() if line.startswith(("+ ", "- "))] == ["+    segment.ms: 86400000"]
    assert run.fixed == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["retention.ms", "segment.ms", "cleanup.policy", "x"]),
            st.sampled_from(["0", "5", "90000000"]),
        ),
        unique_by=lambda pair: pair[0],
        min_size=1,
    ),
    st.sampled_from(["", "'", '"']),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_fixed_is_not_found_again(pairs: list[tuple[str, str]], quote: str, flow: bool, end: str) -> None:
    if flow:
        body = ["  config: {" + ", ".join(f"{key}: {quote}{value}{quote}" for key, value in pairs) + "}"]
    else:
        body = ["  config:", *(f"    {key}: {quote}{value}{quote}  # {key}" for key, value in pairs)]
    text = end.join([*HEAD.splitlines(), "- name: a", *body, "  partitions: 3", ""])
    after = fixed(text)
    kept = [line for line in after.splitlines() if line in text.splitlines()]
    assert [line for line in text.splitlines() if line in kept] == kept
    left = [c for c in linted(after).result.checked if c.edits]
    assert all(c.rule.code == "KKT001" for c in left)
    assert (end == "\r\n") == ("\r\n" in after)
