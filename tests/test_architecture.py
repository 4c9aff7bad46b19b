"""The rules of the tree: layers by name, tools behind their api, how much a module and a folder hold, what a text says.

`docs/development.md` describes them. A module that no rule names is pure, so a new file is covered from its first line.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import density, layers, shapes, sources, words
from tests.architecture.package import all_modules, modules_of

ROOT = Path(__file__).parent.parent / "kafkakit"
RULES: dict[str, Callable[[Path], list[str]]] = {
    "layers": layers.layer_faults,
    "circles": layers.circles,
    "circles of types": layers.circles_of_types,
    "tools": layers.tool_faults,
    "spark code": layers.spark_faults,
    "large modules": density.large_modules,
    "sizes": density.size_faults,
    "split topics": density.split_topics,
    "folders": density.folder_faults,
    "loading": density.loading_faults,
    "unused api": density.unused_api,
    "re-exports": shapes.reexports,
    "commands": shapes.command_faults,
    "options": shapes.untyped_options,
    "class names": shapes.repeated_classes,
    "participles": shapes.bare_participles,
    "arrays": shapes.untyped_arrays,
    "group rule": shapes.rule_readers,
    "dialects": shapes.dialect_faults,
    "one mechanism": shapes.second_mechanisms,
    "copied fields": shapes.copied_fields,
    "reports": shapes.text_by_hand,
    "docstrings": sources.docstring_faults,
    "names in docstrings": sources.missing_names,
    "asserts": sources.asserts,
    "private members": sources.private_members,
    "words": words.word_faults,
}


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](ROOT) == []


def test_modules_that_use_private_members_still_do() -> None:
    users = {module.below for module in all_modules(ROOT) if list(sources.private_uses(module))}
    assert users == sources.USES_PRIVATE.keys()


def test_the_one_module_of_each_mechanism_is_there() -> None:
    modules = {module.below: module for module in all_modules(ROOT)}
    places = {job: place for job, (place, _, _) in shapes.ONE_MODULE.items()}
    assert [job for job, place in places.items() if not shapes.signs_of(job, modules[place])] == []


def test_the_walk_sees_the_package() -> None:
    modules = modules_of(ROOT)
    assert modules["kafkakit.core.model"].layer == "pure"
    assert modules["kafkakit.cli.version"].layer == "commands"
    assert modules["kafkakit.reassign.act.run"].layer == "acting"
    assert {"adapter", "acting", "commands", "pure", "wiring"} == {module.layer for module in modules.values()}


def write_package(folder: Path, files: dict[str, str]) -> Path:
    root = folder / "kit"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in (path.parent, *path.parent.parents):
            if parent.is_relative_to(root):
                (parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return root


VIOLATIONS: list[tuple[str, dict[str, str], list[str]]] = [
    (
        "copied fields",
        {
            "tool/a.py": "x = Job(a=t.a, b=t.b, c=t.c, d=t.d, e=t.e)\n" * 21
            + "y = Job(a=t.a, b=t.b, c=t.c, d=t.d, e=u.e)\n"
        },
        sorted(f"kit.tool.a: Job copies 5 fields of t in line {n}" for n in range(1, 22)),
    ),
    (
        "one mechanism",
        {
            "streams/model/binary.py": "from google_crc32c import extend\nHEADER = Struct('>qiibIhiqqqhii')\n",
            "streams/model/pathways.py": "x = byte & 127\n",
            "tool/a.py": "HEADER = Struct('>qiib')\nx = byte & 0x7F\ny = size & 1270\n",
            "report/pages.py": "from jinja2 import Environment\nSTYLE = '<style>'\n",
            "tool/d.py": "from markupsafe import Markup\npage = f'<html lang={language}>'\nlist[str] < x > y\n",
            "tool/c.py": "x = MarkState[name.upper()]\ny = {'digest': spill.digest.hex()}\n",
            "tool/b.py": "import google_crc32c\nHEADER = [('base_offset', '>i8')]\nNAMES = ('base_offset', 'length')\n",
            "../spark/kafkakit_spark/x.py": "POLYNOMIAL = 0x82F63B78\n",
        },
        [
            "kafkakit_spark.x: computes CRC-32C, as streams.model.binary does for all: 0x82F63B78",
            "kit.tool.a: reads headers of record batches, as streams.model.binary does for all: '>qiib",
            "kit.tool.a: reads varints, as streams.model.binary does for all: & 0x7F",
            "kit.tool.b: computes CRC-32C, as streams.model.binary does for all: google_crc32c",
            "kit.tool.b: reads headers of record batches, as streams.model.binary does for all: 'base_offset', '>",
            "kit.tool.c: has the JSON of commit states, as streams.model.commit does for all: .digest.hex()",
            "kit.tool.c: has the JSON of commit states, as streams.model.commit does for all: MarkState[",
            "kit.tool.d: renders pages, as report.pages does for all: <html lang={language}>",
            "kit.tool.d: renders pages, as report.pages does for all: markupsafe",
            "kit.tool.d: renders pages, as report.pages does for all: markupsafe.Markup",
        ],
    ),
    (
        "one mechanism",
        {
            "core/text.py": "def text_table(columns, rows):\n    return ''\n",
            "report/report.py": "from kit.core.text import text_table\n",
            "tool/report.py": "from kit.core.text import text_table\nimport tabulate\n",
        },
        [
            "kit.tool.report: lays out tables, as report.report does for all: tabulate",
            "kit.tool.report: lays out tables, as report.report does for all: text_table",
        ],
    ),
    (
        "one mechanism",
        {
            "core/yaml_json.py": "import yaml\nloader = yaml.SafeLoader('')\n",
            "tool/prints.py": "import json\nimport yaml\nx = yaml.safe_dump(json.loads(y))\nz = config.load(y)\n",
            "tool/a.py": "from yaml.nodes import Node\nx = yaml.load(y, Loader=Mine)\nz = yaml.compose(y)\n",
            "tool/b.py": "x = msgspec.yaml.decode(y)\nz = json.loads(y, object_pairs_hook=f)\n",
            "tool/c.py": "from ruamel.yaml import YAML\n",
        },
        [
            "kit.tool.a: reads YAML, and JSON with places, as core.yaml_json does for all: yaml.compose",
            "kit.tool.a: reads YAML, and JSON with places, as core.yaml_json does for all: yaml.load",
            "kit.tool.a: reads YAML, and JSON with places, as core.yaml_json does for all: yaml.nodes",
            "kit.tool.a: reads YAML, and JSON with places, as core.yaml_json does for all: yaml.nodes.Node",
            "kit.tool.b: reads YAML, and JSON with places, as core.yaml_json does for all: msgspec.yaml",
            "kit.tool.b: reads YAML, and JSON with places, as core.yaml_json does for all: object_pairs_hook",
            "kit.tool.c: reads YAML, and JSON with places, as core.yaml_json does for all: ruamel.yaml",
            "kit.tool.c: reads YAML, and JSON with places, as core.yaml_json does for all: ruamel.yaml.YAML",
        ],
    ),
    (
        "one mechanism",
        {
            "execution/act/retrier.py": "answers = retrier.call('changing', partial(admin.alter_configs, changes))\n",
            "execution/act/leases.py": "def alter_configs(changes):\n    return inner.alter_configs(changes)\n",
            "adapters/kafka/admin.py": "def alter_configs(changes):\n    return alter_configs(session, changes)\n",
            "tool/act.py": "answers = admin.alter_configs(changes)\n",
        },
        [
            "kit.tool.act: changes settings, as execution.act.retrier does for all: .alter_configs",
        ],
    ),
    (
        "reports",
        {
            "tool/report.py": 'def f(x) -> Report:\n    """A\n  b."""\n    y = "a\\n"\n    return Report(sections=x)\n',
            "tool/act.py": "x = Report(sections=('\\n'.join(y),))\nz = Report(sections=lines_from('\\n'.join(y)))\n",
            "tool/decide.py": "def f() -> Iterator[Part]:\n    yield f'{x}\\n'\ndef g() -> str:\n    return '\\n'\n",
        },
        [
            "kit.tool.act: ends a line of a report in line 1",
            "kit.tool.decide: ends a line of a report in line 2",
            "kit.tool.report: ends a line of a report in line 4",
        ],
    ),
    (
        "layers",
        {"plan.py": "def f():\n    from kit.middle import x\n", "middle.py": "def g():\n    import os.path\n"},
        [
            "kit.middle: is pure, but reaches os.path through kit.middle",
            "kit.plan: is pure, but reaches os.path through kit.plan -> kit.middle",
        ],
    ),
    (
        "layers",
        {"tool/decide/a.py": "import time as t\n"},
        ["kit.tool.decide.a: is pure, but reaches time through kit.tool.decide.a"],
    ),
    (
        "layers",
        {"tool/report.py": "import kafka\n"},
        ["kit.tool.report: is pure, but reaches the library kafka through kit.tool.report"],
    ),
    (
        "layers",
        {"sandbox/report/a.py": "import os\n", "sandbox/act/report.py": "import os\n"},
        ["kit.sandbox.report.a: is pure, but reaches os through kit.sandbox.report.a"],
    ),
    (
        "layers",
        {"sandbox/api.py": "from kit.sandbox.nodes import x\n", "sandbox/nodes.py": "import os\n"},
        ["kit.sandbox.api: is pure, but reaches the acting module kit.sandbox.nodes through kit.sandbox.api"],
    ),
    (
        "layers",
        {"plan.py": "from kit.adapters.files import x\n", "adapters/files.py": ""},
        ["kit.plan: is pure, but reaches the adapter module kit.adapters.files through kit.plan"],
    ),
    (
        "layers",
        {"tool/decide.py": "from kit.ports.admin import Admin\n", "ports/admin.py": ""},
        ["kit.tool.decide: is pure, but reaches the port kit.ports.admin through kit.tool.decide"],
    ),
    (
        "layers",
        {"tool/decide.py": "from kit.tool.act import x\n", "tool/act.py": ""},
        ["kit.tool.decide: is pure, but reaches the acting module kit.tool.act through kit.tool.decide"],
    ),
    ("layers", {"plan.py": "x = open('a')\n"}, ["kit.plan: is pure, but calls open() in line 1"]),
    (
        "layers",
        {"plan.py": "from datetime import datetime\nx = datetime.now()\n"},
        ["kit.plan: is pure, but reads the clock in line 2"],
    ),
    (
        "layers",
        {"tool/act/run.py": "def f():\n    import kafka\n"},
        ["kit.tool.act.run: acts, but imports the library kafka"],
    ),
    (
        "layers",
        {"tool/act.py": "from kit.wiring import x\n", "wiring.py": ""},
        ["kit.tool.act: acts, but imports the wiring module kit.wiring"],
    ),
    (
        "spark code",
        {"../spark/kafkakit_spark/x.py": "def f():\n    from kit.core.a import x\n", "core/a.py": "import msgspec\n"},
        ["kafkakit_spark.x: runs on executors, but reaches the library msgspec through kafkakit_spark.x -> kit.core.a"],
    ),
    (
        "spark code",
        {"../spark/kafkakit_spark/job.py": "from kit.lint.a import x\n", "lint/a.py": ""},
        ["kafkakit_spark.job: runs on executors, but reaches kit.lint.a through kafkakit_spark.job"],
    ),
    (
        "layers",
        {"adapters/a.py": "import kafka\nimport kazoo.client\n"},
        ["kit.adapters.a: is an adapter, but imports several libraries: kafka, kazoo"],
    ),
    (
        "layers",
        {"adapters/a.py": "from kit.adapters.b import x\n", "adapters/b.py": ""},
        ["kit.adapters.a: is an adapter, but imports the adapter kit.adapters.b"],
    ),
    (
        "layers",
        {"tool/commands.py": "import confluent_kafka\n"},
        ["kit.tool.commands: is of the command line, but imports the library confluent_kafka"],
    ),
    (
        "layers",
        {"wiring.py": "from kit.tool.decide import plan\n", "tool/decide.py": ""},
        ["kit.wiring: is wiring, but imports kit.tool.decide"],
    ),
    ("layers", {"plan.py": "from .middle import x\n", "middle.py": ""}, ["kit.plan: imports relatively"]),
    (
        "circles",
        {"a.py": "from kit.b import y\n", "b.py": "def f():\n    from kit.a import x\n"},
        ["kit.a -> kit.b -> kit.a", "kit.b -> kit.a -> kit.b"],
    ),
    (
        "tools",
        {"one/decide.py": "from kit.two.decide import x\n", "two/decide.py": ""},
        ["kit.one.decide: imports kit.two.decide, but two shows its api only"],
    ),
    (
        "tools",
        {"streams/one/act.py": "from kit.streams.two.act import x\n", "streams/two/act.py": ""},
        ["kit.streams.one.act: imports kit.streams.two.act, but streams.two shows its api only"],
    ),
    (
        "tools",
        {"execution/act/run.py": "from kit.tool.api import x\n", "tool/api.py": ""},
        ["kit.execution.act.run: belongs to the library execution, but imports kit.tool.api"],
    ),
    (
        "tools",
        {"placement/flow.py": "from kit.execution.decide.x import y\n", "execution/decide/x.py": ""},
        ["kit.placement.flow: belongs to the library placement, but imports kit.execution.decide.x"],
    ),
    (
        "tools",
        {"streams/model/route.py": "from kit.streams.routes.api import x\n", "streams/routes/api.py": ""},
        ["kit.streams.model.route: belongs to the library streams.model, but imports kit.streams.routes.api"],
    ),
    (
        "circles of types",
        {
            "a.py": "from kit.b import y\n",
            "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kit.a import x\n",
        },
        ["kit.a -> kit.b -> kit.a", "kit.b -> kit.a -> kit.b"],
    ),
    ("large modules", {"a.py": "x = 1\n" * 701, "b.py": "x = 1\n" * 700}, ["kit.a: has 701 lines, 700 are the most"]),
    (
        "sizes",
        {f"m{number}.py": "x = 1\n" * (99 if number < 120 else 199) for number in range(509)}
        | {"../spark/kafkakit_spark/job.py": "x = 1\n"},
        [
            "121 of 510 modules (23 %) have less than 100 lines, 20 % are the most",
            "the median module has 199 lines, 200 are the least",
            "there are 510 modules, 509 are the most",
        ],
    ),
    (
        "split topics",
        {
            "tool/decide/plan.py": "from kit.tool.decide.steps import x\nfrom kit.tool.decide.flow import y\n",
            "tool/decide/steps.py": "x = 1\n",
            "tool/decide/flow.py": "y = 1\n",
            "tool/act.py": "from kit.tool.decide.plan import z\n",
            "tool/commands/app.py": "from kit.tool.commands.show import x\n",
            "tool/commands/show.py": "x = 1\n",
            "lint/kinds/catalogue.py": "from kit.lint.kinds.topics import x\n",
            "lint/kinds/topics.py": "x = 1\n",
            "../tests/unit/test_flow.py": "from kit.tool.decide.flow import y\n",
        },
        ["kit.tool.decide.steps: only kit.tool.decide.plan imports it, and no test does; make them one module"],
    ),
    (
        "folders",
        {
            "tool/commands.py": "",
            "tool/decide/a.py": "x = 1\n" * 300,
            "tool/decide/b.py": "x = 1\n" * 299,
            "other/commands.py": "",
            "other/act/a.py": "x = 1\n" * 300,
            "other/act/b.py": "x = 1\n" * 300,
            "core/query/a.py": "x = 1\n" * 400,
            "core/query/b.py": "x = 1\n" * 400,
            "core/query/c.py": "x = 1\n" * 399,
            "core/a.py": "",
            "core/b.py": "x = 1\n",
        },
        [
            "kit/core/query: holds 3 modules and folders with 1199 lines; make it one module, or move them up",
            "kit/tool/decide: holds 2 modules and folders with 599 lines; make it one module, or move them up",
        ],
    ),
    (
        "loading",
        {
            "streams/client/loop.py": "def f():\n    from kit.cli.session import x\n",
            "cli/session.py": "",
            "streams/client/connect.py": "import numpy\nfrom kit.placement import a\nfrom kit.core import "
            + ", ".join(f"m{number}" for number in range(85))
            + "\n",
            "placement/a.py": "",
            **{f"core/m{number}.py": "" for number in range(85)},
        },
        [
            "kit.streams.client.connect: imports kit.placement.a",
            "kit.streams.client.loop: imports kit.cli.session",
            "streams.client.connect: loads 2 modules of placement",
            "streams.client.connect: loads 92 modules, 90 are the most",
            "streams.client.connect: loads the library numpy",
        ],
    ),
    (
        "unused api",
        {
            "tool/api.py": "from kit.tool.decide import a, b, c, d\n\nE = d\n",
            "tool/decide.py": "a = b = c = d = 1\n",
            "tool/commands.py": "from kit.tool.api import c\n",
            "other/act.py": "from kit.tool.api import a\n",
            "../tests/cli/test_tool.py": "from kit.tool.api import (\n    b,\n)\n",
        },
        ["kit.tool.api: hands on c, which nobody takes"],
    ),
    (
        "docstrings",
        {
            "a.py": 'def with_size(x):\n    """The same with a size."""\n\n\nN = 1\n"""the same in bytes"""\n',
            "b.py": 'class LagView:\n    """The view of a lag."""\n\n    def lag(self):\n        """A lag."""\n',
            "c.py": 'def drop(x):\n    """Drop x at the same time."""\n',
            "d.py": 'def read(x):\n    """See `ports.Reader`."""\n',
        },
        [
            "kit.a: line 1 says 'The same', not what",
            "kit.a: line 6 says 'The same', not what",
            "kit.b: line 4 says no more than the name",
            "kit.d: line 1 only refers to another docstring",
        ],
    ),
    (
        "names in docstrings",
        {
            "core/a.py": '"""`service.py`, `placement/gone.py`, `core.gone`, `kit.gone`, `core.a.X`."""\n',
            "core/b.py": '"""`ports.Store`, `tool.act.Run`, `runs.Runs`, `rules/gone/`."""\n',
            "core/c.py": '"""`a.py`, `core/a.py`, `kit.core.a`, `core.a`, `ports.Admin`, `admin.Admin`, `core/`."""\n',
            "core/d.py": '"""`truth.json`, `broker.id`, `log.dirs`, `a/b`, `typing.Any`, `Plan.x`, `TOPIC/x.py`."""\n',
            "ports/admin.py": "class Admin:\n    pass\n",
            "rules/a.py": "",
            "tool/service.py": "",
        },
        [
            "kit.core.a: line 1 names core.a.X, which is not there",
            "kit.core.a: line 1 names core.gone, which is not there",
            "kit.core.a: line 1 names kit.gone, which is not there",
            "kit.core.a: line 1 names placement/gone.py, which is not there",
            "kit.core.a: line 1 names service.py, which is not there",
            "kit.core.b: line 1 names ports.Store, which is not there",
            "kit.core.b: line 1 names rules/gone/, which is not there",
            "kit.core.b: line 1 names runs.Runs, which is not there",
            "kit.core.b: line 1 names tool.act.Run, which is not there",
        ],
    ),
    ("asserts", {"a.py": "def f(x):\n    assert x\n"}, ["kit.a: asserts in line 2"]),
    (
        "private members",
        {
            "a.py": "import os\nfrom kafka import _x\ndef f(client):\n    client._manager.run()\n    os._exit(1)\n",
            "b.py": "def g(client):\n    return getattr(client, '_net', None), client.row._replace(x=1), Error._EOF\n",
            "c.py": "class C:\n    def __init__(self, other):\n        self._x = other._x\n        self._y()\n",
        },
        ["kit.a: uses _manager in line 4", "kit.a: uses _x in line 2", "kit.b: uses _net in line 2"],
    ),
    (
        "words",
        {
            "a.py": "def f(x):\n    raise Error(f'{x!r} is no time', hint='values are no numbers')\n",
            "b.py": "A = option('Run even where it has a result.')\nB = 'by capacity, where disks are unlike'\n",
            "c.py": "A = typer.Option(help='These, too.')\nB = ('give it, ' 'also')\nC = 'Tags, too, and racks.'\n",
            "d.py": "A = ['on these brokers alone', f'{1} alone, no other']\n",
            "e.py": "A = 'That of one broker.'\nB = f'{1} and those of tags'\nC = 'removed what is ours'\n",
            "f.py": '@app.command(\'x\')\ndef f():\n    """The topic\'s value goes before the broker\'s."""\n',
            "g.py": "A = f'{1} counts before it'\n",
        },
        [
            "kit.a: line 2 has 'is no X', write is not an X: 'values are no numbers'",
            "kit.a: line 2 has 'is no X', write is not an X: '{} is no time'",
            "kit.b: line 1 has 'where', write if, when: 'Run even where it has a result.'",
            "kit.b: line 2 has 'where', write if, when: 'by capacity, where disks are unlike'",
            "kit.c: line 1 has ', too', write also, before what it adds: 'These, too.'",
            "kit.c: line 2 has ', too', write also, before what it adds: 'give it, also'",
            "kit.c: line 3 has ', too', write also, before what it adds: 'Tags, too, and racks.'",
            "kit.d: line 1 has 'alone', write only: 'on these brokers alone'",
            "kit.d: line 1 has 'alone', write only: '{} alone, no other'",
            "kit.e: line 1 has 'that of', write the noun: 'That of one broker.'",
            "kit.e: line 2 has 'that of', write the noun: '{} and those of tags'",
            "kit.e: line 3 has 'that of', write the noun: 'removed what is ours'",
            "kit.f: line 3 has 'goes before', write overrides: \"The topic's value goes before the broker's.\"",
            "kit.g: line 1 has 'goes before', write overrides: '{} counts before it'",
        ],
    ),
    ("re-exports", {"tool/act.py": "from kit.a import x\n", "a.py": ""}, ["kit.tool.act: only re-exports"]),
    (
        "commands",
        {"tool/commands/run.py": "import signal\nfrom subprocess import run\nimport json\n"},
        ["kit.tool.commands.run: imports signal", "kit.tool.commands.run: imports subprocess"],
    ),
    (
        "options",
        {"tool/commands.py": "def f(ctx: typer.Context, given: dict[str, Any]):\n    return locals()\n"},
        [
            "kit.tool.commands: calls locals() in line 2",
            "kit.tool.commands: takes dict[str, Any] in line 1",
        ],
    ),
    (
        "class names",
        {
            "tool/decide/a.py": "class X:\n    pass\nclass _Y:\n    pass\n",
            "other/act.py": "class X:\n    pass\nclass _Y:\n    pass\n",
            "../spark/kafkakit_spark/x.py": "class X:\n    pass\n",
        },
        ["X: stands in kafkakit_spark.x, kit.other.act, kit.tool.decide.a"],
    ),
    (
        "participles",
        {
            "tool/drained.py": "class Held:\n    pass\nclass HeldLease:\n    seen = 1\ndef need():\n    kept = 1\n",
            "tool/act.py": "def _resolved():\n    pass\nasync def told():\n    pass\ndef as_told():\n    pass\n",
        },
        [
            "kit.tool.act: _resolved in line 1 is a participle; say what it is, or what it does",
            "kit.tool.act: told in line 3 is a participle; say what it is, or what it does",
            "kit.tool.drained: Held in line 1 is a participle; say what it is, or what it does",
            "kit.tool.drained: drained is a participle; say what it is, or what it does",
        ],
    ),
    ("arrays", {"a.py": "from typing import Any\nIds = Any\n"}, ["kit.a: names Any in line 2"]),
    (
        "group rule",
        {
            "placement/moves.py": "def f(problem):\n    return problem.rule.min_groups > 1\n",
            "placement/group_rule.py": "def g(rule):\n    return rule.min_groups\n",
            "tool/decide.py": "x = PlacementRules(receivers=(), spread_over=layout.rule.spread_over)\n",
        },
        ["kit.placement.moves: interprets the rule of groups"],
    ),
    (
        "dialects",
        {
            "streams/model/dialects/plain.py": "PLAIN = Dialect(name='plain')\n",
            "streams/model/dialects/registry.py": "from kit.streams.model.dialects.plain import PLAIN as D\nx=D\n",
            "streams/model/codec.py": "NAME = 'own'\n",
            "streams/model/dialects/own.py": "from kit.streams.model.codec import NAME\nOWN = Dialect(name=NAME)\n",
            "streams/one/decide.py": "def f(x):\n    return x.dialect == 'own' or x.dialect is D\n",
            "streams/two/act.py": "from kit.streams.model.dialects.plain import PLAIN\nx = {'plain': 1}[y.dialect]\n",
        },
        [
            "kit.streams.one.decide: compares a dialect with a constant in line 2",
            "kit.streams.one.decide: names the dialect own in line 2",
            "kit.streams.two.act: imports the dialect kit.streams.model.dialects.plain",
            "kit.streams.two.act: names the dialect plain in line 2",
        ],
    ),
    (
        "dialects",
        {"streams/model/dialects/two.py": "A = Dialect(name='a')\nB = Dialect(name='b')\n"},
        ["kit.streams.model.dialects.two: makes 2 dialects"],
    ),
    (
        "one mechanism",
        {
            "adapters/rpc/http_listener.py": "import uvicorn\n",
            "adapters/page.py": "def f():\n    from http import server\n",
            "adapters/sockets.py": "import http.client\nbound.listen(5)\nconsumer.listen(listener)\n",
            "tool/act.py": "import asyncio\nx = asyncio.start_server(f)\ny = Path(f'/proc/{pid}/stat')\n",
            "tool/commands.py": "from starlette.responses import Response\n",
            "tool/waits.py": "clock.sleep(1)\nf(pause=time.sleep)\nawait asyncio.sleep(0)\nx = time.monotonic()\n",
            "adapters/a.py": "x = time.monotonic()\n",
            "tool/service.py": "raise ServiceStoppedError(stop)\nif lead.is_held():\n    lead.require_held()\n",
            "tool/window.py": "if request.abort:\n    requests.answer()\nTOPIC = '__consumer_offsets'\n",
            "tool/report.py": "x = '[Service]\\n'\nleast = configs.get('min.insync.replicas', '1')\n",
            "../spark/kafkakit_spark/x.py": "import psutil\nfrom time import sleep\n",
        },
        [
            "kafkakit_spark.x: reads the state of processes, as adapters.host does for all: psutil",
            "kafkakit_spark.x: waits, as ports.acting does for all: time.sleep",
            "kit.adapters.page: serves HTTP, as adapters.rpc.http_listener does for all: http.server",
            "kit.adapters.sockets: serves HTTP, as adapters.rpc.http_listener does for all: .listen(5)",
            "kit.tool.act: reads the state of processes, as adapters.host does for all: /proc/{pid}/stat",
            "kit.tool.act: serves HTTP, as adapters.rpc.http_listener does for all: start_server(",
            "kit.tool.commands: serves HTTP, as adapters.rpc.http_listener does for all: starlette.responses",
            "kit.tool.commands: serves HTTP, as adapters.rpc.http_listener does for all: starlette.responses.Response",
            "kit.tool.report: prints files of systemd, as report.exports does for all: [Service]",
            "kit.tool.report: reads the minimum of replicas in sync, as core.findings does for all: "
            ".get('min.insync.replicas",
            "kit.tool.service: ends services, as core.errors does for all: ServiceStoppedError(",
            "kit.tool.service: leads in turn, as execution.act.leases does for all: .is_held():",
            "kit.tool.waits: measures time, as adapters.host does for all: time.monotonic",
            "kit.tool.waits: waits, as ports.acting does for all: .sleep(",
            "kit.tool.waits: waits, as ports.acting does for all: time.sleep",
            "kit.tool.window: names the topic of commits, as core.model does for all: '__consumer_offsets'",
            "kit.tool.window: raises aborts, as execution.act.control_requests does for all: .abort:",
        ],
    ),
]


