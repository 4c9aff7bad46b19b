"""The published schema of drain certificates accepts what is written, and names every field."""

import json
from importlib import resources

import msgspec
from jsonschema import Draft202012Validator

from kafkakit.streams.failover.act.closing import newest_certificate
from kafkakit.streams.failover.decide.history import DrainCertificate
from tests.rigs.failover import FailoverScene


def test_the_schema_accepts_what_is_written_and_names_every_field() -> None:
    name = "stream-drain-certificate.schema.json"
    schema = json.loads(resources.files("kafkakit").joinpath("core", "schemas", name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    scene = FailoverScene()
    scene.write("orders.live.1", 3)
    scene.commit("billing", scene.route.lanes[0].segments[0], 0, 3)
    scene.run()
    _, data = newest_certificate(scene.parts().journals)
    Draft202012Validator(schema).validate(json.loads(data))
    for shape, found in msgspec.json.schema(DrainCertificate)["$defs"].items():
        written = schema if shape == DrainCertificate.__name__ else schema["$defs"][shape]
        assert set(written.get("properties", {})) - {"kafkakit"} == set(found.get("properties", {})), shape
        assert set(written.get("required", [])) - {"kafkakit"} == set(found.get("required", [])), shape
        assert sorted(written.get("enum", [])) == sorted(found.get("enum", [])), shape
