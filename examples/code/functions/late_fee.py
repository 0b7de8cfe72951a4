def late_fee(days: int, daily: int = 2, cap: int = 30) -> int:
    """What a book costs that is late: the first three days are free, then each day counts, up to a cap."""
    if days <= 3:
        return 0
    return min(cap, (days - 2) * daily)
