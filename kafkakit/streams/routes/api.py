"""What other tools use of `streams routes`: the shape of a lane's topic, and where its replicas may go."""

from kafkakit.streams.routes.decide.new_topics import LaneShape, PlacementScope
