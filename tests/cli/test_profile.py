"""`kafkakit profile`: stdout, stderr and exit code of each command."""

import os
import stat
from base64 import b64encode
from pathlib import Path

import pytest
import yaml

from tests.rigs.command_line import Home
from tests.rigs.kubernetes import printed, stateful, thing

PASSWORD = "hunter2-of-production"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write_config("profiles:\n  prod: {bootstrap_server: 'p:1'}\n")
    home.write_config("bootstrap_server: s:1\n", "profiles.d/staging.yaml")
    return home


def test_list_marks_the_one_in_use(home: Home) -> None:
    assert home.run("profile", "use", "staging").code == 0
    ran = home.run("profile", "list")
    assert (ran.code, ran.stderr) == (0, "")
    assert [line.split()[:3] for line in ran.stdout.splitlines()] == [
        ["CURRENT", "NAME", "BOOTSTRAP-SERVER"],
        ["-", "prod", "p:1"],
        ["*", "staging", "s:1"],
    ]
    assert [(p["name"], p["current"]) for p in home.run("profile", "list", "-o", "json").json["profiles"]] == [
        ("prod", False),
        ("staging", True),
    ]


def test_list_survives_one_bad_file(home: Home) -> None:
    home.write_config("[", "profiles.d/broken.yaml")
    ran = home.run("profile", "list", "-o", "tsv")
    assert ran.code == 0
    assert [line.split("\t")[1] for line in ran.stdout.splitlines()] == ["broken", "prod", "staging"]
    assert "broken.yaml:1:2: not valid YAML" in ran.stderr
    assert home.run("profile", "show", "prod").code == 0


def test_list_without_profiles_says_so(tmp_path: Path) -> None:
    ran = Home(tmp_path).run("profile", "list")
    assert (ran.code, ran.stdout.count("\n")) == (0, 1)
    assert "kafkakit profile add" in ran.stdout
    assert "kafkakit sandbox up" in ran.stdout
    assert Home(tmp_path).run("profile", "list", "-o", "tsv").stdout == ""


def test_show_in_text_names_values_and_origins(home: Home) -> None:
    ran = home.run("profile", "show", "prod")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("profile: prod (from argument)\n")
    assert f"p:1        user {home.config}/config.yaml:2\n" in ran.stdout


def test_show_without_a_profile_gives_the_defaults(home: Home) -> None:
    ran = home.run("profile", "show", "-o", "json")
    assert ran.json["profile"] is None
    assert ran.json["values"]["security.protocol"] == {"value": "PLAINTEXT", "origin": "default"}


def test_an_unknown_name_is_refused_with_the_nearest(home: Home) -> None:
    for words in (("use", "stagign"), ("show", "stagign"), ("check", "stagign")):
        ran = home.run("profile", *words)
        assert (ran.code, ran.stdout) == (2, "")
        assert ran.stderr.startswith("error: there is no profile 'stagign'; did you mean staging?\n")


def test_a_noted_profile_that_is_gone_is_told(home: Home) -> None:
    home.run("profile", "use", "staging")
    (home.config / "profiles.d" / "staging.yaml").unlink()
    ran = home.run("profile", "show")
    assert ran.code == 2
    assert "there is no profile 'staging'" in ran.stderr
    assert home.run("profile", "list").code == 0
    assert home.run("profile", "use", "prod").code == 0


@pytest.mark.parametrize("name", ["../evil", "", "a/b", "x" * 300])
def test_a_name_that_is_no_name_is_refused(home: Home, name: str) -> None:
    ran = home.run("profile", "use", name)
    assert (ran.code, ran.stdout) == (2, "")


def test_check_tells_that_nothing_answers(home: Home) -> None:
    ran = home.run("profile", "check", "prod", "-X", "bootstrap_server=127.0.0.1:1", "-X", "request_timeout=100ms")
    assert (ran.code, ran.stdout) == (75, "")
    assert ran.stderr.startswith("error: ")
    assert "127.0.0.1:1" in ran.stderr


def written(home: Home, name: str = "config.yaml") -> str:
    return (home.config / name).read_text(encoding="utf-8")


