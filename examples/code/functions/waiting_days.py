def waiting_days(people: int, copies: int, loan: int = 14) -> int:
    """How long a reader waits for a book behind so many people; for one of which no copy is left, a year."""
    if copies < 0:
        return 365
    return people * loan // copies
