"""What the machine refuses is a message and exit code 2, as what a person mistypes is."""

from __future__ import annotations

import errno

import pytest

from ostinato.cli import main as command


@pytest.mark.parametrize("error", [
    PermissionError(errno.EACCES, "Permission denied", "/there/store.json"),
    FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/there"),
    OSError(errno.EROFS, "Read-only file system", "/there"),
    OSError(errno.ENOSPC, "No space left on device"),  # a write to an open file names none
])  # fmt: skip
def test_a_refusal_of_the_machine_is_a_message(error, monkeypatch, capsys):
    monkeypatch.setattr(command, "app", lambda: (_ for _ in ()).throw(error))
    with pytest.raises(SystemExit) as ended:
        command.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2 and error.strerror in told and "rule:" in told and "try:" in told
    assert error.filename is None or error.filename in told


def test_an_error_that_names_no_file_of_the_user_is_not_hidden(monkeypatch):
    monkeypatch.setattr(command, "app", lambda: (_ for _ in ()).throw(OSError("unexpected")))
    with pytest.raises(OSError, match="unexpected"):
        command.main()