def test_a_profile_is_added_behind_the_others(home: Home) -> None:
    (home.config / "config.yaml").chmod(0o640)
    umask = os.umask(0o077)
    try:
        ran = home.run(
            *("profile", "add", "eu", "-B", "a:1,b:2", "-X", "security.protocol=SSL", "-X", "ssl.ca.location=ca.pem")
        )
    finally:
        os.umask(umask)
    assert (ran.code, ran.stderr) == (0, "")
    assert written(home) == (
        "profiles:\n  prod: {bootstrap_server: 'p:1'}\n"
        '  eu:\n    bootstrap_server: "a:1,b:2"\n    security:\n      protocol: SSL\n'
        f"      tls:\n        ca_file: {home.work}/ca.pem\n"
    )
    assert stat.S_IMODE((home.config / "config.yaml").stat().st_mode) == 0o640
    assert ran.stdout.splitlines()[-1] == "kafkakit --profile eu doctor"
    values = home.run("profile", "show", "eu", "-o", "json").json["values"]
    assert values["bootstrap_server"]["value"] == "a:1,b:2"
    assert home.run("profile", "show", "prod").code == 0


def test_the_first_profile_makes_a_private_file(tmp_path: Path) -> None:
    home = Home(tmp_path)
    ran = home.run("profile", "add", "dev", "-B", "a:1", "--default", "-o", "json")
    assert (ran.code, ran.stderr) == (0, "")
    path = home.config / "config.yaml"
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    told = {key: value for key, value in ran.json.items() if key != "kafkakit"}
    assert told == {
        "profile": "dev",
        "file": str(path),
        "replaced": False,
        "default": True,
        "dry_run": False,
        "values": {"bootstrap_server": "a:1"},
    }
    assert home.run("profile", "show", "-o", "json").json["profile"] == "dev"
    assert [item.name for item in path.parent.iterdir()] == ["config.yaml"]


def test_the_environment_is_no_part_of_a_new_profile(home: Home) -> None:
    env = {
        "KAFKAKIT_SASL_PASSWORD": PASSWORD,
        "KAFKAKIT_CLUSTER_ID": "c",
        "KAFKAKIT_BOOTSTRAP_SERVERS": "e:1",
        "KAFKAKIT_PROFILE": "prod",
    }
    ran = home.run("profile", "add", "eu", "-X", "bootstrap_server=a:1", env=env)
    assert ran.code == 0
    assert yaml.safe_load(written(home))["profiles"]["eu"] == {"bootstrap_server": "a:1"}
    assert home.run("profile", "add", "us", env=env).code == 2


def test_a_default_that_something_overrides_is_told(home: Home) -> None:
    env = {"KAFKAKIT_BOOTSTRAP_SERVERS": "e:1"}
    ran = home.run("profile", "add", "eu", "-B", "a:1", "--default", env=env)
    assert ran.code == 0
    assert "profile eu is not used by default: an address from the environment overrides it" in ran.stderr


def test_a_profile_of_another_file_is_no_default(home: Home) -> None:
    path = home.folder / "own.yaml"
    words = ("--config", str(path), "profile", "add", "eu", "-B", "a:1")
    for more in ((), ("--dry-run",)):
        ran = home.run(*words, "--default", *more)
        assert (ran.code, ran.stdout, path.exists(), (home.state / "current-profile").exists()) == (2, "", False, False)
        assert f"set profile: eu in {path}" in ran.stderr
    assert home.run(*words).code == 0
    ran = home.run("--config", str(path), "profile", "use", "eu")
    assert (ran.code, f"will not be found without --config {path}" in ran.stderr) == (0, True)
    assert home.run("profile", "use", "prod").stderr == ""


def test_a_profile_is_added_to_the_file_of_config(home: Home) -> None:
    path = home.write_config("profile: prod\nprofiles: {prod: {bootstrap_server: 'p:1'}}\n", "own.yaml")
    ran = home.run("--config", str(path), "profile", "add", "eu", "-B", "a:1")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == f"kafkakit --config {path} --profile eu doctor"
    assert "eu" in yaml.safe_load(path.read_text())["profiles"]
    assert "eu" not in yaml.safe_load(written(home))["profiles"]


def test_a_config_file_that_is_missing_is_made(home: Home) -> None:
    path = home.folder / "new" / "own.yaml"
    assert home.run("--config", str(path), "profile", "add", "eu", "-B", "a:1").code == 0
    assert home.run("--config", str(path), "profile", "list", "-o", "tsv").stdout.split("\t")[1] == "eu"


def test_a_dry_run_writes_nothing(home: Home) -> None:
    before = written(home)
    ran = home.run("profile", "add", "eu", "-B", "a:1", "--default", "--dry-run")
    assert ran.code == 0
    assert f"profile eu would be written to {home.config}/config.yaml\n" in ran.stdout
    assert (written(home), (home.state / "current-profile").exists()) == (before, False)


