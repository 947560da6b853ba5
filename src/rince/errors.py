"""The errors that rince raises for what its user got wrong."""


class UsageError(ValueError):
    """A wrong value, file or combination of options: one sentence with the value, the bound and the way out.

    The command line prints it as one line. Any other exception is taken for a bug and keeps its traceback.

    Example:
        >>> raise UsageError("q must lie in [0, 1], got 1.5")
        Traceback (most recent call last):
        ...
        rince.errors.UsageError: q must lie in [0, 1], got 1.5
    """


class FileError(UsageError, OSError):
    """A file that cannot be read, written or fetched."""


class MissingFile(FileError, FileNotFoundError):
    """A file or folder that should be there and is not."""


class ExistingFile(FileError, FileExistsError):
    """A file or folder of the user's that would be written over."""


class NotAFolder(FileError, NotADirectoryError):
    """A file where a folder should be."""


class WrongType(UsageError, TypeError):
    """A value of a kind that is not taken."""


class MissingExtra(UsageError, ImportError):
    """An optional dependency that is not installed; the sentence says which extra of rince brings it."""
