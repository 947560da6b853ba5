"""Losses and encoders for other libraries, one module per library.

A library is imported with its module only: ``from rince.integrations.lightly import NTXentLoss``.
"""
