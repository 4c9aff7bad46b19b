#!/usr/bin/env bash
# One real cluster under load is audited, then a fleet of it and made clusters with known defects, and shown on a page.
# Small stores are audited without a JVM; one audit is done again in Spark, and both results are compared.
# Everything lies in FOLDER (default: demo-fleet), which is made anew; the cluster is taken down at the end.
set -euo pipefail

FOLDER="${1:-demo-fleet}"
TIER="${TIER:-S}"
NAME="demo-fleet-$$"
ROOT="$(cd "$(dirname "$0")/.." && pwd)"

say() { printf '\n$ %s\n' "$*" >&2; "$@"; }

if [ -e "$FOLDER" ] && [ ! -e "$FOLDER/.demo-fleet" ]; then
  echo "error: $FOLDER exists and was not made by this demo" >&2
  exit 2
fi
rm -rf "$FOLDER"
mkdir -p "$FOLDER"
touch "$FOLDER/.demo-fleet"
trap 'kill "${load:-0}" 2>/dev/null || true; kafkakit sandbox down --name "$NAME" >/dev/null 2>&1 || true' EXIT

say kafkakit sandbox up --brokers 3 --racks 3 --name "$NAME"
say kafkakit sandbox load --topics 4 --data 60MB --name "$NAME"
kafkakit sandbox load --topics 4 --data 400MB --prefix more --name "$NAME" >/dev/null 2>&1 &
load=$!
say kafkakit --profile "$NAME" audit here --keep "$FOLDER/here" --fail-on never
say kafkakit fleet collect --profiles "$NAME" --to "$FOLDER/store"
for broker in 1001 1002 1003; do
  dirs=$(kafkakit sandbox status --name "$NAME" -o json | python3 -c "
import json, sys
for node in json.load(sys.stdin)['nodes']:
    if node['node'] == $broker:
        print(*node['log_dirs'])")
  # shellcheck disable=SC2086
  say kafkakit fleet segments $dirs --cluster "$NAME" --to "$FOLDER/store"
done
PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}" say python3 -m tests.made_fleet --tier "$TIER" --seed 7 "$FOLDER/store"
say kafkakit audit all --input "$FOLDER/store" --output "$FOLDER/results" --fail-on never
for run in "$FOLDER"/results/all-*; do
  say kafkakit audit report "$run" --html "$FOLDER/fleet.html"
done
say kafkakit audit segments --input "$FOLDER/store" --output "$FOLDER/sail" --backend sail --fail-on never
say kafkakit audit segments --input "$FOLDER/store" --output "$FOLDER/spark" --backend local --fail-on never
say kafkakit audit diff "$FOLDER"/sail/segments-* "$FOLDER"/spark/segments-* --fail-on note
echo "the page: $FOLDER/fleet.html; what was made wrong on purpose: $FOLDER/store/truth.json" >&2
