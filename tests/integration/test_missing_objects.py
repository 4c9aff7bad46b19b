"""Whatever a command is given that does not exist is exit 2, with its name, before any consent is asked for."""

import json
import shlex
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.command_line import Home

pytestmark = pytest.mark.kafka

# SANDBOX is the cluster's name; the words of other commands are as an operator mistypes them.
LINES = """
topicmappr rebuild --topics nosuch --brokers -2
topicmappr rebalance --topics nosuch --brokers -2
topicmappr rebalance --topics .* --brokers 9999
topicmappr drain --brokers 9999
topicmappr drain --topics nosuch --brokers 9999
topicmappr check --topics nosuch
topicmappr fix-racks --topics nosuch
topicmappr frontier --topics nosuch
topicmappr frontier --brokers 9999
topicmappr leaders --topics nosuch
topicmappr leaders --leader-evac-brokers 9999
topicmappr set-replication 1 --topics nosuch
topicmappr rebalance-dirs --topics nosuch
topicmappr rebalance-dirs --brokers 9999
topicmappr add-brokers --brokers 9999
topicmappr repair --topics nosuch
topic list nosuch
topic describe nosuch
topic alter nosuch --partitions 2
topic delete nosuch
partition list nosuch
partition describe nosuch/0
partition describe t/12345678
group describe nosuch
broker describe 9999
record tail nosuch
status --clusters nosuch
status --fleet nosuch.yaml
ui --clusters nosuch
ui --fleet nosuch.yaml
topicmappr replan nosuch.json
topicmappr explain nosuch.json t/0
topicmappr audit nosuch.json
topicmappr scale --topics nosuch --brokers -1
reassign apply nosuch.json
reassign apply --run 12345678
reassign abort nosuch.json
reassign abort --run 12345678
reassign abort
reassign cleanup --plan nosuch.json
reassign cleanup --run 12345678
reassign close --run 12345678
reassign close
reassign continue --run 12345678
reassign continue
reassign pause --run 12345678
reassign pause
reassign resume --run 12345678
reassign resume
reassign rollback --run 12345678
reassign rollback
reassign simulate nosuch.json
reassign throttle 10MB --run 12345678
reassign throttle 10MB
reassign verify nosuch.json
reassign verify --run 12345678
reassign verify
config abort nosuch
config apply nosuch.json
config diff nosuch a
config history nosuch
config plan retention.ms=3600000 --topics nosuch
config plan retention.ms=3600000 --topic nosuch
config plan log.cleaner.threads=1 --broker 9999
config plan log.cleaner.threads=1 --brokers 9999
config resume nosuch
config rollback nosuch
autothrottle set 10MB --broker 9999
autothrottle remove --broker 9999
autothrottle simulate --plan nosuch.json
broker drain 9999
broker drain 9999 --leaders-only
broker replace 9999 --with 1001
broker replace 1001 --with 9999
broker rejoin 9999
broker cordon 9999
broker uncordon 9999
broker restart-check 9999
broker restart-plan --brokers 9999
broker restart-plan --rack nosuch
broker restart-gate 9999
broker decommission 9999
registry brokers 9999
registry topics nosuch
registry delete nosuch
registry mappings --topic nosuch
registry mappings --broker 9999
registry tag a:b --topics nosuch
registry tag a:b --brokers 9999
registry untag a --topics nosuch
streams assigner drain nosuch
streams assigner explain nosuch g
streams bombs quarantine nosuch --partition 0
streams bombs scan nosuch
streams commits delete nosuch --all
streams commits explain nosuch 5 --topic t --partition 0
streams commits finish nosuch
streams commits limits nosuch
streams commits replay nosuch --topic t --partition 9999 --offsets 1
streams commits reset nosuch --all-topics --to earliest
streams commits reset nosuch --topic nosuch --to earliest
streams commits show nosuch
streams lag check nosuch
streams lag check --topic nosuch
streams lag check --topics nosuch
streams lag once nosuch
streams lag once --group nosuch
streams lag once --topic nosuch
streams lag once --topics nosuch
streams lag share-groups nosuch
streams lag watch nosuch --count 1
streams commits skip nosuch --topic t --partition 9999 --offsets 1
streams commits undo nosuch
streams commits verify nosuch
streams commits watch nosuch --count 1
streams delete nosuch
streams dlq copy nosuch
streams dlq list nosuch
streams dlq purge nosuch --all
streams dlq replay nosuch
streams dlq show nosuch t/0@0
streams evacuate nosuch --to nosuch2
streams failover abort nosuch
streams failover back nosuch
streams failover history nosuch
streams failover plan nosuch --to x
streams failover resume nosuch
streams failover run nosuch --to x
streams failover status nosuch
streams failover retire nosuch
streams failover reclaim nosuch
streams history nosuch
streams lane add nosuch l
streams lane list nosuch
streams lane pause nosuch l
streams lane quota nosuch l 1MB
streams lane remove nosuch l
streams lane resume nosuch l
streams lane rules nosuch
streams link nosuch --topic nosuch
streams move nosuch --to x
streams pathway nosuch
streams reconcile nosuch x
streams records show nosuch/0@0
streams repartition nosuch --lane live --partitions 4
streams resolve nosuch
streams show nosuch
streams topology nosuch
streams verify-drain nosuch
lint nosuch.yaml
audit cancel nosuch
audit diff nosuch nosuch2
audit fetch nosuch --to here
audit fixes nosuch --cluster x
audit list nosuch
audit logs nosuch
audit metrics nosuch
audit report nosuch
audit status nosuch
audit drift --input nosuch --output results
fleet collect --profiles nosuch --to store
sandbox env --name nosuch
sandbox exec --name nosuch -- kafka-topics --list
sandbox kill 9999 --name SANDBOX
sandbox load --name nosuch
sandbox restart 9999 --name SANDBOX
sandbox status --name nosuch
profile check nosuch
profile import nosuch
profile show nosuch
profile use nosuch
registry apply nosuch.yaml
registry import-labels nosuch.csv --map a=b
streams bombs watch nosuch
streams commits diff nosuch nosuch2
streams commits encode nosuch.json
streams commits reject nosuch --topic t --partition 9999 --offsets 1
streams commits translate nosuch --to kkm1 --topic nosuch
streams commits unack nosuch --topic t --partition 9999 --offsets 1
streams failover certify nosuch
streams failover rehearse nosuch --to x
streams lane route --stream nosuch --sample {}
audit all --input nosuch --output results
audit bombs --input nosuch --output results
audit capacity --input nosuch --output results
audit here --jobs nosuch
audit hotspots --input nosuch --output results
audit lag --input nosuch --output results
audit mirror --input nosuch --output results
audit retention --input nosuch --output results
audit segments --input nosuch --output results
fleet segments nosuch --cluster x --to store
""".strip().splitlines()

