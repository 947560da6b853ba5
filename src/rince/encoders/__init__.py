"""Networks from inputs to features, as plain modules."""
