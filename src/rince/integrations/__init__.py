"""rince inside other people's training code, one module per peer.

Nothing here imports a peer before its module is asked for: ``from rince.integrations.lightly import NTXentLoss``.
"""
