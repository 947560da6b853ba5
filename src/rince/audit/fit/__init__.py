"""Scores for any two columns of features: small towers, fitted to the other pairs."""