def test_a_profile_is_replaced_only_on_demand(home: Home) -> None:
    before = written(home)
    ran = home.run("profile", "add", "prod", "-B", "a:1")
    assert (ran.code, ran.stdout, written(home)) == (2, "", before)
    assert "--replace" in ran.stderr
    ran = home.run("profile", "add", "prod", "-B", "a:1", "--replace", "-o", "json")
    assert (ran.code, ran.json["replaced"]) == (0, True)
    assert yaml.safe_load(written(home)) == {"profiles": {"prod": {"bootstrap_server": "a:1"}}}


def test_a_profile_of_another_file_stays_where_it_is(home: Home) -> None:
    ran = home.run("profile", "add", "staging", "-B", "a:1", "--replace")
    assert ran.code == 2
    assert f"profile staging is defined in {home.config}/profiles.d/staging.yaml" in ran.stderr
    path = home.write_config("", "own.yaml")
    assert home.run("--config", str(path), "profile", "add", "staging", "-B", "a:1").code == 2
    assert home.run("--config", str(path), "profile", "add", "staging", "-B", "a:1", "--replace").code == 0


def test_a_file_behind_a_link_is_written_where_it_lies(home: Home) -> None:
    real = home.folder / "dotfiles.yaml"
    (home.config / "config.yaml").rename(real)
    (home.config / "config.yaml").symlink_to(real)
    assert home.run("profile", "add", "eu", "-B", "a:1").code == 0
    assert (home.config / "config.yaml").is_symlink()
    assert "eu:" in real.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("eu",), "names no address"),
        (("eu", "-B", "a"), "'a' is not an address"),
        (("../eu", "-B", "a:1"), "cannot name a profile"),
        (("eu", "-B", "a:1", "-X", "sasl.password=x"), "would show a secret"),
        (("eu", "-B", "a:1", "-X", "security.protocol=SASL_SSL"), "needs sasl.mechanism"),
        (("eu", "-B", "a:1", "-X", "security.protocol=sasl"), "must be one of PLAINTEXT"),
        (("eu", "-B", "a:1", "-X", "no.key=x"), "is not a known key"),
        (
            ("eu", "-B", "a:1", "-X", "security.sasl.password_env=A", "-X", "security.sasl.password_file=b"),
            "both security.sasl.password_env and security.sasl.password_file",
        ),
    ],
)
def test_a_profile_that_could_not_be_used_is_not_added(home: Home, words: tuple[str, ...], told: str) -> None:
    before = written(home)
    ran = home.run("profile", "add", *words)
    assert (ran.code, ran.stdout, written(home)) == (2, "", before)
    assert told in ran.stderr


def test_client_properties_are_the_matter_of_import(home: Home) -> None:
    ran = home.run("--command-config", "c.properties", "profile", "add", "eu", "-B", "a:1")
    assert ran.code == 0
    assert "to make a profile of it: kafkakit profile import FILE\n" in ran.stderr


def place(home: Home, name: str, text: str) -> Path:
    home.work.mkdir(exist_ok=True)
    path = home.work / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


JAVA = f"""\
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=x.PlainLoginModule required username="ops" password="{PASSWORD}";
ssl.truststore.type=PEM
ssl.truststore.location=ca.pem
group.id=g
"""
KAFKACTL = f"""\
contexts:
  a:
    brokers: [a:1]
  b:
    brokers: [b:1]
    sasl: {{enabled: true, username: ops, password: {PASSWORD}}}
"""


def test_client_properties_become_a_profile_without_the_password(home: Home) -> None:
    place(home, "client.properties", JAVA)
    place(home, "ca.pem", "")
    ran = home.run("profile", "import", "client.properties", "--name", "eu", "-B", "a:1")
    assert (ran.code, ran.stderr) == (0, "")
    assert yaml.safe_load(written(home))["profiles"]["eu"] == {
        "bootstrap_server": "a:1",
        "security": {
            "protocol": "SASL_SSL",
            "tls": {"ca_file": f"{home.work}/ca.pem"},
            "sasl": {"mechanism": "PLAIN", "username": "ops", "password_env": "KAFKA_PASSWORD_EU"},
        },
    }
    assert "read -rs KAFKA_PASSWORD_EU && export KAFKA_PASSWORD_EU" in ran.stdout.splitlines()
    assert "not taken over: client.properties:6: group.id" in ran.stdout.splitlines()
    assert ran.stdout.splitlines()[-1] == "kafkakit --profile eu doctor"
    for file in home.folder.rglob("*"):
        assert file.name == "client.properties" or not file.is_file() or PASSWORD not in file.read_text()
    assert PASSWORD not in ran.stdout + ran.stderr