@pytest.mark.parametrize(("rule", "files", "expected"), VIOLATIONS)
def test_a_violation_is_caught(tmp_path: Path, rule: str, files: dict[str, str], expected: list[str]) -> None:
    assert sorted(RULES[rule](write_package(tmp_path, files))) == expected


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    command = "import typer\ndef f(ctx: typer.Context):\n    from kit.wiring import x\n    from kit.tool.act import y\n"
    files = {
        "core/model.py": "import dataclasses\nimport re\n",
        "core/errors.py": "'there is no topic, it is no longer too old, stays where it is and is left alone'\n",
        "core/texts.py": 'def f():\n    """That of x alone."""\n    return f"--where Q, \'topics where not a\'"\n',
        "core/lines.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kit.core.model import x\n",
        "tool/decide.py": "def f():\n    import numpy\n    from kit.core.model import X\n",
        "tool/act.py": "import os\nimport time\nfrom kit.tool.decide import f\nx = 1\n",
        "tool/api.py": "from kit.tool.decide import f\n",
        "tool/report.py": "from kit.tool.decide import f\n",
        "tool/commands.py": command,
        "other/act.py": "from kit.tool.api import f\nx = 1\n",
        "other/decide.py": "",
        "other/commands.py": "",
        "adapters/files.py": "",
        "adapters/clock.py": "import time\n",
        "adapters/kafka/admin.py": "import kafka\nimport os\nfrom kit.adapters.kafka.topics import x\ny = x\n",
        "adapters/kafka/topics.py": "import kafka.admin\nx = 1\n",
        "adapters/kafka/groups.py": "from kit.adapters.kafka.topics import x\ny = x\n",
        "wiring.py": "def f():\n    from kit.adapters.kafka.admin import x\n",
        "streams/client/connect.py": "from kit.adapters.kafka.admin import x\ny = x\n",
        "streams/client/loop.py": "",
        "streams/client/threads.py": "import threading\n",
        "streams/demo/commands.py": "from kit.streams.client.connect import y\nz = y\n",
        "streams/demo/decide.py": "",
        "streams/routes/act.py": "",
        "streams/routes/decide.py": "",
        "streams/routes/commands.py": "",
    }
    # No module is small, and three of them are enough for a folder.
    root = write_package(tmp_path, {name: text + "x = 1\n" * 400 for name, text in files.items()})
    assert [fault for rule in RULES.values() for fault in rule(root)] == []
