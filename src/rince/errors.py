"""The errors that rince raises for what its user got wrong."""


class UsageError(ValueError):
    """A wrong value, file or combination of options: one sentence with the value, the bound and the way out.

    The command line prints it as one line. Any other exception is taken for a bug and keeps its traceback.

    Example:
        >>> rince.RINCE(q=1.5)
        Traceback (most recent call last):
        ...
        rince.errors.UsageError: q must lie in [0, 1], got 1.5
    """


class FileError(UsageError, OSError):
    """A file that cannot be read, written or fetched.

    Example:
        >>> issubclass(rince.errors.FileError, OSError), issubclass(rince.errors.FileError, rince.errors.UsageError)
        (True, True)
    """


class MissingFile(FileError, FileNotFoundError):
    """A file or folder that should be there and is not.

    Example:
        >>> rince.load_encoder("runs/none")
        Traceback (most recent call last):
        ...
        rince.errors.MissingFile: there is no encoder at runs/none: train one, or make it with rince export RUN
    """


class ExistingFile(FileError, FileExistsError):
    """A file or folder of the user's that would be written over.

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
    """A value of a kind that is not taken.

    Example:
        >>> issubclass(rince.errors.WrongType, TypeError)
        True
    """


class MissingExtra(UsageError, ImportError):
    """An optional dependency that is not installed; the sentence says which extra of rince brings it.

    Example:
        >>> issubclass(rince.errors.MissingExtra, ImportError)
        True
    """
