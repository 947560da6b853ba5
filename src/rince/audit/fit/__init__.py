"""Scores for any two columns of features, from small cross-fitted towers."""
