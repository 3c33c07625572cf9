"""What every storage must do; subclass it, give it a `storage` fixture, and run it whole."""

import threading
from collections.abc import Iterable, Iterator
from io import SEEK_END

import pytest

from statemaint.errors import AlreadyExistsError, NotFoundError, Superseded
from statemaint.storage import Storage


class StorageContract:
    """The published contract. Each test starts from an empty root.

    Attributes:
        tick: the step in seconds that the storage's clock and its files' times count in, doubled.
    """

    tick = 0.1  # clocks of files tick in steps of some milliseconds

    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError

    def paths(self, storage: Storage, prefix: str = "") -> list[str]:
        return sorted(entry.path for entry in storage.list(prefix))

    def fill(self, storage: Storage, paths: Iterable[str]) -> None:
        """Makes empty files, as quickly as the server takes them."""
        for path in paths:
            storage.write(path, [b""])

    def test_reads_back_what_was_written(self, storage: Storage) -> None:
        entry = storage.write("state/0/0/1.delta", [b"ab", b"", b"c"])
        assert storage.read("state/0/0/1.delta") == b"abc"
        assert (entry.path, entry.size, entry.name) == ("state/0/0/1.delta", 3, "1.delta")

    def test_lists_every_file_below_a_folder_with_its_size_and_time(self, storage: Storage) -> None:
        written = [storage.write(path, [path.encode()]) for path in ("a/1", "a/b/2", "a/b/c/3")]
        assert sorted(storage.list("a")) == sorted(written)
        assert sorted(storage.list("a/b")) == sorted(written[1:])
        assert all(entry.modified is not None for entry in written)

    def test_a_folder_is_not_a_prefix_of_a_name(self, storage: Storage) -> None:
        storage.write("state/0/1/x", [b""])
        storage.write("state/0/10/x", [b""])
        storage.write("state/0/1x", [b""])
        assert self.paths(storage, "state/0/1") == ["state/0/1/x"]

    def test_lists_nothing_where_there_is_nothing(self, storage: Storage) -> None:
        assert self.paths(storage, "nowhere") == []
        assert self.paths(storage) == []

    def test_deletes_the_folders_that_are_empty_and_no_file(self, storage: Storage) -> None:
        for path in ("top/a/b/1", "top/a/2", "top/c/3"):
            storage.write(path, [b"x"])
        storage.delete("top/a/b/1")
        storage.delete("top/c/3")
        storage.delete_folders("top")
        assert [one.path for one in storage.list("top")] == ["top/a/2"]
        assert [*storage.folders("top")] == ["a"]
        storage.delete("top/a/2")
        storage.delete_folders("top")
        storage.delete_folders("top")
        assert "top" not in storage.folders("")

    def test_names_the_folders_in_a_directory_and_no_file(self, storage: Storage) -> None:
        for path in ("a/1", "a/b/2", "a/b/c/3", "a/.d/4", "ab/5", "_statemaint/trash/run/x/6"):
            storage.write(path, [b""])
        assert sorted(storage.folders("a")) == [".d", "b"]
        assert sorted(storage.folders("")) == ["_statemaint", "a", "ab"]
        assert list(storage.folders("_statemaint/trash")) == ["run"]
        assert [*storage.folders("nowhere"), *storage.folders("a/1")] == []

    def test_lists_hidden_files(self, storage: Storage) -> None:
        storage.write("a/.1.delta.crc", [b""])
        assert self.paths(storage, "a") == ["a/.1.delta.crc"]

    def test_lists_more_than_a_page(self, storage: Storage) -> None:
        wanted = {f"many/{number:04d}" for number in range(1100)}
        self.fill(storage, wanted)
        assert set(self.paths(storage, "many")) == wanted

    def test_stat_says_what_the_listing_says(self, storage: Storage) -> None:
        storage.write("a/1", [b"x"])
        assert [storage.stat("a/1")] == list(storage.list("a"))

    @pytest.mark.parametrize("verb", ["stat", "read"])
    def test_an_absent_file_is_not_found(self, storage: Storage, verb: str) -> None:
        storage.write("a/1", [b"x"])
        with pytest.raises(NotFoundError, match="a/2"):
            getattr(storage, verb)("a/2")
        with pytest.raises(NotFoundError), storage.open("b/1"):
            pass

    def test_opens_a_file_from_its_start(self, storage: Storage) -> None:
        storage.write("a/1", [b"abcdef"])
        with storage.open("a/1") as stream:
            assert (stream.read(2), stream.read(100), stream.read(1)) == (b"ab", b"cdef", b"")

    def test_reads_from_where_one_seeks(self, storage: Storage) -> None:
        storage.write("a/1", [b"abcdef"])
        with storage.open("a/1") as stream:
            assert (stream.read(1), stream.seek(-2, SEEK_END), stream.read()) == (b"a", 4, b"ef")
            assert (stream.seek(1), stream.read(2), stream.tell()) == (1, b"bc", 3)
            assert (stream.seek(0, SEEK_END), stream.read()) == (6, b"")

    def test_never_overwrites_unless_told(self, storage: Storage) -> None:
        storage.write("a/1", [b"first"])
        with pytest.raises(AlreadyExistsError):
            storage.write("a/1", [b"second"])
        assert storage.read("a/1") == b"first"
        storage.write("a/1", [b"third"], overwrite=True)
        assert storage.read("a/1") == b"third"
        assert self.paths(storage) == ["a/1"]

    def test_a_write_that_fails_leaves_no_file(self, storage: Storage) -> None:
        def broken() -> Iterator[bytes]:
            yield b"half"
            raise RuntimeError

        with pytest.raises(RuntimeError):
            storage.write("a/1", broken())
        assert self.paths(storage) == []

    def test_of_many_writers_one_wins(self, storage: Storage) -> None:
        won: list[int] = []

        def race(number: int) -> None:
            try:
                storage.write("a/1", [str(number).encode()])
            except AlreadyExistsError:
                return
            won.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [storage.read("a/1")] == [str(number).encode() for number in won]

    def test_knows_whether_writers_exclude_each_other(self, storage: Storage) -> None:
        before = self.paths(storage)
        assert storage.exclusive is True
        assert self.paths(storage) == before == []

    def test_replaces_whatever_has_the_name(self, storage: Storage) -> None:
        for content in (b"first", b"", b"second"):
            storage.replace("_statemaint/x/y.json", [content[:2], content[2:]])
            assert storage.read("_statemaint/x/y.json") == content

    def test_appends_whole_lines(self, storage: Storage) -> None:
        storage.append("l/1.jsonl", b"one\n")
        storage.append("l/1.jsonl", b"two\nthree\n")
        assert storage.read("l/1.jsonl") == b"one\ntwo\nthree\n"

    def test_a_line_that_was_cut_spoils_no_other(self, storage: Storage) -> None:
        storage.write("l/1.jsonl", [b'{"cut'])
        storage.append("l/1.jsonl", b"next\n")
        assert storage.read("l/1.jsonl") == b'{"cut\nnext\n'

    def test_deletes_and_deletes_again(self, storage: Storage) -> None:
        storage.write("a/1", [b""])
        storage.write("a/2", [b""])
        storage.delete("a/1")
        storage.delete("a/1")
        assert self.paths(storage) == ["a/2"]

    def test_deletes_many_at_once(self, storage: Storage) -> None:
        paths = [f"a/{number:03d}" for number in range(450)]
        self.fill(storage, paths)
        storage.delete_all([*paths[1:], "a/none"])
        storage.delete_all([])
        assert self.paths(storage) == paths[:1]

    def test_moves_a_file(self, storage: Storage) -> None:
        storage.write("a/1", [b"x"])
        storage.write("a/3", [b"y"])
        storage.move("a/1", "trash/run/a/1")
        assert storage.read("trash/run/a/1") == b"x"
        assert self.paths(storage) == ["a/3", "trash/run/a/1"]

    def test_moves_onto_no_other_file_and_nothing_from_nowhere(self, storage: Storage) -> None:
        storage.write("a/1", [b"x"])
        storage.write("a/2", [b"y"])
        with pytest.raises(AlreadyExistsError):
            storage.move("a/1", "a/2")
        with pytest.raises(NotFoundError):
            storage.move("a/0", "a/4")
        assert (storage.read("a/1"), storage.read("a/2")) == (b"x", b"y")
        assert self.paths(storage) == ["a/1", "a/2"]

    def test_moves_many_files_and_no_missing_one(self, storage: Storage) -> None:
        paths = [f"a/{number:03d}" for number in range(210)]
        self.fill(storage, paths)
        storage.write("b/1", [b"x"])
        entries = [*storage.list("a"), storage.stat("b/1")]
        storage.delete("a/007")
        calls: list[int] = []
        storage.move_all(
            [(entry, f"trash/{entry.path}") for entry in entries],
            before=lambda: calls.append(len(self.paths(storage, "a"))),
        )
        moved = sorted(f"trash/{path}" for path in [*paths, "b/1"] if path != "a/007")
        assert self.paths(storage) == moved
        assert storage.read("trash/b/1") == b"x"
        assert calls[0] == 209  # before any file is removed
        storage.move_all([])

    def test_a_move_of_many_ends_when_what_is_asked_before_it_fails(self, storage: Storage) -> None:
        self.fill(storage, ["a/1", "a/2"])

        def refuse() -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            storage.move_all([(one, f"b/{one.name}") for one in storage.list("a")], before=refuse)
        assert self.paths(storage, "a") == ["a/1", "a/2"]

    def test_a_file_that_was_replaced_since_it_was_listed_is_not_moved_where_tags_show_it(
        self, storage: Storage
    ) -> None:
        storage.write("a/1", [b"listed"])
        (entry,) = storage.list("a")
        storage.write("a/1", [b"another"], overwrite=True)
        if entry.tag is None:
            storage.move_all([(entry, "b/1")])
            assert storage.read("b/1") == b"another"
            return
        with pytest.raises(Superseded, match=r"^a/1: was replaced since it was listed"):
            storage.move_all([(entry, "b/1")])
        assert storage.read("a/1") == b"another"

    def test_what_is_written_like_a_file_is_for_whoever_reads_that(self, storage: Storage) -> None:
        storage.write("a/1.delta", [b"x"])
        entry = storage.write("a/b/1.sst", [b"yz"], like="a/1.delta")
        assert (entry.path, entry.size, storage.read("a/b/1.sst")) == ("a/b/1.sst", 2, b"yz")
        storage.write("a/b/1.sst", [b"z"], overwrite=True, like="a/1.delta")
        storage.check_readable("a/b/1.sst", like="a/1.delta")
        storage.move("a/b/1.sst", "c/1.sst", like="a/1.delta")
        assert storage.read("c/1.sst") == b"z"
        assert self.paths(storage) == ["a/1.delta", "c/1.sst"]

    def test_nothing_is_like_a_file_that_is_not_there(self, storage: Storage) -> None:
        storage.write("a/1", [b"x"])
        with pytest.raises(NotFoundError, match=r"^a/9:"):
            storage.write("a/2", [b"y"], like="a/9")
        with pytest.raises(NotFoundError, match=r"^a/9:"):
            storage.move("a/1", "a/2", like="a/9")
        for path, like in (("a/1", "a/9"), ("a/9", "a/1")):
            with pytest.raises(NotFoundError, match=r"^a/9:"):
                storage.check_readable(path, like=like)
        assert self.paths(storage) == ["a/1"]

    def test_nothing_like_a_file_overwrites_another(self, storage: Storage) -> None:
        storage.write("a/1", [b"x"])
        storage.write("a/2", [b"y"])
        with pytest.raises(AlreadyExistsError, match=r"^a/2:"):
            storage.write("a/2", [b"z"], like="a/1")
        with pytest.raises(AlreadyExistsError, match=r"^a/2:"):
            storage.move("a/1", "a/2", like="a/2")
        assert (storage.read("a/1"), storage.read("a/2")) == (b"x", b"y")

    def test_counts_its_requests(self, storage: Storage) -> None:
        before = sum(storage.requests.values())
        storage.write("a/1", [b"x"])
        list(storage.list("a"))
        assert sum(storage.requests.values()) >= before + 2
        assert all(storage.requests)

    def test_reads_and_writes_more_than_a_part(self, storage: Storage) -> None:
        piece = bytes(range(256)) * 4096
        entry = storage.write("a/large", [piece] * 20)
        assert entry.size == 20 * len(piece)
        with storage.open("a/large") as stream:
            found = list(iter(lambda: stream.read(len(piece)), b""))
        assert b"".join(found) == piece * 20
        # Readers of formats rely on it: a short read is the end of the file.
        assert {len(part) for part in found} == {len(piece)}
        with storage.open("a/large") as stream:
            assert stream.read() == piece * 20

    def test_its_clock_stamps_its_files(self, storage: Storage) -> None:
        before = storage.now()
        modified = storage.write("a/1", [b""]).modified
        assert modified is not None
        assert before - self.tick <= modified <= storage.now() + self.tick

    def test_its_clock_never_goes_back(self, storage: Storage) -> None:
        times = []
        for number in range(5):
            storage.write(f"a/{number}", [b""])
            times.append(storage.now())
        assert times == sorted(times)

    def test_nothing_that_is_written_is_a_link_or_elsewhere(self, storage: Storage) -> None:
        for path in ("_statemaint/trash/run/a", "state/0/0/1.delta"):
            storage.write(path, [b"x"])
        storage.move("state/0/0/1.delta", "_statemaint/trash/run/state/0/0/1.delta")
        storage.append("_statemaint/ledger/1.jsonl", b"x\n")
        assert not any(entry.outside for entry in storage.list(""))
        assert [*storage.links("_statemaint"), *storage.links("nowhere")] == []
