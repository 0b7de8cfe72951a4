"""`python -m tercet` is the command `tercet`."""

from tercet.cli.main import run

if __name__ == "__main__":
    run()
