"""Experiments on images."""
