"""Experiments behind the claims of the documentation."""
