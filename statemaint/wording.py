"""Numbers with their nouns, as every interface of this package writes them. Pure."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number and its noun, such as `1 store` and `1,280 stores`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
