"""People with access to the files: what they do by hand, knowing the rules or not."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.certify.files import PUT, encode_tagged, spot
from tests.certify.maintainer import HERE
from tests.certify.operators import METADATA_SINCE, is_whole, partitions
from tests.certify.rocks_files import families_of
from tests.certify.world import File

if TYPE_CHECKING:
    from tests.certify.stage import Stage


@dataclass(slots=True)
class Operator:
    """Somebody who changes files by hand, after having stopped what the step says.

    Attributes:
        stage: where he works.
        originals: what was at a path before he spoiled it.
        copy: a copy of the whole checkpoint.
        copied: how far the query was then, and
        memory: what was true then, also above: a rollback may be undone in the copy.
        torn: whether a version did not load then: a rollback may have been half done.
    """

    stage: "Stage"
    originals: dict[str, File] = field(default_factory=dict)
    copy: dict[str, File] = field(default_factory=dict)
    copied: tuple[int, int] = (0, 0)
    memory: dict[str, Any] = field(default_factory=dict)
    torn: bool = False

    # -- rewinds

    def rewind(self, back: int, how: str, *, same: bool, stops: bool) -> None:
        """Takes the query back to a retained version; its state files stay unless it is `tidy`.

        Args:
            back: by how many versions.
            how: `tidy` removes all state above, `snapshots` the snapshots above, `left` nothing;
                `first` leaves nothing in the logs, and all state.
            same: whether the input is the same when it runs again.
            stops: whether maintenance is stopped first, as the runbook says.
        """
        stage = self.stage
        query, certificate = stage.query, stage.certificate
        if not query.commits:
            return
        self.move_aside()
        version = 0 if how == "first" else max(query.required, query.target - back)
        stage.step(f"the query is taken back to version {version}: {how}, same input: {same}, "
                   f"maintenance is stopped: {stops}")  # fmt: skip
        for maintainer in list(stage.paused):
            if stops:
                stage.resume(maintainer, HERE)
            else:
                run = maintainer.doer.run
                certificate.overtaken.add(run)
                certificate.begun |= {one for one in stage.deeds.named if one[0] == run}
        query.stop()
        self._put_log_back()
        certificate.readers.clear()
        query.same = query.target - 1 if same else version - 1
        above = range(version, query.target + 1)
        certificate.leaves(version)
        stage.world.change({f"{log}/{one}": None for one in above for log in ("commits", "offsets")
                            if f"{log}/{one}" in stage.world.files})  # fmt: skip
        if how in ("tidy", "snapshots"):
            self._remove_above(version, whole=how == "tidy")
        stage.world.clock += 1
        stage.tally["rewinds"] += 1
        stage.tally["rewinds that left our snapshots"] += self._ours_above(version)
        stage.tally["rewinds beside a paused run"] += bool(stage.paused)

    def _remove_above(self, version: int, *, whole: bool) -> None:
        gone = []
        for directory in self.stage.stores:
            for path, one in self.stage.world.index.live[directory].items():
                if one.version > version and (whole or one.kind == "snapshot"):
                    gone += [path, *_beside(path)]
        there = [path for path in gone if path in self.stage.world.files]
        self.stage.world.change(dict.fromkeys(there))

    def _ours_above(self, version: int) -> bool:
        made = (one for path in self.stage.certificate.made
                if path in self.stage.world.files and (one := spot(path)))  # fmt: skip
        return any(one.version > version for one in made)

    # -- an operator that leaves

    def remove_operator(self) -> None:
        """Restarts the query, by Spark 4, without the last operator that it had: its state stays.

        A query that Spark 4 began cannot be restarted so. Not tried where nothing can tell whether
        the operator left: its state is broken, or a rewind has left newer state of it.
        """
        stage, query = self.stage, self.stage.query
        habits, last = query.habits, max(partitions(query.habits.stores))
        if not last or habits.spark is None or habits.spark >= METADATA_SINCE:
            return
        prefix = f"state/{last}/"
        if not query.finish() or not is_whole(query, last):
            return
        self._stop_maintenance()  # a run that goes on below the folder makes it look younger
        query.stop()
        stage.step(f"the query goes on without operator {last}")
        kept = tuple(one for one in habits.stores if not one.startswith(prefix))
        query.habits = replace(habits, stores=kept, spark=METADATA_SINCE)
        stage.world.clock += 60  # a restart takes its time
        stage.handed = None
        stage.batch()
        query.left[prefix] = stage.world.clock
        stage.world.clock += 1
        stage.tally["operators removed"] += 1

    def move_aside(self) -> None:
        """Moves the folders of operators that have left away, with our notes of them.

        Maintenance is stopped first: who is at work would note them again.
        """
        stage, world = self.stage, self.stage.world
        for prefix in stage.query.left:
            notes = prefix.replace("state/", "_statemaint/attestations/")
            if not (there := [*world.index.under(prefix), *world.index.under(notes)]):
                continue
            self._stop_maintenance()
            stage.step(f"{prefix} and {notes} are moved aside")
            world.change(dict.fromkeys(path for path in there if path in world.files))

    def _stop_maintenance(self) -> None:
        for maintainer in list(self.stage.paused):
            self.stage.resume(maintainer, HERE)

    # -- files that go wrong

    def poison(self, number: int, *, cut: bool) -> None:
        """Makes a snapshot wrong, one that the log still disproves."""
        stage = self.stage
        if stage.busy:
            return  # between a look at a file and a deletion is a moment that nobody can close
        directory = stage.store(number)
        live = stage.world.index.live[directory]
        found = sorted((one.version, path) for path, one in live.items() if one.kind == "snapshot")
        proved = [one for one in found if one[1] in stage.deeds.proved]
        found = proved if number % 2 and proved else found
        if not found:
            return
        version, path = found[number % len(found)]
        changes = {(one.version, one.id) for one in live.values() if one.kind == "delta"}
        below = {number for number, _ in changes}
        of_log = (version, live[path].id) in changes and below >= {*range(1, version)}
        if of_log and version <= stage.query.target:
            stage.step(f"{path} goes wrong, cut: {cut}")
            content = stage.world.files[path].content[:30] + bytes(1)
            if not cut and stage.setting.habits.rocks:
                mine = families_of(stage.world.files[path].content)
                others = [one for _, one in found if one != path
                          and families_of(stage.world.files[one].content) == mine]  # fmt: skip
                content = (
                    stage.world.files[others[number % len(others)]].content if others else content
                )
            elif not cut:
                content = stage.query.wrong(directory, b"wrong %d" % version)
            self._damage(path, content)
            stage.tally["wrong snapshots"] += 1

    def _damage(self, path: str, content: bytes, *, old_time: float | None = None) -> None:
        world, certificate = self.stage.world, self.stage.certificate
        world.clock += 1
        self.originals.setdefault(path, world.files[path])
        certificate.spoils(path, content)
        certificate.planted[path].add(content)
        gone = [side for side in _beside(path) if side in world.files]
        certificate.excused = True
        world.change({path: content, **dict.fromkeys(gone)}, modified=old_time)
        certificate.excused = False

    def swap(self, number: int, *, keeps_times: bool) -> None:
        """Two neighbouring files of a store's log change places, below the newest snapshot."""
        stage = self.stage
        directory = stage.store(number)
        live = stage.world.index.live[directory].items()
        most = self._proved_above(directory)
        changes = {one.version: path for path, one in live
                   if one.kind == "delta" and one.version <= most}  # fmt: skip
        pairs = [one for one in sorted(changes) if one + 1 in changes]
        if stage.busy or stage.paused or not pairs:
            return
        low = pairs[number % len(pairs)]
        paths = changes[low], changes[low + 1]
        first, second = (stage.world.files[path] for path in paths)
        if first.content == second.content:
            return
        stage.step(f"{paths[0]} and {paths[1]} change places, with their times: {keeps_times}")
        for path, file in ((paths[0], second), (paths[1], first)):
            self._damage(path, file.content, old_time=file.modified if keeps_times else None)
        stage.tally["swapped changes"] += 1

    def edit(self, number: int) -> None:
        """Somebody changes what a file of the log says, below a proved snapshot."""
        stage = self.stage
        directory = stage.store(number)
        live = stage.world.index.live[directory].items()
        most = self._proved_above(directory)
        changes = sorted(path for path, one in live
                         if one.kind == "delta" and one.version <= most and not one.id)  # fmt: skip
        if stage.busy or stage.paused or not changes:
            return
        path = changes[number % len(changes)]
        stage.step(f"{path} is edited")
        edited = stage.query.wrong(directory, b"edited %d" % number)
        if stage.setting.habits.families:
            rows = [(PUT, b"\1\0edited", bytes([number]))]
            edited = encode_tagged(rows, stage.setting.habits.codec)
        self._damage(path, edited)
        stage.tally["edited changes"] += 1

    # -- copies

    def touch(self, number: int, *, keeps_time: bool) -> None:
        """Puts a file back from a copy with the very same bytes: `cp -p`, or `cp`."""
        stage = self.stage
        paths = sorted(stage.world.index.live[stage.store(number)])
        if not paths or stage.busy:
            return
        path = paths[number % len(paths)]
        file = stage.world.files[path]
        stage.step(f"{path} is put back from a copy, with its time: {keeps_time}")
        stage.world.change({path: file.content}, modified=file.modified if keeps_time else None)
        stage.tally["files put back from a copy"] += 1

    def save(self) -> None:
        """Copies the whole checkpoint, of a query that stands still."""
        stage, certificate = self.stage, self.stage.certificate
        if any(certificate._is_bad(path) for path in certificate.bad):
            return  # a copy of what is wrong is none
        stage.query.kill()
        stage.step("the checkpoint is copied")
        self.copy = dict(stage.world.files)
        self.copied = stage.query.lines, stage.query.target
        self.memory = stage.query.memories()
        self.torn = next(certificate.wrong(), None) is not None

    def restore(self, *, ledger: bool, keeps_times: bool) -> None:
        """Puts an older copy of the whole checkpoint in the place of what is there."""
        stage, world, query = self.stage, self.stage.world, self.stage.query
        repeated = query.lines - self.copied[0] != query.target - self.copied[1]
        if not self.copy or repeated or query.target < self.copied[1]:
            return  # what is true of the copy is only known while nothing was rewritten since
        if self.torn and not ledger:
            return  # what the copy lacks may be in its own trash alone
        stage.step(f"an older copy is put back, with our files: {ledger}, times: {keeps_times}")
        world.clock += 1  # what is written from here on is younger than what was there
        self._stop_maintenance()
        query.stop()
        stage.certificate.readers.clear()
        query.same = -1
        judge, world.judge, log, world.log = world.judge, None, world.log, None
        for path in [*world.files]:
            if ledger or not path.startswith("_statemaint"):
                world.change({path: None})
        for path, file in self.copy.items():
            if ledger or not path.startswith("_statemaint"):
                world.change({path: file.content}, modified=file.modified if keeps_times else None)
        world.judge, world.log = judge, log
        self.move_aside()
        query.remember(self.memory)
        stage.certificate.known.clear()
        stage.certificate.excused = self.torn  # of what the copy lacked when it was made
        stage.certificate.anew()
        stage.certificate.excused = False
        query.lines += 1
        self.copy = {}
        stage.tally["restores of the checkpoint"] += 1

    def heal(self) -> None:
        """Moves away every snapshot that is wrong, and puts back what was changed in the log."""
        stage, certificate, world = self.stage, self.stage.certificate, self.stage.world
        for path, contents in list(certificate.bad.items()):
            file, one = world.files.get(path), spot(path)
            if file is None or one is None or file.content not in contents or self._landed(path):
                continue
            if one.store not in stage.stores:
                continue  # its operator was removed: nobody wants it back
            certificate.excused = True
            # Where changes name their zip, or a zip their families, nothing loads without it.
            named = one.id is not None or stage.setting.habits.families
            needs = one.kind == "delta" or (named and not self.right(path))
            if is_back := needs and path in self.originals:
                self._put_back(path, self.originals[path])
            # A rewind may have made even the original a wrong one, if no batch has just written it.
            judged = not is_back or (one.id is None and one.version - 1 != stage.query.batch)
            if one.kind == "snapshot" and judged and not self.right(path):
                stage.step(f"{path} is moved away")
                world.change({path: None, **self._sides(path)})
            certificate.excused = False
        if not stage.paused:  # else one of them may be about to publish another
            self._forget_bad()
        world.garble = None

    def _forget_bad(self) -> None:
        """Forgets what was wrong, but what an undo may bring back from the trash."""
        certificate, files = self.stage.certificate, self.stage.world.files
        trashed = {file.content for path, file in files.items() if "/trash/" in path}
        left = {path: contents & trashed for path, contents in certificate.bad.items()}
        certificate.bad.clear()
        certificate.bad.update({path: contents for path, contents in left.items() if contents})

    def right(self, path: str) -> bool:
        """Returns whether a snapshot holds what is true of its version, a committed one."""
        query, one = self.stage.query, spot(path)
        assert one
        state, truth = query.loader.whole(path), query.truth[one.store]
        below = one.version <= query.target and one.version < len(truth)
        return below and state is not None and query.states.of(state) == truth[one.version]

    def _proved_above(self, directory: str) -> int:
        """Returns the newest version of which a proved snapshot of ours is right."""
        noted = {path for content in self._notes() for path in content}
        made = (path for path in self.stage.certificate.made if path in self.stage.deeds.proved)
        proved = (path for path in made if path in noted)  # a run may have failed to note it
        there = (path for path in proved if path in self.stage.world.index.live[directory])
        return max((one.version for path in there if (one := spot(path)) and self.right(path)),
                   default=0)  # fmt: skip

    def _notes(self) -> Iterator[list[str]]:
        """Yields the snapshots that each note of attestations names."""
        for path, file in self.stage.world.files.items():
            if path.startswith("_statemaint/attestations/") and path.endswith(".json"):
                yield [one["path"] for one in json.loads(file.content).get("attestations", ())]

    def _put_log_back(self) -> None:
        """Puts what was changed in the log back: nothing else could tell any more."""
        for path, file in self.originals.items():
            one, there = spot(path), self.stage.world.files.get(path)
            spoiled = there is not None and there.content in self.stage.certificate.bad[path]
            if one and one.kind == "delta" and spoiled and not self._landed(path):
                self._put_back(path, file)

    def _landed(self, path: str) -> bool:
        """Returns whether it is the query that has written a change, whatever it is like."""
        file, one = self.stage.world.files.get(path), spot(path)
        landed = self.stage.query.landed.get(path)
        return (
            file is not None and file.number == landed and one is not None and one.kind == "delta"
        )

    def _put_back(self, path: str, file: File) -> None:
        self.stage.step(f"{path} is put back as it was")
        self.stage.world.change({path: file.content})
        # Who is in the middle of something may have read what was there.
        self.stage.certificate.overtaken |= {one.doer.run for one in self.stage.paused}

    def _sides(self, path: str) -> dict[str, None]:
        return {side: None for side in _beside(path) if side in self.stage.world.files}

    # -- our files

    def forget(self, folder: str) -> None:
        """Deletes files of ours while nobody is at work and nothing is wrong: `docs/files.md`.

        Args:
            folder: of ours; if empty all but the lease, and the trash, which has only copies.
        """
        stage, certificate = self.stage, self.stage.certificate
        spoiled = any(certificate._is_bad(path) for path in certificate.bad)
        if stage.paused or spoiled or next(certificate.wrong(), None) is not None:
            return
        gone = [path for path in stage.world.files if path.startswith(f"_statemaint/{folder}")
                and not path.startswith(("_statemaint/trash/", "_statemaint/lease/"))]  # fmt: skip
        if gone:
            stage.step(f"_statemaint/{folder} is deleted")
            stage.world.change(dict.fromkeys(gone))
            stage.tally["files of ours deleted"] += 1
            stage.ended &= stage.ended if folder == "attestations" else set()  # others had records
            if folder in ("", "attestations"):
                written = {path: one.file.content for path, one in certificate.made.items()}
                stage.deeds.in_ledger |= written
                certificate.made.clear()  # nobody can know of them any more what they were made of
            if folder in ("", "ledger"):
                stage.deeds.in_ledger.clear()  # nor that they are ours

    # -- foreign files

    def litter(self, number: int, where: str) -> None:
        """Leaves a file of his own somewhere."""
        stage = self.stage
        names = {
            "store": f"{stage.store(number)}/notes-{number}.old.txt",
            "commits": f"commits/{number}.bak",
            "offsets": "offsets/README",
            "tables": f"{stage.store(number)}/SSTs/notes.txt",
            "state": "state/notes.txt",
        }
        if names[where] not in stage.world.files:
            stage.step(f"{names[where]} is put there")
            stage.deeds.foreign.add(names[where])
            stage.world.change({names[where]: b"foreign"})
            stage.tally["foreign files"] += 1


def _beside(path: str) -> Iterable[str]:
    directory, _, name = path.rpartition("/")
    return f"{path}.crc", f"{directory}/.{name}.crc"
