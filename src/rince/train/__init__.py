"""From a configuration to a finished run: `rince train`."""
