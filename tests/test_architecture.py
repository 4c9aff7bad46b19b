"""The rules of the tree: layers by folder, tools behind their api, and the shapes of folders and modules.

`docs/development.md` describes them. A module that no rule names is pure, so a new file is covered from its first line.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import budget, dialects, layers, shapes, spark_code
from tests.architecture.package import modules_of

ROOT = Path(__file__).parent.parent / "kafkakit"
RULES: dict[str, Callable[[Path], list[str]]] = {
    "layers": layers.layer_faults,
    "circles": layers.circles,
    "tools": layers.tool_faults,
    "lonely folders": shapes.lonely_folders,
    "re-exports": shapes.reexports,
    "commands": shapes.command_shape_faults,
    "options": shapes.untyped_options,
    "class names": shapes.repeated_classes,
    "arrays": shapes.untyped_arrays,
    "group rule": shapes.rule_readers,
    "dialects": dialects.dialect_faults,
    "spark code": spark_code.spark_faults,
    "client budget": budget.client_budget,
}


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](ROOT) == []


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
        {"tool/show.py": "import kafka\n"},
        ["kit.tool.show: is pure, but reaches the library kafka through kit.tool.show"],
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
        "lonely folders",
        {"a.py": "", "tool/decide/a.py": "", "tool/act.py": ""},
        ["kit/tool/decide: holds a single module"],
    ),
    ("re-exports", {"tool/act.py": "from kit.a import x\n", "a.py": ""}, ["kit.tool.act: only re-exports"]),
    (
        "commands",
        {"tool/commands.py": "import signal\ndef help():\n    pass\nclass A:\n    pass\nfor x in ():\n    pass\n"},
        [
            "kit.tool.commands: defines the class A",
            "kit.tool.commands: help is no command",
            "kit.tool.commands: imports signal",
            "kit.tool.commands: loops in line 6",
        ],
    ),
    ("commands", {"tool/commands.py": "\n" * 200}, ["kit.tool.commands: has 200 lines"]),
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
        {"tool/decide/a.py": "class X:\n    pass\n", "tool/act.py": "class X:\n    pass\n"},
        ["X: stands in kit.tool.act, kit.tool.decide.a"],
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
            "streams/formats/dialects/plain.py": "PLAIN = Dialect(name='plain')\n",
            "streams/formats/dialects/registry.py": "from kit.streams.formats.dialects.plain import PLAIN as D\nx=D\n",
            "streams/formats/codec.py": "NAME = 'own'\n",
            "streams/formats/dialects/own.py": "from kit.streams.formats.codec import NAME\nOWN = Dialect(name=NAME)\n",
            "streams/one/decide.py": "def f(x):\n    return x.dialect == 'own' or x.dialect is D\n",
            "streams/two/act.py": "from kit.streams.formats.dialects.plain import PLAIN\nx = {'plain': 1}[y.dialect]\n",
        },
        [
            "kit.streams.one.decide: compares a dialect with a constant in line 2",
            "kit.streams.one.decide: names the dialect own in line 2",
            "kit.streams.two.act: imports the dialect kit.streams.formats.dialects.plain",
            "kit.streams.two.act: names the dialect plain in line 2",
        ],
    ),
    (
        "client budget",
        {
            "streams/client/connect.py": "from kit.core.a import x\nfrom kit.b import y\n",
            "core/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\n",
            "b.py": "import numpy as np\nfrom kit.placement.c import z\ndef f():\n    import rich\n",
            "placement/c.py": "import ortools\n",
            "streams/client/loop.py": "def f():\n    from kit.execution.act.waits import x\n",
            "execution/act/waits.py": "",
        },
        [
            "kit.streams.client.connect: loads kit.streams.client.connect -> kit.b -> kit.placement.c",
            "kit.streams.client.connect: loads the library numpy through kit.streams.client.connect -> kit.b",
            "kit.streams.client.loop: imports kit.execution.act.waits",
        ],
    ),
    (
        "dialects",
        {"streams/formats/dialects/two.py": "A = Dialect(name='a')\nB = Dialect(name='b')\n"},
        ["kit.streams.formats.dialects.two: makes 2 dialects"],
    ),
]


@pytest.mark.parametrize(("rule", "files", "expected"), VIOLATIONS)
def test_a_violation_is_caught(tmp_path: Path, rule: str, files: dict[str, str], expected: list[str]) -> None:
    assert sorted(RULES[rule](write_package(tmp_path, files))) == expected


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    command = "import typer\ndef f(ctx: typer.Context):\n    from kit.wiring import x\n    from kit.tool.act import y\n"
    files = {
        "core/model.py": "import dataclasses\nimport re\n",
        "core/lines.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kit.core.model import x\n",
        "tool/decide.py": "def f():\n    import numpy\n    from kit.core.model import X\n",
        "tool/act.py": "import os\nimport time\nfrom kit.tool.decide import f\nx = 1\n",
        "tool/api.py": "from kit.tool.decide import f\n",
        "tool/commands.py": command,
        "other/act.py": "from kit.tool.api import f\nx = 1\n",
        "other/decide.py": "",
        "adapters/files.py": "",
        "adapters/kafka/admin.py": "import kafka\nimport os\nfrom kit.adapters.kafka.topics import x\ny = x\n",
        "adapters/kafka/topics.py": "import kafka.admin\nx = 1\n",
        "wiring.py": "def f():\n    from kit.adapters.kafka.admin import x\n",
        "streams/client/connect.py": "from kit.adapters.kafka.admin import x\ny = x\n",
        "streams/client/loop.py": "",
        "streams/demo/commands.py": "from kit.streams.client.connect import y\nz = y\n",
        "streams/demo/decide.py": "",
        "streams/routes/act.py": "",
        "streams/routes/decide.py": "",
    }
    root = write_package(tmp_path, files)
    assert [fault for rule in RULES.values() for fault in rule(root)] == []
