"""Writes the letter that reminds a customer of an invoice."""

from __future__ import annotations

import argparse


def main() -> None:
    """Print the letter."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--customer", required=True)
    parser.add_argument("--cents", required=True, type=int)
    parser.add_argument("--due", required=True)
    given = parser.parse_args()
    amount = f"{given.cents // 100}.{given.cents % 100:02}"
    print(f"Dear {given.customer}, your invoice over {amount} was due on {given.due}. Lantern Books")  # noqa: T201 - it is a program


if __name__ == "__main__":
    main()
