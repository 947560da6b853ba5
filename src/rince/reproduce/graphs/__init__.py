"""Experiments on graphs."""
