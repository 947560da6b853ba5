"""What is made of a finished audit: its table, rates by group, and what a review by hand says about it."""
