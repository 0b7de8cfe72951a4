def initials(name: str) -> str:
    """The first letter of each part of a name, with a stop behind each."""
    return name[0] + "."
