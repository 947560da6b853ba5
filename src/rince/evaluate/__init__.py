"""From a frozen encoder to a number."""
