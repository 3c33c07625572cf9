"""Numbers with their nouns, and commands, as every interface of this package writes them. Pure."""

import shlex


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number and its noun, such as `1 store` and `1,280 stores`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def command(*words: str) -> str:
    """Returns a command of this program that a shell reads as these words, such as an address."""
    return shlex.join(("statemaint", *words))