# What options name, and what is looked for in something that exists: topic t, stream s, group g. Not here: exclusions,
# sets and capacities, which one file may state for many clusters.
WITHIN = """
partition list --broker 9999
ui --plans nosuch
topic create new --partitions 0
audit here --segments nosuch
topicmappr rebalance --topics t --brokers -2 --exclude-receivers 9999
topicmappr rebalance --topics t --brokers -2 --exclude-givers 9999
topicmappr rebalance --topics t --brokers -2 --pin nosuch
topicmappr rebalance --topics t --brokers -2 --broker-set t:9999
topicmappr rebalance --topics t --brokers -2 --sizes-from file --sizes-file nosuch.json
topicmappr rebuild --topics t --brokers -2 --leader-evac-brokers 9999 --leader-evac-topics t
topicmappr rebuild --topics t --brokers -2 --leader-evac-topics nosuch --leader-evac-brokers 1001
topicmappr drain --brokers 1001 --to 9999
topicmappr drain --brokers 1001 --topics t --exclude-receivers 9999
topicmappr leaders --topics t --brokers 9999
topicmappr leaders --topics t --pin nosuch
topicmappr place new --brokers 9999 --partitions 1
topicmappr place new --topics-like nosuch
topicmappr set-replication 1 --topics t --exclude-receivers 9999
topicmappr set-replication 1 --topics t --pin nosuch
topicmappr repair --brokers 9999
topicmappr repair --pin nosuch
topicmappr check --brokers 9999
topicmappr fix-racks --exclude-receivers 9999
topicmappr frontier --exclude-givers 9999
topicmappr rebalance-dirs --pin nosuch
reassign abort --topic nosuch
reassign abort --partition nosuch-0
reassign abort --partition t-9999
reassign cleanup --topic nosuch
reassign cleanup --partition nosuch-0
config plan --findings nosuch.json
autothrottle explain --capacity-file nosuch.yaml
autothrottle once --capacity-file nosuch.yaml --dry-run
autothrottle run --capacity-file nosuch.yaml --dry-run
autothrottle run --token-file nosuch --dry-run
autothrottle simulate --from nosuch.yaml
broker drain 1001 --to 9999
broker drain 1001 --exclude-receivers 9999
broker decommission 1001 --to 9999
registry history --topic nosuch
registry history --broker 9999
registry create new --target-brokers 9999
registry untag a --brokers 9999
registry serve --token-file nosuch --dry-run
metricsfetcher fetch --source prometheus --prometheus-url http://127.0.0.1:1 --prometheus-token-file nosuch --dry-run
streams assigner explain s nosuch
streams bombs quarantine t --partition 9999
streams bombs quarantine t --partition 0 --group nosuch
streams bombs scan t nosuch
streams commits delete g --topic nosuch
streams commits explain g 5 --topic nosuch --partition 0
streams commits explain g 5 --topic t --partition 9999
streams commits show g --topic nosuch
streams commits show g --also nosuch
streams commits limits g nosuch
streams commits verify g nosuch
streams commits reset g --topic nosuch --to earliest
streams commits reset g --from-csv nosuch.csv
streams commits skip g --topic nosuch --partition 0 --offsets 1
streams commits watch g --topic nosuch --count 1
streams lag check g nosuch
streams lag check g --topic nosuch
streams lag check g --limits nosuch.yaml
streams lag check --clusters nosuch
streams lag once --clusters nosuch
streams lag once g nosuch
streams lag watch g --topics nosuch --count 1
streams lag serve --clusters nosuch
streams create new --cluster nosuch
streams create new --cluster SANDBOX --brokers 9999
streams lane add s new --cluster nosuch
streams lane pause s nosuch
streams lane resume s nosuch
streams lane quota s nosuch 1MB
streams lane remove s nosuch
streams lane rules s nosuch.yaml
streams lane route --rules nosuch.yaml --sample x
streams link s --topic nosuch
streams move s --to nosuch
streams repartition s --lane nosuch --partitions 4
streams resolve s --lane nosuch
streams reconcile s nosuch
streams dlq replay s --to nosuch
streams failover plan s --to nosuch
streams failover plan s --to SANDBOX --lane nosuch
streams failover run s --to nosuch
streams failover rehearse s --to nosuch
streams failover reclaim s --operation nosuch
streams failover certify s --operation nosuch --print
streams topology s nosuch
streams evacuate SANDBOX --to nosuch
lint --lint-config nosuch.yaml .
lint --baseline nosuch.json .
fleet collect --fleet nosuch.yaml --to store
topicmappr check --snapshot nosuch.json
""".strip().splitlines()

