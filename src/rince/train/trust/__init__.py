"""Training with a trust in each pair: what a run does about it, and how it is found on the way."""
