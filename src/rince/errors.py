"""The error that rince raises for what its user got wrong."""


class UsageError(ValueError):
    """A wrong value, file or combination of options: one sentence with the value, the bound and the way out.

    The command line prints it as one line. Any other exception is taken for a bug and keeps its traceback.

    Example:
        >>> raise UsageError("q must lie in [0, 1], got 1.5")
        Traceback (most recent call last):
        ...
        rince.errors.UsageError: q must lie in [0, 1], got 1.5
    """
