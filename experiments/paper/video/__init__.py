"""Experiments on videos and their sounds."""
