"""How drivers are started: command lines, what is refused, and the manifest for Kubernetes."""

import json
from dataclasses import replace

import jsonschema
import pytest
import yaml

from kafkakit.audit.decide.launch import (
    SAIL_ROWS,
    SHORT_RUN_JAVA,
    SHORT_RUN_ROWS,
    Backend,
    DriverFiles,
    EngineFacts,
    SparkChoice,
    launch_line,
    launch_of,
    settle_choice,
)
from kafkakit.audit.report.exports import spark_application
from kafkakit.core.errors import KafkakitError, RefusedError, UsageError
from kafkakit.core.fleet_tables import JobSpec
from kafkakit.core.programs import SparkTools
from tests.places import ROOT

TOOLS = SparkTools(spark_home="/spark", python="/py", java_home="/java", code_folder="/code")
FILES = DriverFiles(
    name="kafkakit-r", main="/code/main.py", arguments=("--spec", "/run/spec.json"), code="/run/code.zip"
)
SPEC = JobSpec(
    jobs=("drift",), input="s3a://b/in", output="s3a://b/out", snapshot_date="2026-11-20", dates=(), now_ms=0
)


def command(**given: object) -> str:
    choice = SparkChoice(**{"backend": Backend.LOCAL, **given})  # type: ignore[arg-type]
    choice.check()
    return " ".join(launch_of(choice, TOOLS, FILES).command)


HERE = EngineFacts(rows=1_000_000, is_here=True, has_sail=True, free_bytes=8 << 30)


@pytest.mark.parametrize(
    ("choice", "facts", "backend", "why"),
    [
        (SparkChoice(), HERE, Backend.SAIL, "1,000,000 rows fit this host; --backend local runs Spark"),
        (SparkChoice(), replace(HERE, has_sail=False), Backend.LOCAL, "pysail is not installed"),
        (SparkChoice(), replace(HERE, is_here=False), Backend.LOCAL, "not folders of this host"),
        (SparkChoice(), replace(HERE, rows=SAIL_ROWS + 1), Backend.LOCAL, "more than the"),
        (SparkChoice(), replace(HERE, free_bytes=1 << 20), Backend.LOCAL, "more memory than is free"),
        (SparkChoice(), replace(HERE, free_bytes=None), Backend.SAIL, "fit this host"),
        (SparkChoice(), replace(HERE, parameters=("lag.kafka",)), Backend.LOCAL, "lag.kafka reads Kafka with Spark"),
        (SparkChoice(master="local[1]"), HERE, Backend.LOCAL, "--master given"),
        (SparkChoice(conf=("spark.a=b",)), HERE, Backend.LOCAL, "--conf given"),
        (SparkChoice(backend=Backend.LOCAL), HERE, Backend.LOCAL, "chosen with --backend"),
        (SparkChoice(backend=Backend.SAIL), replace(HERE, rows=10**12), Backend.SAIL, "chosen with --backend"),
    ],
)
def test_what_fits_this_host_runs_without_java(
    choice: SparkChoice, facts: EngineFacts, backend: Backend, why: str
) -> None:
    found, said = settle_choice(choice, facts)
    assert found.rows == facts.rows
    assert (found.backend, replace(found, backend=choice.backend, rows=None)) == (backend, choice)
    assert why in said


def test_sail_runs_in_the_driver_s_own_process() -> None:
    assert command(backend=Backend.SAIL) == "/py /code/main.py --spec /run/spec.json --sail"
    with pytest.raises(UsageError, match="--conf: settings of Spark"):
        command(backend=Backend.SAIL, conf=("spark.a=b",))


def test_the_jvm_of_a_short_local_run_compiles_little_unless_its_options_are_given() -> None:
    assert "extraJavaOptions" not in command()
    assert f"--conf spark.driver.extraJavaOptions={SHORT_RUN_JAVA}" in command(rows=SHORT_RUN_ROWS)
    own = command(rows=1, conf=("spark.driver.extraJavaOptions=-Xint",))
    assert [part for part in own.split() if "extraJavaOptions" in part] == ["spark.driver.extraJavaOptions=-Xint"]
    assert "extraJavaOptions" not in command(rows=1, properties_file="/etc/spark.conf")
    assert "extraJavaOptions" not in command(rows=SHORT_RUN_ROWS + 1)
    for rows, partitions in ((0, 2), (2_000_000, 4), (10**9, 8)):
        assert f"spark.sql.shuffle.partitions={partitions}" in command(rows=rows).split()


