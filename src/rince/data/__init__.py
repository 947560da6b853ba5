"""Data sets, one file each; nothing is downloaded unless it was asked for."""
