"""Losses to test, their dense float64 forms, and the same step on several processes."""
