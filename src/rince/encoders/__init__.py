"""Networks, from raw input to features."""
