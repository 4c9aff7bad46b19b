"""All defects that a made fleet can have, by name."""

from collections.abc import Mapping

from kafkakit.fleet.decide import synth_drift, synth_retention
from kafkakit.fleet.decide.synth_defect import Defect

DEFECTS: Mapping[str, Defect] = {d.name: d for group in (synth_drift.DEFECTS, synth_retention.DEFECTS) for d in group}
