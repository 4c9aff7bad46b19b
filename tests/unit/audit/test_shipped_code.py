"""The zip that executors get: the same each time, and enough where there is only Spark, Arrow, numpy and Python."""

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from kafkakit.adapters.spark import write_code_zip
from tests.places import ROOT

# What py4j and pyspark are to executors, and what their own packages load.
ALLOWED = ("pyspark", "pyarrow", "numpy", "py4j")
SHARED_LIBRARIES = ("numpy.libs", "pyarrow.libs")
IMPORT_ALL = """
import importlib, sys, zipfile
code, packages = sys.argv[1:]
sys.path[:0] = [code]
sys.path.append(packages)
names = [n for n in zipfile.ZipFile(code).namelist() if n.startswith("kafkakit_spark/") and n.endswith(".py")]
for name in names:
    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
import kafkakit.rules.config_defs as tables
assert tables.__file__.startswith(code)
assert tables.config_table("4.3").topic
print(len(names))
"""


def test_the_same_code_makes_the_same_bytes(tmp_path: Path) -> None:
    write_code_zip(tmp_path / "a.zip", whole_package=False)
    write_code_zip(tmp_path / "b.zip", whole_package=False)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert {"kafkakit/__init__.py", "kafkakit/core/fleet_tables.py", "kafkakit_spark/runner.py"} <= set(names)
    assert {name.split("/")[1] for name in names if name.startswith("kafkakit/")} == {
        "__init__.py", "core", "rules", "streams",
    }  # fmt: skip
    assert sum("tables/kafka-" in name for name in names) > 3
    write_code_zip(tmp_path / "whole.zip", whole_package=True)
    whole = set(zipfile.ZipFile(tmp_path / "whole.zip").namelist())
    assert {*names, "kafkakit/adapters/kafka/admin.py", "kafkakit/wiring.py"} <= whole
    assert not any("spark_code" in name or name.endswith(".pyc") for name in whole)


def test_the_zip_is_enough_for_a_bare_executor(tmp_path: Path) -> None:
    if find_spec("pyspark") is None:
        pytest.skip("spark: no pyspark")
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ALLOWED:
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        source = Path(found.origin).parent
        (packages / name).symlink_to(source)
        for beside in SHARED_LIBRARIES:
            if (source.parent / beside).exists() and not (packages / beside).exists():
                (packages / beside).symlink_to(source.parent / beside)
    write_code_zip(tmp_path / "code.zip", whole_package=False)
    ran = subprocess.run(
        [sys.executable, "-S", "-I", "-c", IMPORT_ALL, tmp_path / "code.zip", packages],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) == len(list((ROOT / "spark" / "kafkakit_spark").rglob("*.py")))