# These take no name of something that has to exist.
FREE = """
acl list, audit unit, broker list, cluster describe, group list, quota list,
autothrottle show, autothrottle unit, completion, config watch, doctor, metricsfetcher show,
metricsfetcher unit, profile add, profile list, reassign list, reassign status, registry cleanup, registry migrate,
registry translate-offsets, registry unmapped, sandbox demo, sandbox down, sandbox up, snapshot, streams assigner run,
streams assigner show, streams assigner simulate, streams balance, streams commits decode, streams demo, streams list,
version
"""


@dataclass(frozen=True)
class Harness:
    home: Home
    cluster: SandboxCluster


@pytest.fixture(scope="module")
def desk(lease: LeaseClusters, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    (cluster,) = lease(SINGLE)
    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic("t", {0: cluster.broker_ids}, {}) is None
    desk = Harness(Home(tmp_path_factory.mktemp("home")), cluster)
    for words in (
        ("streams", "create", "s", "--cluster", cluster.name, "--lanes", "live,dlq", "--yes"),
        ("streams", "commits", "reset", "g", "--topic", "t", "--to", "earliest", "--yes"),
    ):
        ran = desk.home.run("--profile", cluster.name, *words, env=cluster.env)
        assert ran.code == 0, ran.stderr
    return desk


@pytest.mark.parametrize("line", [*LINES, *WITHIN])
def test_what_does_not_exist_is_exit_2(desk: Harness, line: str) -> None:
    words = shlex.split(line.replace("SANDBOX", desk.cluster.name))
    ran = desk.home.run("--profile", desk.cluster.name, *words, env=desk.cluster.env)
    assert ran.code == 2, (ran.stdout, ran.stderr)
    assert ran.stderr.startswith("error: ") or "\nerror: " in ran.stderr
    assert "no input is possible" not in ran.stderr
    names = [name for name in ("nosuch", "9999", "12345678") if name in line]
    assert not names or any(name in ran.stderr for name in names), ran.stderr


def test_every_command_is_in_a_list(desk: Harness) -> None:
    commands = [one["words"] for one in json.loads(desk.home.run("--help-json").stdout)["commands"]]
    free = {" ".join(each.split()) for each in FREE.split(",")}
    tried = {word for word in commands if any(f"{line} ".startswith(f"{word} ") for line in (*LINES, *WITHIN))}
    assert sorted({*tried, *free}) == sorted(commands)
    assert tried & free == set()
