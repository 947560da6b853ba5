"""The subcommands of ``rince``, one file each: parse, call, print. Nothing else imports them."""
