"""The check of work under a lease before it deletes; `lease` has the one that asks the storage."""


class Fence:
    """A check that always passes: there is no lease."""

    @property
    def number(self) -> int:
        """Returns the fencing number; 0 without a lease."""
        return 0

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that the lease is still held (S8).

        Raises:
            LeaseLostError: when another run holds it, or it was ended.
        """

    @property
    def is_fresh(self) -> bool:
        """Returns whether an answer of the last `TRUSTED` seconds confirms the lease."""
        return True

    def check(self) -> None:
        """Makes sure that the lease is held; queries the storage unless the last answer is fresh.

        Raises:
            LeaseLostError, StorageError: as `must_hold` does.
        """
        if not self.is_fresh:
            self.must_hold()
