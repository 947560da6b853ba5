"""Contrastive methods as Lightning modules."""
