"""Comments at the end of a line against the value on it."""

import pytest

from kafkakit.lint.decide.files import comment_problems, read_document


def problems(line: str, path: str = "a.yaml") -> list[str]:
    return [problem.message for problem in comment_problems(read_document(path, f"config:\n  {line}\n"))]


@pytest.mark.parametrize(
    "line",
    [
        "retention.ms: 604800000  # 7 days",
        "retention.ms: 604800000  # 7d, agreed with the auditors",
        "retention.ms: 604800000  # 1 week",
        "retention.ms: 5400000  # 1.5 h",
        "retention.ms: 5400000  # 90 min",
        "segment.bytes: 1073741824  # 1 GiB",
        "segment.bytes: 1073741824  # 1 GB",
        "segment.bytes: 1000000000  # 1GB",
        "log.retention.hours: 168  # 7 days",
        "retention.ms: 604800000  # 7 days, not 3 days",
        "retention.ms: 604800000  # see JIRA 7",
        "retention.ms: 604800000  # replicas 3 of 5",
        "retention.ms: -1  # 7 days",
        "partitions: 12  # 7 days",
        "retention.ms: 604800000",
        "# 3 days",
    ],
)
def test_comments_that_agree_or_say_nothing(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("retention.ms: 86400000  # 7 days", "'7 days', but retention.ms is 86400000, which is 24 h"),
        ("segment.bytes: 104857600  # 1 GB", "'1 GB', but segment.bytes is 104857600, which is 100 MiB"),
        ("log.retention.hours: 24  # 7 days", "'7 days', but log.retention.hours is 24"),
    ],
)
def test_comments_that_say_another_value(line: str, said: str) -> None:
    (message,) = problems(line)
    assert said in message


def test_a_document_of_aliases_is_walked_once() -> None:
    text = "a: &a\n  retention.ms: 86400000  # 7 days\nb: *a\nc: *a\n"
    assert len(list(comment_problems(read_document("a.yaml", text)))) == 1
