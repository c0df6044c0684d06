"""`python -m ostinato` is `ostinato`."""

from ostinato.cli.main import main

main()