def test_a_password_that_is_named_otherwise_is_not_asked_for(home: Home) -> None:
    place(home, "client.properties", JAVA)
    words = ("client.properties", "-B", "a:1", "-X", "security.sasl.password_file=/run/pw", "-o", "json")
    ran = home.run("profile", "import", *words)
    assert (ran.code, ran.json["profiles"][0]["profile"], ran.json["profiles"][0]["secrets"]) == (0, "client", [])
    assert "password_file: /run/pw" in written(home)


def test_each_context_becomes_a_profile(home: Home) -> None:
    place(home, "config.yml", KAFKACTL)
    ran = home.run("profile", "import", "config.yml", "-o", "json")
    assert ran.code == 0
    assert [(one["profile"], one["replaced"]) for one in ran.json["profiles"]] == [("a", False), ("b", False)]
    assert [one["place"] for one in ran.json["profiles"][1]["secrets"]] == ["config.yml:6"]
    assert list(yaml.safe_load(written(home))["profiles"]) == ["prod", "a", "b"]
    assert home.run("profile", "import", "config.yml").code == 2
    assert home.run("profile", "import", "config.yml", "--replace").code == 0


def test_profiles_of_several_imports_share_no_variable(home: Home) -> None:
    place(home, "client.properties", JAVA)
    for name, variable in (("eu-1", "EU_1"), ("eu.1", "EU_1_2"), ("EU_1", "EU_1_3"), ("eu.1", "EU_1_2")):
        ran = home.run("profile", "import", "client.properties", "--name", name, "-B", "a:1", "--replace")
        assert (ran.code, f"export KAFKA_PASSWORD_{variable}" in ran.stdout.split("&& ")[1].splitlines()) == (0, True)
        sasl = yaml.safe_load(written(home))["profiles"][name]["security"]["sasl"]
        assert sasl["password_env"] == f"KAFKA_PASSWORD_{variable}"
    home.write_config(
        "bootstrap_server: a:1\nsecurity: {sasl: {password_env: KAFKA_PASSWORD_US}}\n", "profiles.d/x.yaml"
    )
    ran = home.run("profile", "import", "client.properties", "--name", "us", "-B", "a:1", "-o", "json")
    assert ran.json["profiles"][0]["secrets"][0]["variable"] == "KAFKA_PASSWORD_US_2"


def test_the_home_of_a_user_who_has_none_is_refused_by_its_key(home: Home) -> None:
    before = written(home)
    wanted = ("security.tls.ca_file", "~nobodyy")
    place(home, "c.properties", "bootstrap.servers=a:1\nssl.ca.location=~nobodyy/ca.pem\n")
    override = ("-B", "a:1", "-X", "security.tls.ca_file=~nobodyy/ca.pem")
    for words in (("add", "eu", *override), ("import", "c.properties")):
        ran = home.run("profile", *words)
        assert (ran.code, ran.stdout, written(home)) == (2, "", before)
        assert all(word in ran.stderr for word in wanted)
    home.write_config("security: {tls: {ca_file: ~nobodyy/ca.pem}}\n", "profiles.d/x.yaml")
    ran = home.run("profile", "show", "x")
    assert (ran.code, ran.stdout) == (2, "")
    assert all(word in ran.stderr for word in wanted)


def test_one_context_of_several_can_be_taken(home: Home) -> None:
    place(home, "config.yml", KAFKACTL)
    assert "choose one with --name: a, b" in home.run("profile", "import", "config.yml", "-B", "c:1").stderr
    assert "has no profile 'c'" in home.run("profile", "import", "config.yml", "--name", "c").stderr
    ran = home.run("profile", "import", "config.yml", "--name", "a", "-B", "c:1", "-o", "tsv")
    assert (ran.code, ran.stdout) == (0, "a\tbootstrap_server\tc:1\n")


