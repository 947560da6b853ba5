"""What Lightning calls in the course of a run."""
