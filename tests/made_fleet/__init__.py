"""Made fleets for audits: snapshots of clusters, and log dirs, in which it is known what is wrong."""
