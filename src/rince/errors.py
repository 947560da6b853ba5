"""Errors for invalid user input."""


class UsageError(ValueError):
    """A wrong value, file or combination of options: one sentence with the value, the allowed range and the solution.

    The command line prints it as one line. Any other exception is treated as a bug and keeps its traceback.

    Example:
        >>> rince.RINCE(q=1.5)
        Traceback (most recent call last):
        ...
        rince.errors.UsageError: q must be in [0, 1], got 1.5
    """


class FileError(UsageError, OSError):
    """A file that cannot be read, written or downloaded.

    Example:
        >>> issubclass(rince.errors.FileError, OSError), issubclass(rince.errors.FileError, rince.errors.UsageError)
        (True, True)
    """


class MissingFile(FileError, FileNotFoundError):
    """A file or folder that is missing.

    Example:
        >>> rince.load_encoder("runs/none")
        Traceback (most recent call last):
        ...
        rince.errors.MissingFile: there is no encoder at runs/none: train one, or make it with rince export RUN
    """


class ExistingFile(FileError, FileExistsError):
    """An existing file or folder that would be overwritten.

    Example:
        >>> issubclass(rince.errors.ExistingFile, FileExistsError)
        True
    """


class NotAFolder(FileError, NotADirectoryError):
    """A file where a folder should be.

    Example:
        >>> issubclass(rince.errors.NotAFolder, NotADirectoryError)
        True
    """


class WrongType(UsageError, TypeError):
    """A value of a type that is not accepted.

    Example:
        >>> issubclass(rince.errors.WrongType, TypeError)
        True
    """


class MissingExtra(UsageError, ImportError):
    """An optional dependency that is not installed; the message names the extra of rince that installs it.

    Example:
        >>> issubclass(rince.errors.MissingExtra, ImportError)
        True
    """