def test_local_runs_the_program_itself() -> None:
    assert command() == (
        "/py /code/main.py --spec /run/spec.json --master local[*]"
        " --conf spark.driver.memory=3g --conf spark.sql.shuffle.partitions=8"
    )
    assert command(master="local[2]", conf=("spark.driver.memory=1g", "spark.a=b=c")) == (
        "/py /code/main.py --spec /run/spec.json --master local[2]"
        " --conf spark.driver.memory=1g --conf spark.sql.shuffle.partitions=8 --conf spark.a=b=c"
    )
    launch = launch_of(SparkChoice(backend=Backend.LOCAL, properties_file="/a b/f"), TOOLS, FILES)
    assert launch.environment["PYSPARK_SUBMIT_ARGS"] == "--properties-file '/a b/f' pyspark-shell"
    assert "memory" not in str(launch.command)  # the file may say it
    assert launch_line(launch).startswith("SPARK_HOME=/spark JAVA_HOME=/java PYSPARK_PYTHON=/py ")


def test_spark_submit_ships_the_code() -> None:
    assert command(backend=Backend.SPARK_SUBMIT, master="spark://h:7077", properties_file="/f") == (
        "/spark/bin/spark-submit --master spark://h:7077 --name kafkakit-r --py-files /run/code.zip"
        " --properties-file /f --conf spark.log.level=WARN"
        " --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
        " --conf spark.python.sql.dataFrameDebugging.enabled=false"
        " /code/main.py --spec /run/spec.json"
    )
    local = command(backend=Backend.SPARK_SUBMIT, master="local[2]")
    assert "--conf spark.driver.memory=3g --conf spark.sql.shuffle.partitions=8 " in local


def test_connect_sends_the_code() -> None:
    assert command(backend=Backend.CONNECT, remote="sc://h:1", conf=("spark.sql.a=b",)) == (
        "/py /code/main.py --spec /run/spec.json --remote sc://h:1 --code /run/code.zip --conf spark.sql.a=b"
    )


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"conf": ("spark.hadoop.fs.s3a.secret.key=x",)}, RefusedError, "looks like a secret"),
        ({"conf": ("spark.hadoop.fs.s3a.access.key=x",)}, RefusedError, "looks like a secret"),
        ({"conf": ("spark.ssl.keyStorePassword=x",)}, RefusedError, "looks like a secret"),
        ({"conf": ("spark.authenticate",)}, UsageError, "is not spark.KEY=VALUE"),
        ({"conf": ("fs.a=b",)}, UsageError, "is not spark.KEY=VALUE"),
        ({"conf": ("spark.submit.deployMode=cluster",)}, UsageError, "deployMode=cluster"),
        ({"master": "spark://h:1"}, UsageError, "needs --backend spark-submit"),
        ({"backend": Backend.CONNECT}, UsageError, "--remote and --backend connect"),
        ({"remote": "sc://h"}, UsageError, "--remote and --backend connect"),
        ({"backend": Backend.CONNECT, "remote": "sc://h/;token=x"}, RefusedError, "holds a token"),
        ({"backend": Backend.CONNECT, "remote": "sc://h", "master": "local"}, UsageError, "--master is not for"),
        ({"backend": Backend.CONNECT, "remote": "sc://h", "properties_file": "f"}, UsageError, "--properties-file"),
        ({"backend": Backend.K8S}, UsageError, "--image and --backend k8s"),
        ({"image": "i"}, UsageError, "--image and --backend k8s"),
    ],
)
def test_what_is_refused(given: dict[str, object], kind: type[KafkakitError], said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        command(**given)
    assert "=x" not in str(caught.value)


def test_the_manifest_is_a_spark_application() -> None:
    schema = json.loads((ROOT / "tests/cases/spark-operator/spark-application.schema.json").read_text())
    choice = SparkChoice(backend=Backend.K8S, image="i:1", namespace="audits", conf=("spark.executor.instances=4",))
    choice.check()
    text = spark_application(SPEC, choice, "s3a://b/out/r", "code.zip")
    body = yaml.safe_load(text)
    jsonschema.validate(body, schema)
    assert body["metadata"]["name"] == f"kafkakit-{SPEC.run_id}"
    assert body["spec"]["deps"] == {"pyFiles": ["s3a://b/out/r/code.zip"], "files": ["s3a://b/out/r/spec.json"]}
    assert body["spec"]["sparkConf"]["spark.executor.instances"] == "4"
    assert text == spark_application(SPEC, choice, "s3a://b/out/r", "code.zip")
    long = replace(SPEC, jobs=("Retention_X" * 9,))
    jsonschema.validate(yaml.safe_load(spark_application(long, choice, "s3a://b/out/r", "code.zip")), schema)
    body["spec"]["driver"]["memroy"] = "1g"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, schema)
