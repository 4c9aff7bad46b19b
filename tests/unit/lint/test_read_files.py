"""Files are found in a fixed order and within limits, and what cannot be read is a finding.

Which topics of a live cluster are linted.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkakit.adapters.files import read_input
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.model import TagSet
from kafkakit.lint import act as finding
from kafkakit.lint.act import FoundFile, find_files, read_files, read_live
from kafkakit.lint.decide.files import FileReading, read_text
from kafkakit.lint.decide.templates import alternatives
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.values import holds_placeholder
from tests.fakes.admin import FakeCluster
from tests.rigs.lint_runs import linted as linted_texts

TOPIC = "kafkakit: cluster\ntopics: [{name: t}]\n"


def reading_of(*paths: Path | str, kind: str | None = None) -> tuple[FileReading, ...]:
    return read_files([str(path) for path in paths], kind, "stdin", read_input)


def problems(*paths: Path | str) -> list[tuple[str, int, int, str]]:
    found = [problem for reading in reading_of(*paths) for problem in reading.pieces.problems]
    return [(p.rule, p.place.line, p.place.column, p.message) for p in found]


def test_folders_are_walked_in_order_without_hidden_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "b/z.yaml",
        "b/a.yml",
        "a.json",
        "c.properties",
        ".git/x.yaml",
        ".x.yaml",
        "n.txt",
        "node_modules/y.yaml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TOPIC)
    monkeypatch.chdir(tmp_path)
    assert [file.path for file in find_files(["."])] == ["a.json", "b/a.yml", "b/z.yaml", "c.properties"]
    assert find_files(["n.txt", "b", "./b/z.yaml"]) == (
        FoundFile("n.txt", is_named=True),
        FoundFile("b/a.yml", is_named=False),
        FoundFile("b/z.yaml", is_named=True),
    )


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "t.yaml").write_text(TOPIC)
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "a" / "self.yaml").symlink_to(tmp_path / "a" / "self.yaml")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in find_files([str(tmp_path)])] == ["a/t.yaml"]


def test_what_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.yaml: there is no such file or folder"):
        reading_of(tmp_path / "missing.yaml")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="cannot be read"):
        reading_of(tmp_path / "loop")
    with pytest.raises(UsageError, match="unknown kind of file: 'x'"):
        reading_of(tmp_path, kind="x")
    with pytest.raises(UsageError, match="cannot be read"):
        find_files(["a\x00b"])


def test_limits_on_depth_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path.joinpath(*["d"] * 5)
    deep.mkdir(parents=True)
    for number in range(3):
        (deep / f"{number}.yaml").write_text(TOPIC)
    monkeypatch.setattr(finding, "MAX_DEPTH", 4)
    with pytest.raises(UsageError, match="nested deeper than 4 levels"):
        find_files([str(tmp_path)])
    monkeypatch.setattr(finding, "MAX_DEPTH", 9)
    monkeypatch.setattr(finding, "MAX_FILES", 2)
    with pytest.raises(UsageError, match="more than 2 files"):
        find_files([str(tmp_path)])


@pytest.mark.parametrize(
    ("data", "line", "column", "message"),
    [
        (b"kafkakit: cluster\n# \xff\n", 2, 3, "not valid UTF-8 text (byte 20)"),
        (b"\xef\xbb\xbftopics:\n  # \xff\n", 2, 5, "not valid UTF-8 text (byte 15)"),
        (b"kafkakit: cluster\x00\n", 1, 18, "a zero byte: this is not a text file"),
        (b"kafkakit: cluster\ntopics: [\n", 3, 1, "not valid YAML: while parsing a flow node did not find expected "
         "node content"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_finding(tmp_path: Path, data: bytes, line: int, column: int, message: str) -> None:
    (tmp_path / "a.yaml").write_bytes(data)
    assert problems(tmp_path / "a.yaml") == [("KKL006", line, column, message)]


@pytest.mark.parametrize(
    ("data", "column", "message"),
    [
        (b"\xef\xbb\xbfa: \xff\n", 4, "not valid UTF-8 text (byte 6)"),
        (b"a: b\x00\n", 5, "a zero byte: this is not a text file"),
        (b"\x7fELF\x02\x00\x01\xfe\xff", 8, "a zero byte: this is not a text file"),
        (b"a: [\n", 5, "not valid YAML"),
    ],
)
def test_what_nothing_tells_to_be_kafkas_is_a_note(tmp_path: Path, data: bytes, column: int, message: str) -> None:
    (tmp_path / "a.yaml").write_bytes(data)
    ((rule, _, at, said),) = problems(tmp_path / "a.yaml")
    assert rule == "KKL007"
    assert message in said
    assert at == column or data == b"a: [\n"


def test_byte_order_marks_and_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + TOPIC.replace("\n", "\r\n").encode())
    (reading,) = reading_of(tmp_path)
    assert reading.pieces.topics[0].place == (str(tmp_path / "a.yaml"), 2, 10)


def test_a_file_above_the_limit_and_a_pipe_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.lint.act.LIMIT_BYTES", 10)
    (tmp_path / "a.yaml").write_text(TOPIC)
    assert problems(tmp_path / "a.yaml") == [("KKL006", 1, 1, "is larger than 10 bytes")]
    os.mkfifo(tmp_path / "p.yaml")
    assert problems(tmp_path / "p.yaml") == [("KKL006", 1, 1, "is not a regular file")]


def test_files_of_other_tools_are_left_out_unless_named(tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text("jobs: {}\n")
    assert reading_of(tmp_path) == ()
    assert [rule for rule, *_ in problems(tmp_path / "ci.yaml")] == ["KKL007"]


def test_stdin_is_read_under_its_name() -> None:
    found = read_files(["-"], None, "topics/t.yaml", lambda path, limit: TOPIC.encode() if str(path) == "-" else b"")
    assert found[0].pieces.topics[0].place == ("topics/t.yaml", 2, 10)


def test_only_a_snapshot_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.lint.act.LIMIT_BYTES", 50)
    monkeypatch.setattr("kafkakit.lint.decide.files.LIMIT_BYTES", 50)
    snapshot = (
        '{"kafkakit":{"kind":"cluster-snapshot","schema":1},"cluster_id":"abc","taken_at":"2026-01-01T00:00:00Z",'
        '"source":"s","brokers":[],"topics":[]}'
    )
    (tmp_path / "s.json").write_text(snapshot)
    (tmp_path / "m.json").write_text('{"version": 1, "partitions": [' + " " * 50 + "]}")
    assert problems(tmp_path / "s.json") == []
    assert problems(tmp_path / "m.json") == [("KKL006", 1, 1, "is larger than 50 bytes")]
    assert reading_of(tmp_path) == ()


def test_files_of_folders_that_are_no_text_are_left_out_unless_they_look_known(tmp_path: Path) -> None:
    (tmp_path / "blob.yaml").write_bytes(b"\x80\x81")
    assert reading_of(tmp_path) == ()
    (tmp_path / "t.yaml").write_bytes(b"kafkakit: cluster\n# \xff\n")
    assert problems(tmp_path) == [("KKL006", 2, 3, "not valid UTF-8 text (byte 20)")]


COMPOSE = "services:\n  a:\n    image: apache/kafka:4.1.0\n    # caf\xe9\n    environment: {KAFKA_NODE_ID: 1}\n"
OF_KAFKA = {
    "t.yaml": TOPIC + "# caf\xe9\n",
    "compose.yml": COMPOSE,
    "values.yaml": "# caf\xe9\nextraConfig: |\n  log.retention.ms=60000\n",
    "agent.yaml": "# caf\xe9\ninstances:\n- kafka_connect_str: k:9092\n",
    "c.json": '{"name": "caf\xe9", "config": {"connector.class": "FileStreamSink"}}',
}


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32", "latin-1"])
@pytest.mark.parametrize("name", [*OF_KAFKA, "server.properties"])
def test_a_file_of_kafka_in_another_encoding_is_a_finding_by_name_and_in_a_folder(
    tmp_path: Path, name: str, coding: str
) -> None:
    text = OF_KAFKA.get(name, "# caf\xe9\nprocess.roles=broker\nnode.id=1\n")
    (tmp_path / name).write_bytes(text.encode(coding))
    told = [(rule, message) for rule, _, _, message in problems(tmp_path)]
    assert told == [(rule, message) for rule, _, _, message in problems(tmp_path / name)]
    if (name, coding) == ("server.properties", "latin-1"):
        assert told == []  # as Java reads it
    else:
        ((rule, message),) = told
        assert rule == "KKL006"
        assert coding.upper()[:6] in message or "not valid UTF-8" in message


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be", "utf-32-le", "latin-1"])
def test_a_file_of_another_tool_in_another_encoding_is_left_out_or_noted(tmp_path: Path, coding: str) -> None:
    (tmp_path / "ci.yaml").write_bytes("jobs: {caf\xe9: 1}\n".encode(coding))
    assert reading_of(tmp_path) == ()
    assert [rule for rule, *_ in problems(tmp_path / "ci.yaml")] == ["KKL007"]
    (tmp_path / "ci.yaml").write_bytes("caf\xe9: {x: server.properties}\n".encode(coding))
    assert [reading.speaks for reading in reading_of(tmp_path)] == [True]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", OF_KAFKA)
def test_byte_order_marks_and_line_ends_change_no_finding(tmp_path: Path, name: str, end: str, mark: str) -> None:
    def found() -> list[object]:
        (reading,) = reading_of(tmp_path)
        pieces = reading.pieces
        return [reading.kinds, pieces.brokers, pieces.topics, pieces.agents, pieces.connectors, pieces.problems]

    (tmp_path / name).write_text(OF_KAFKA[name], encoding="utf-8")
    before = found()
    (tmp_path / name).write_bytes((mark + OF_KAFKA[name].replace("\n", end)).encode())
    assert found() == before


def test_a_folder_without_rights_is_a_finding_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "t.yaml").write_text(TOPIC)
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("kafkakit.lint.act.os.scandir", refuse)
    assert problems(tmp_path) == [("KKL006", 1, 1, "cannot be listed: Permission denied")]
    assert [len(reading.pieces.topics) for reading in reading_of(tmp_path)] == [0, 1]


def test_a_file_without_rights_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TOPIC)

    def refuse(path: Path, limit: int) -> bytes:
        raise InputError(str(path), "cannot be read: Permission denied")

    (reading,) = read_files([str(tmp_path)], None, "stdin", refuse)
    assert [problem.message for problem in reading.pieces.problems] == ["cannot be read: Permission denied"]


def test_five_thousand_documents_and_bombs_of_aliases_in_every_kind_of_yaml() -> None:
    one = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: t%d}\nspec: {partitions: 1}\n"
    many = read_text("t.yaml", "---\n".join(one % number for number in range(5_000)))
    assert [topic.name for topic in many.pieces.topics] == [f"t{number}" for number in range(5_000)]
    assert many.pieces.topics[-1].place == ("t.yaml", 5 * 4_999 + 4, 7)
    bomb = "x0: &x0 [a, a]\n" + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 20))
    for name, text in OF_KAFKA.items():
        if not name.endswith(".json"):
            reading = read_text(name, bomb + text, is_named=True)
            assert any("aliases repeat more than" in problem.message for problem in reading.pieces.problems), name


TAGS = TagSet(brokers={}, topics={"orders": {"tier": "hot"}})


def linted(topics: str | None, tags: TagSet | None = None) -> list[str]:
    cluster = FakeCluster({1: "a", 2: "b"})
    cluster.add_topic("orders", {0: (1, 2)})
    cluster.add_topic("users", {0: (1, 2), 1: (2, 1)})

    def read_tags() -> TagSet:
        assert tags is not None, "tags are read although no query looks at them"
        return tags

    found = read_live(cluster, None, datetime(2026, 1, 1, tzinfo=UTC), topics, read_tags)
    assert len(found.brokers) == 2
    return sorted(piece.name for piece in found.topics)


def test_topics_are_chosen_by_name_query_and_tag() -> None:
    assert linted(None) == ["orders", "users"]
    assert linted("users") == ["users"]
    assert linted("where partitions > 1") == ["users"]
    assert linted("where tier = hot", TAGS) == ["orders"]


def test_what_matches_nothing_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="no topic matches") as caught:
        linted("where tier = cold", TAGS)
    assert any("orders" in line for line in caught.value.lines)
    with pytest.raises(UsageError, match="no topic matches"):
        linted("nothing")


BRANCHES = [
    "node.id=1\n{% if a %}\nlog.dirs=/data\n{% elif b %}\nlog.dirs=/tmp/b\n{% else %}\nlog.dirs=/tmp/c\n{% endif %}\n",
    "node.id=1\n{{- if .Values.a }}\nlog.dirs=/data\n{{- else if .b }}\nlog.dirs=/tmp/b\n{{- else }}\n"
    "log.dirs=/tmp/c\n{{- end }}\n",
    "node.id=1\n<% if @a -%>\nlog.dirs=/data\n<% elsif @b -%>\nlog.dirs=/tmp/b\n<% else -%>\n"
    "log.dirs=/tmp/c\n<% end -%>\n",
]


@pytest.mark.parametrize("text", BRANCHES)
def test_branches_of_templates_are_alternatives(text: str) -> None:
    reading = read_text("server.properties", text, is_named=True)
    assert reading.document.text == text
    dirs = [part.brokers[0].static["log.dirs"] for part in (reading.pieces, *reading.alternatives)]
    assert [(found.text, found.place.line if found.place else None) for found in dirs] == [
        ("/data", 3), ("/tmp/b", 5), ("/tmp/c", 7),
    ]  # fmt: skip
    assert not reading.pieces.problems
    found = linted_texts({"server.properties": text}, rules=all_rules(), known=all_rules())
    codes_and_lines = [(c.rule.code, c.finding.place.line) for c in found.result.checked if c.finding.place]
    assert [line for code, line in codes_and_lines if code == "KKB505"] == [5, 7]
    assert not {"KKV001", "KKV011"}.intersection(code for code, _ in codes_and_lines)


@pytest.mark.parametrize(
    "text",
    [
        "node.id=1\n{% for k, v in more.items() %}\n{{ k }}={{ v }}\n{% endfor %}\n",
        "node.id=1\n${EXTRA}\n{# log.dirs=/a\n   log.dirs=/b #}\nlog.dirs=/c\n",
        "node.id=1\n{{/* one */}}\n{{ toYaml .Values.more | indent 2 }}\n{{ range .x }}\nlog.dirs={{ . }}\n{{ end }}\n",
        "node.id=1\n{%- if a -%}\nx.y=1\n{%- endif -%}\n{%- if not a -%}\nx.y=2\n{%- endif -%}\n",
    ],
)
def test_statements_of_templates_are_no_settings(text: str) -> None:
    found = linted_texts({"server.properties": text}, rules=all_rules(), known=all_rules())
    assert not {"KKV011", "KKL006"}.intersection(c.rule.code for c in found.result.checked)
    keys = {key for cluster in found.estate.clusters for broker in cluster.brokers for key in broker.config.static}
    assert keys <= {"node.id", "log.dirs", "x.y"}


def test_a_key_twice_in_one_branch_is_a_finding() -> None:
    text = "node.id=1\n{% if a %}\nx.y=1\nx.y=2\n{% endif %}\n"
    found = read_text("server.properties", text, is_named=True).pieces.problems
    assert [(problem.rule, problem.place.line) for problem in found] == [("KKV011", 4)]


@pytest.mark.parametrize("filled", ["{{ partitions }}", "${PARTITIONS}", "{{ .Values.partitions }}", "$(PARTITIONS)"])
@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\n"
        "metadata: {{name: t, labels: {{strimzi.io/cluster: c}}}}\n"
        'spec: {{partitions: "{0}", replicas: "{0}"}}\n',
        'kafkakit: cluster\nversion: "{0}"\nbrokers: [{{id: "{0}"}}]\ntopics: [{{name: t, partitions: "{0}"}}]\n',
        "meta: {{name: t, cluster: c}}\n"
        'spec: {{partitions: "{0}", replicationFactor: "{0}", retentionMinutes: "{0}"}}\n',
    ],
)
def test_a_placeholder_for_a_number_is_unknown(text: str, filled: str) -> None:
    found = read_text("a.yaml", text.format(filled), is_named=True).pieces
    assert [problem.message for problem in found.problems] == []
    assert [topic.partitions for topic in found.topics] == [None]


def test_a_byte_order_mark_is_part_of_the_first_key_of_properties(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"\xef\xbb\xbfprocess.roles=broker\nnode.id=1\nlog.dirs=/d\n")
    (reading,) = reading_of(path)
    assert [(p.rule, p.place.line, p.key) for p in reading.pieces.problems] == [("KKL012", 1, "process.roles")]
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"\xef\xbb\xbfkafkakit: cluster\nbrokers: [{id: 1}]\n")
    (reading,) = reading_of(path)
    assert (reading.pieces.problems, len(reading.pieces.brokers)) == ((), 1)


def test_properties_that_are_no_utf_8_are_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("# caf\xe9\nprocess.roles=broker\nnode.id=1\nlog.dirs=/d\xe9\n".encode("iso-8859-1"))
    (reading,) = reading_of(path)
    assert [d.path for d in reading.pieces.brokers[0].log_dirs] == ["/d\xe9"]
    assert problems(path) == []


def test_a_suppression_in_a_value_of_properties_is_told(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        'node.id=1\nlog.dirs=/tmp/x  # kafkakit: ignore[KKB505] reason="a"\n# kafkakit: ignore[X] reason="b"\n'
    )
    assert [found[:3] for found in problems(path)] == [("KKL010", 2, 18)]


@pytest.mark.parametrize("part", ["{{", "{%", "{#", "<%", "${", "{{ {", '{{ "', "a: {{ ", "__A_-", "{{!", "{{/*"])
def test_statements_without_an_end_are_read_in_linear_time(part: str) -> None:
    text = part * 50_000
    assert alternatives(text, is_yaml=True)
    assert holds_placeholder(text) in (True, False)
