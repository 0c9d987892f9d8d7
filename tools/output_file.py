"""Writes files atomically for the other scripts: only regular files, complete or not at all, and with the mode of the file they replace."""
import contextlib
import errno
import os
import pathlib
import signal
import stat
import sys
import tempfile


@contextlib.contextmanager
def output_file(path):
    """Yields the path of a temporary file in the same folder, which replaces `path` when the block ends. If the block fails, also by SIGINT
    or SIGTERM, `path` does not change. OSError names `path`."""
    path = pathlib.Path(path)
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        older = path.lstat() if os.path.lexists(path) else None
        if older and not stat.S_ISREG(older.st_mode):
            raise OSError(errno.EEXIST, "is not a regular file and is not replaced", str(path))
        mask = os.umask(0o077)
        os.umask(mask)
        descriptor, temporary = tempfile.mkstemp(prefix=".raggedvit-", dir=path.parent)
        try:
            yield temporary
            os.chmod(temporary, stat.S_IMODE(older.st_mode) if older else 0o666 & ~mask)
            os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        signal.signal(signal.SIGTERM, before)
