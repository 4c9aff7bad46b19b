"""What other tools use of `streams pathway`: samples of topics, and the edges that they prove."""

from kafkakit.streams.pathways.decide import SampleRequest
from kafkakit.streams.pathways.edges import SeenEdge, SeenEdges, SeenStream, seen_edges