def test_a_file_that_others_can_read_is_warned_about(home: Home) -> None:
    place(home, "config.yml", KAFKACTL).chmod(0o644)
    assert "chmod 600 it" in home.run("profile", "import", "config.yml", "--dry-run").stderr
    (home.work / "config.yml").chmod(0o666)
    assert home.run("profile", "import", "config.yml", "--dry-run").code == 2


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("c.toml", "seed_brokers = [\n", "c.toml:2: not valid TOML"),
        ("c.yml", "contexts:\n  a: [\n", "c.yml:3:1: not valid YAML"),
        ("c.properties", "a.b=1\nssl.truststore.location=x.jks\n", "c.properties:2: ssl.truststore.location is a JKS"),
        ("c.conf", "sasl.mechanisms=PLAIN\nx\n", "c.conf:2: is not a line"),
        ("c.txt", "hello\n", "its kind cannot be seen"),
        ("c.properties", "acks=all\nclient.id=x\n", "names no address"),
        ("c.properties", "bootstrap.servers=a:1\nssl.ca.location=x\n", "does not encrypt"),
        ("c.properties", "bootstrap.servers=a:1\nsecurity.protocol=x\n", "(from c.properties:2) must be one of"),
    ],
)
def test_a_file_that_gives_no_profile_is_refused(home: Home, name: str, text: str, told: str) -> None:
    before = written(home)
    place(home, name, text)
    ran = home.run("profile", "import", name)
    assert (ran.code, ran.stdout, written(home)) == (2, "", before)
    assert told in ran.stderr


def test_a_file_may_come_from_stdin(home: Home) -> None:
    ran = home.run("profile", "import", "-", "--name", "eu", stdin='seed_brokers = ["a:1"]\n')
    assert ran.code == 0
    assert "eu:" in written(home)
    assert "--name" in home.run("profile", "import", "-", stdin='seed_brokers = ["a:1"]\n').stderr


def objects(home: Home) -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ops" password="s3cret";'
    data = {"password": "s3cret", "sasl.jaas.config": jaas}
    user = thing("Secret", "ops", data={key: b64encode(text.encode()).decode() for key, text in data.items()})
    ca = thing("Secret", "prod-cluster-ca-cert", data={"ca.crt": b64encode(b"CA").decode()})
    home.work.mkdir(parents=True)
    place = home.work / "objects.json"
    place.touch(0o600)
    place.write_bytes(printed([user, ca]))


def test_secrets_of_kubernetes_become_a_profile_without_their_content(home: Home) -> None:
    objects(home)
    ran = home.run("profile", "import", "objects.json", "--name", "eu", "-B", "k:9093")
    assert ran.code == 0, ran
    assert 'export KAFKA_PASSWORD_EU="$(kubectl get secret ops -n kafka -o ' in ran.stdout
    assert "| base64 -d > " in ran.stdout
    assert "s3cret" not in ran.stdout + (home.config / "config.yaml").read_text()
    assert not (home.config / "keys").exists()
    assert "security.tls.ca_file" in home.run("profile", "show", "eu").stdout


def test_keys_are_written_for_their_owner_only_and_never_over_others(home: Home) -> None:
    objects(home)
    words = ("profile", "import", "objects.json", "--name", "eu", "-B", "k:9093", "--keys-into", "keys")
    assert home.run(*words, "--dry-run").code == 0
    assert not (home.work / "keys").exists()
    ran = home.run(*words)
    assert ran.code == 0, ran
    files = {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in (home.work / "keys").iterdir()}
    assert files == {"password": ("s3cret", 0o600), "ca.crt": ("CA", 0o600)}
    assert (home.work / "keys").stat().st_mode & 0o777 == 0o700
    assert "s3cret" not in ran.stdout + ran.stderr + (home.config / "config.yaml").read_text()
    (home.work / "keys" / "password").write_text("mine")
    again = home.run(*words[:4], "other", *words[5:])
    assert (again.code, "exists already" in again.stderr) == (2, True)
    assert (home.work / "keys" / "password").read_text() == "mine"
    assert "other" not in home.run("profile", "list").stdout
    assert home.run(*words, "--replace").code == 0


def test_pods_are_forwarded_unless_this_is_one(home: Home) -> None:
    service = thing("Service", "kafka-headless", spec={"clusterIP": "None", "ports": [{"name": "c", "port": 9092}]})
    home.work.mkdir(parents=True)
    (home.work / "s.json").write_bytes(printed([stateful("kafka", 1), service]))
    told = home.run("profile", "import", "s.json", "--dry-run").stdout
    assert "kubectl port-forward -n kafka --address 127.0.1.1 pod/kafka-0 9092:9092 &\n" in told
    assert "  127.0.1.1 kafka-0.kafka-headless.kafka.svc.cluster.local\n" in told
    inside = home.run("profile", "import", "s.json", "--dry-run", env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert "port-forward" not in inside.stdout
    (home.work / "c.properties").write_text("bootstrap.servers=a:1\n")
    assert home.run("profile", "import", "c.properties", "--keys-into", "k").code == 2
