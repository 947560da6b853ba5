"""The subcommands of ``rince``, one module each: parse, call, print."""
