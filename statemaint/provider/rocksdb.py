"""Spark's RocksDB provider of one store, for work on state while its query is stopped."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

from statemaint.codec.rocksdb.changelog import Change, Lineage
from statemaint.codec.rows.state_row import KeyEncoder, NoPrefix
from statemaint.codec.rows.types import Json
from statemaint.errors import ConfigError, StatemaintError
from statemaint.model.ids import StoreId
from statemaint.provider.files import StateStoreConf, StateStoreMetrics, size_of
from statemaint.provider.rocks_files import DEFAULT, LoadedVersion, RocksFiles
from statemaint.provider.rocks_store import (
    FamilyCodec,
    RocksDBReadStateStore,
    RocksDBStateStore,
    StateStoreCheckpointInfo,
    family_codec,
)
from statemaint.storage import Storage

_EXTERNAL, _INTERNAL = "rocksdbNumExternalColumnFamilies", "rocksdbNumInternalColumnFamilies"
_INTERNAL_KEYS = "rocksdbNumInternalColFamiliesKeys"
_REPAIRED, _FORCED = "rocksdbNumSnapshotsAutoRepaired", "rocksdbForceSnapshotCount"
_UNIQUE_IDS = 2
# A header has room for some 800 attempts: without maintenance a commit writes the snapshot itself.
_LONGEST_LINEAGE = 500

_log = logging.getLogger(__name__)


class RocksDBStateStoreProvider:
    """The versions of one store, written so that Spark continues from them.

    For offline work: bootstrap, surgery, tests. A version is held in memory, not in a database.
    With `checkpoint_format_version` 2 each attempt at a version has a unique id, as SPARK-49374
    describes: attempts are written beside each other, and count once the commit log names them,
    which is left to the caller. The provider does not read the commit log, takes no lease and keeps
    no ledger; `do_maintenance` counts from the newest snapshot, as Spark's does. Use `maintain` for
    the checkpoints of live queries. One thread at a time. Mirrors `RocksDBStateStoreProvider` of
    Spark 4.3, whose files Spark 4.0 reads as well, except for zips with unique ids.
    """

    def __init__(  # noqa: PLR0913 -- the arguments of Spark's `init`
        self,
        store_id: StoreId,
        storage: Storage,
        conf: StateStoreConf | None = None,
        *,
        key_schema: Json | None = None,
        key_encoder: KeyEncoder | None = None,
        use_column_families: bool = False,
        use_multiple_values_per_key: bool = False,
    ) -> None:
        """Binds a store of a checkpoint, with the settings of its query; nothing is read yet.

        `key_schema`, Spark's JSON, and `key_encoder` are those of the default column family; keys
        in `NoPrefix`, the default, need no schema.

        Raises:
            ConfigError: when the encoder does not fit the schema, or a setting is unknown.
            CodecError: when keys of this schema cannot be written.
        """
        if use_multiple_values_per_key and not use_column_families:
            raise ConfigError(
                "requirement failed: Multiple values per key support requires column families to "
                "be enabled in RocksDBStateStore."
            )
        self.store_id, self.conf = store_id, conf or StateStoreConf()
        self._files = RocksFiles(storage, store_id, self.conf, str(self), use_column_families)
        many = use_multiple_values_per_key
        codec = family_codec(key_schema, key_encoder or NoPrefix(), many=many)
        self._codecs: dict[str, FamilyCodec] = {DEFAULT: codec}
        self._loaded: dict[tuple[int, str | None], LoadedVersion] = {}
        self._waiting: LoadedVersion | None = None

    def __str__(self) -> str:
        return (
            f"StateStoreId(opId={self.store_id.operator},partId={self.store_id.partition},"
            f"name={self.store_id.store})"
        )

    # -- versions

    def get_store(
        self,
        version: int,
        state_store_ckpt_id: str | None = None,
        *,
        force_snapshot_on_commit: bool = False,
    ) -> RocksDBStateStore:
        """Returns a version, open for the changes that make the next one; 0 is the empty state.

        With unique ids the id names the attempt, as the commit log does; without them it is
        ignored. With `force_snapshot_on_commit` the next version gets a snapshot at once.

        Raises:
            ConfigError: when the version is below 0, larger than `max_bytes_in_memory`, or its id
                is missing.
            CannotLoadStateStoreError: when one of its files is missing or broken, or no snapshot is
                in its lineage.
            NotInstalledError: when there is a snapshot to read, and `rocksdict` is missing.
        """
        loaded = self._load(version, state_store_ckpt_id).copy()
        attempt = str(uuid4()) if self._has_ids else None
        return RocksDBStateStore(
            self._files,
            loaded,
            self._codecs,
            commit=partial(self._commit, attempt, force_snapshot_on_commit),
            metrics=partial(self._metrics, loaded, forced=force_snapshot_on_commit),
        )

    def get_read_store(
        self, version: int, state_store_ckpt_id: str | None = None
    ) -> RocksDBReadStateStore:
        """Returns a version for reading; raises as `get_store` does."""
        loaded = self._load(version, state_store_ckpt_id)
        return RocksDBReadStateStore(self._files, loaded, self._codecs)

    @property
    def _has_ids(self) -> bool:
        return self.conf.checkpoint_format_version >= _UNIQUE_IDS

    def _load(self, version: int, unique: str | None) -> LoadedVersion:
        if version < 0:
            raise ConfigError(f"Version cannot be less than 0: {version}")
        unique = unique if self._has_ids else None
        if self._has_ids and bool(version) != bool(unique):
            what = "needs its unique id" if version else "has no unique id"
            raise ConfigError(f"{self}: version {version} {what}")
        loaded = self._loaded.get((version, unique)) or self._files.load(version, unique)
        self._cache(loaded)
        return loaded

    def _cache(self, loaded: LoadedVersion) -> None:
        most = max(self.conf.max_versions_to_retain_in_memory, 0)
        self._loaded[loaded.version, loaded.id] = loaded
        newest = sorted(self._loaded, key=lambda key: key[0], reverse=True)
        self._loaded = {key: self._loaded[key] for key in newest[:most]}

    def _commit(
        self,
        attempt: str | None,
        forced: bool,  # noqa: FBT001 -- of `get_store`
        loaded: LoadedVersion,
        changes: Sequence[Change],
    ) -> StateStoreCheckpointInfo:
        version = loaded.version + 1
        if attempt is None:
            self._forget_from(version)
        own: Lineage = ((version, attempt),) if attempt else ()
        written = replace(loaded, version=version, lineage=(*loaded.lineage, *own), renamed=False)
        whole = forced or loaded.renamed or len(loaded.lineage) > _LONGEST_LINEAGE
        if whole or not self.conf.changelog_checkpointing:
            self._files.write_snapshot(written)
            written = replace(written, lineage=own, snapshot=version)
        elif attempt is None:
            self._files.discard_snapshot(version, None)
        if self.conf.changelog_checkpointing:
            self._files.write_changelog(version, changes, attempt, loaded.lineage)
        # A copy: the cache must not share the map of a store that has committed.
        written = written.copy()
        if version - written.snapshot >= self.conf.min_deltas_for_snapshot:
            written.snapshot, self._waiting = version, written
        self._cache(written)
        partition, rows = self.store_id.partition, written.counts()[0]
        return StateStoreCheckpointInfo(partition, version, attempt, loaded.id, rows)

    def _forget_from(self, version: int) -> None:
        """Forgets versions that are about to be written again under the same names."""
        self._loaded = {key: each for key, each in self._loaded.items() if key[0] < version}
        if self._waiting and self._waiting.version >= version:
            self._waiting = None

    # -- maintenance

    def do_maintenance(self) -> None:
        """Writes the snapshot that is due, if this provider committed it, and deletes old files.

        Files are old if no version within `min_versions_to_retain` of the newest snapshot needs
        them. Unlike with Spark's method, what pinned versions need stays as well (S3). Never
        raises, like that method: errors are logged, and the next call tries again.
        """
        try:
            if self._waiting is not None:
                self._upload(self._waiting)
            oldest = self._files.delete_old_versions()
        except StatemaintError as error:
            _log.warning("Ignoring error while performing maintenance for %s: %s", self, error)
            return
        if oldest:
            _log.info("Deleted files older than %d for %s", oldest, self)
        self._loaded = {key: each for key, each in self._loaded.items() if key[0] >= oldest}

    def _upload(self, waiting: LoadedVersion) -> None:
        self._files.write_snapshot(waiting)
        item = (waiting.version, waiting.id)
        for loaded in self._loaded.values():
            if item in loaded.lineage:
                loaded.lineage = tuple(each for each in loaded.lineage if each[0] >= item[0])
        self._waiting = None

    def close(self) -> None:
        """Drops the versions in memory, and a snapshot that was due."""
        self._loaded, self._waiting = {}, None

    # -- metrics

    @property
    def supported_custom_metrics(self) -> tuple[str, ...]:
        return (_EXTERNAL, _INTERNAL, _INTERNAL_KEYS, _REPAIRED, _FORCED)

    def _metrics(self, loaded: LoadedVersion, *, forced: bool) -> StateStoreMetrics:
        keys, internal_keys = loaded.counts()
        families = loaded.families.internal.values()
        custom = {
            _EXTERNAL: len(families) - sum(families),
            _INTERNAL: sum(families),
            _INTERNAL_KEYS: internal_keys,
            _REPAIRED: int(loaded.repaired),
            _FORCED: int(forced),
        }
        held = sum(size_of(each.rows) for each in self._loaded.values())
        return StateStoreMetrics(keys, held, custom)
