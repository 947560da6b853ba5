"""From scores to how many pairs are wrong, between which bounds, and which."""
