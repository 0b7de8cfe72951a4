def is_open(hour: int, day: str) -> bool:
    """Whether the library is open: from 9 to 18, and on Saturdays to 13."""
    if day == "Sunday":
        return False
    closes = 13 if day == "Saturday" else 18
    return 9 < hour < closes
