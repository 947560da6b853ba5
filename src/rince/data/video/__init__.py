"""Clips and sounds out of video files."""
