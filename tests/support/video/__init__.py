"""Videos made on the spot."""
