"""`ostinato`: the verbs, and the one place where an error becomes a message and an exit code.

Exit codes: 0 done, 1 done but not all is well (a run failed, a loss was not reproduced, a registration was edited), 2 something the user
can mend, 130 interrupted; `judge` has 10, 20 and 30 of its own.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import NoReturn

import typer

from ostinato import __version__
from ostinato.cli import calibrate, check, draw, export, fit, generate, judge, keys, list_, measure, new, plan, query, register, report, run
from ostinato.errors import OstinatoError, StoreError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

app = typer.Typer(
    name="ostinato",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Is a second pass through a layer worth what it costs? Write a study, see what every arm costs, train all arms and seeds "
        "on the same tokens, and read the result.\n\n"
        "Start with [bold]ostinato run quickstart[/], then [bold]ostinato new my-study.yaml[/], "
        "[bold]ostinato plan my-study.yaml[/] and [bold]ostinato run my-study.yaml[/]."
    ),
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ostinato {__version__}")
        raise typer.Exit


@app.callback()
def _root(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version.")) -> None:
    pass


for verb in (new, keys, plan, register, run, judge, report, fit, draw, check, query, generate, measure, export, list_, calibrate):
    verb.register(app)


def main() -> None:
    """Run the command line; errors that a person can mend are printed without a traceback."""
    gc.set_threshold(200_000)  # most verbs end sooner: a tenth of their time went into looking for garbage among imports
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # starting numpy's threads, which no verb uses, takes longer than the rest of it
    try:
        app()
    except OstinatoError as error:
        _refuse(error)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.filename is None and error.errno not in _NO_ROOM:  # no file of the user's: a mistake of this program
            raise
        _refuse(_of_the_machine(error))


def _of_the_machine(error: OSError) -> StoreError:
    """A folder that may not be written, a full disk: what every write of every verb may meet."""
    what = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error.strerror)
    return StoreError(what, "the store and the cache are folders that can be written, with room in them; a file that is named can be read",
                      "correct the path or its permissions, make room, or name another folder: --store, OSTINATO_STORE, OSTINATO_CACHE. "
                      "What was saved stays, and the same command goes on from it")  # fmt: skip


def _refuse(error: OstinatoError) -> NoReturn:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("[bold red]error[/] ", end="")
    console.print(str(error), markup=False)
    sys.exit(2)


if __name__ == "__main__":
    main()
