"""What becomes of a query's files besides batches: other code, other settings, a file lost."""

from random import Random
from uuid import uuid4

from statemaint.model.policy import Policy
from tests.certify.commits import commit_entry
from tests.certify.family_query import FamilyQuery
from tests.certify.files import spot
from tests.certify.rocks_files import render, snapshot
from tests.certify.rocks_query import RocksQuery
from tests.certify.stage import Stage


def _restarted(stage: Stage) -> RocksQuery | None:
    """Returns a query of RocksDB that has ended its batch and all its tasks, if it could."""
    query = stage.query
    if not isinstance(query, RocksQuery) or not query.finish():
        return None
    query.kill()
    query.late.clear()
    return query


def _evolve(stage: Stage, random: Random, _: Policy) -> None:
    """A restart with code that has one state variable more, or drops one."""
    query = _restarted(stage)
    if isinstance(query, FamilyQuery):
        drop = random.random() < 0.35
        name = query.evolve(drop=drop)
        stage.step(f"the query restarts, {'without' if drop else 'with'} {name}")
        stage.tally["families dropped" if drop else "families added"] += name is not None
        stage.batch(random.choice((0, 1, 1, 2)))


def _switch(stage: Stage, random: Random, _: Policy) -> None:
    """A restart with changelogs switched off, or on."""
    if query := _restarted(stage):
        query.changelogs = not query.changelogs
        stage.step(f"the query restarts with changelogs: {query.changelogs}")
        stage.tally["changelogs switched"] += 1
        stage.batch(random.choice((0, 1, 2)))


def _to_ids(stage: Stage, random: Random, _: Policy) -> None:
    """A copy made by hand: the newest commit gets ids, and each store a zip with its id."""
    query = _restarted(stage)
    if query is None or query.ids or stage.paused or next(stage.certificate.wrong(), None):
        return
    stage.step(f"the query gets unique ids from version {query.target} on")
    version, ids = query.target, {one: str(uuid4()) for one in stage.stores}
    for directory, unique in ids.items():
        image = snapshot(None, query.states.known[query.truth[directory][version]])
        stored = {local: f"{local[:-4]}-{uuid4()}.sst" for local in image.tables}
        for local, content in image.tables.items():
            stage.world.change({f"{directory}/SSTs/{stored[local]}": content})
        families = query.rocks.named.get((directory, version))
        zipped = render(image, stored, families) if families else render(image, stored)
        stage.world.change({f"{directory}/{version}_{unique}.zip": zipped})
        query.counted[directory, version] = unique
        query.theirs[f"{directory}/{version}_{unique}.zip"] = zipped
        query.synchronous.add(f"{directory}/{version}_{unique}.zip")
    query.by_ids()
    query.copied = True
    stage.world.change({f"commits/{version - 1}": commit_entry(ids)})
    stage.tally["queries that got unique ids"] += 1
    stage.batch(random.choice((0, 1, 2)))


def _lose(stage: Stage, random: Random, _: Policy) -> None:
    """Somebody loses one file of a store: the oldest snapshot as likely as any other file."""
    if stage.busy:
        return  # between a look at a file and a deletion is a moment that nobody can close
    directory = random.choice(stage.stores)
    there = stage.world.index.live[directory].items()
    # Without the file of a batch that runs, the batch would be committed with a loss of its own.
    live = {path: one for path, one in there if one.version <= stage.query.target}
    wholes = sorted((one.version, path) for path, one in live.items() if one.kind == "snapshot")
    tables = [one for one in stage.world.index.under(f"{directory}/SSTs/") if one.endswith(".sst")]
    kinds = [[wholes[0][1]]] * 2 if wholes else []
    kinds += [few for few in (sorted(live), [one for _, one in wholes], tables) if few]
    if not kinds or len(live) == 1:
        return  # a store that has left no trace may be none: no schema says that there is a key
    path = random.choice(random.choice(kinds))
    stage.step(f"{path} is lost")
    query, certificate = stage.query, stage.certificate
    if isinstance(query, RocksQuery) and path in tables:
        query.kill()  # whoever has it on a disk would name it again
        query.waiting = [one for one in query.waiting if path not in one.old]
    name = path.rpartition("/")[2]
    beside = (f"{path}.crc", f"{directory}/.{name}.crc") if spot(path) else ()
    certificate.excused = True
    stage.world.change(dict.fromkeys([path, *(one for one in beside if one in stage.world.files)]))
    certificate.excused = False
    stage.tally["files lost"] += 1
    stage.tally["zips lost"] += path.endswith(".zip")
    by_zip = isinstance(query, RocksQuery) and (query.ids or isinstance(query, FamilyQuery))
    if isinstance(query, RocksQuery) and by_zip and _loads(query, directory):
        query.kill()  # else its next changes would need a zip that only its memory has


def _loads(query: RocksQuery, directory: str) -> bool:
    return query.loader.load(directory, [query.target])[query.target].state is not None


ROCKS_STEPS = [(_evolve, 4.0), (_switch, 1.5), (_to_ids, 0.5), (_lose, 0.7)]
OF_FAMILIES, OF_ROCKS = ("evolve",), ("switch", "to_ids")
