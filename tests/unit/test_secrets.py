"""Secrets in addresses: refused, and not shown by the refusal."""

import subprocess
import sys
from pathlib import Path

import pytest

from statemaint.errors import ConfigError
from statemaint.queries.checks import must_be_open
from statemaint.storage import has_secret, open_storage
from tests.support.planted import plant, secret
from tests.support.queries import valid_queries

SECRET = secret("in-an-address")
ADDRESSES = {
    "s3": f"s3://AKIAKEY:{SECRET}@bucket/ck",
    "s3a": f"s3a://{SECRET}@bucket/ck",
    "s3a, with a slash": f"s3a://AKIAKEY:abc/{SECRET}@bucket/ck",
    "s3, with a slash first": f"s3://AKIAKEY:/{SECRET}@bucket/ck",
    "hdfs": f"hdfs://user:{SECRET}@namenode:8020/ck",
    "hadoop+ftp": f"hadoop+ftp://user:{SECRET}@host/ck",
    "abfss": f"abfss://container@account.dfs.core.windows.net/ck?sv=1&sig={SECRET}",
    "wasbs": f"wasbs://container:{SECRET}@account/ck",
    "webhdfs": f"webhdfs://host/ck?delegation={SECRET}",
    "webhdfs, with a wrong port": f"webhdfs://host:x/ck?delegation={SECRET}",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_with_a_secret_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(ConfigError, match="has a secret in it, which would be shown; give it") as e:
        open_storage(address)
    assert SECRET not in str(e.value)
    assert SECRET not in repr(e.value)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/a@b?sig",
        "abfss://container@account.dfs.core.windows.net/ck",
        "hdfs://etl@namenode:8020/ck",
        "hdfs://namenode:8020/a@b",
        "hdfs://[fd00::1]/a@b",
        "/data/a@b:c/ck?token=1",
        "file:///data/ck",
    ],
)
def test_an_address_without_one_is_not(address: str) -> None:
    assert not has_secret(address)


@pytest.mark.parametrize(
    "text",
    [
        f"pushgateway: http://user:{SECRET}@gateway:9091\nqueries: {{}}",
        f"queries: {{q: {{checkpoint: 's3://key:{SECRET}@bucket/ck'}}}}",
    ],
    ids=["pushgateway", "checkpoint"],
)
def test_a_queries_file_with_a_secret_is_refused_without_showing_it(
    tmp_path: Path, text: str
) -> None:
    file = plant(tmp_path / "queries.yaml", text)
    with pytest.raises(ConfigError, match="has a secret in it") as error:
        valid_queries(file)
    assert SECRET not in str(error.value)
    ran = subprocess.run(
        [sys.executable, "-m", "statemaint", "queries", str(file)],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert ran.returncode == ConfigError.exit_code
    assert SECRET not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "gateway",
    [f"user:{SECRET}@gateway:9091", f"http://gw?token={SECRET}"],
    ids=["password", "token"],
)
def test_a_secret_of_a_pushgateway_is_not_shown(gateway: str) -> None:
    with pytest.raises(ValueError, match="set STATEMAINT_PUSHGATEWAY_USER and") as error:
        must_be_open(gateway)
    assert SECRET not in str(error.value)
    assert must_be_open("gateway:9091") == "gateway:9091"
