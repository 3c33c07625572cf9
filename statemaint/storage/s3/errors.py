"""Errors of S3 and of the connection to it, in one clear line each, and never with a secret."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from statemaint.errors import NotFoundError, StorageError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

NO_BUCKET = "there is no such bucket"
_MOST_WORDS = 200
_UNSUPPORTED = (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_SERVER_FAILED = (500, 502, 503, 504)  # whatever the code: Ceph's UnknownError is one
_CREDENTIALS = frozenset(
    "InvalidAccessKeyId SignatureDoesNotMatch InvalidToken InvalidSecurity ExpiredToken "  # noqa: SIM905
    "ExpiredTokenException InvalidClientTokenId TokenRefreshRequired RequestExpired".split()
)
_REFUSALS = range(400, 500)
# Codes that mean "later", for a request or for one key in a request.
THROTTLED = frozenset(
    "SlowDown ServiceUnavailable InternalError RequestLimitExceeded Throttling "  # noqa: SIM905
    "ThrottlingException RequestTimeout TooManyRequests BandwidthLimitExceeded OperationAborted "
    "429 500 503".split()
)
_ELSEWHERE = frozenset(
    "PermanentRedirect TemporaryRedirect AuthorizationHeaderMalformed "  # noqa: SIM905
    "IllegalLocationConstraintException 301 307".split()
)
_PUT = "s3:PutObject"
_COPY = "s3:GetObject and s3:PutObject"
# By botocore's names of operations: the verb that is counted, and the action to be allowed.
OPERATIONS = {
    "ListObjectsV2": ("list", "s3:ListBucket"),
    "HeadBucket": ("head", "s3:ListBucket"),
    "ListBuckets": ("post", "s3:ListAllMyBuckets"),
    "GetObject": ("get", "s3:GetObject"),
    "HeadObject": ("head", "s3:GetObject"),
    "GetObjectAcl": ("acl", "s3:GetObjectAcl"),
    "GetObjectTagging": ("tags", "s3:GetObjectTagging"),
    "GetBucketOwnershipControls": ("get", "s3:GetBucketOwnershipControls"),
    "GetBucketVersioning": ("get", "s3:GetBucketVersioning"),
    "PutObject": ("put", _PUT),
    "UploadPart": ("put", _PUT),
    "CopyObject": ("copy", _COPY),
    "UploadPartCopy": ("copy", _COPY),
    "DeleteObject": ("delete", "s3:DeleteObject"),
    "DeleteObjects": ("delete", "s3:DeleteObject"),
    "AbortMultipartUpload": ("post", "s3:AbortMultipartUpload"),
}
OTHERS = ("post", _PUT)
_NO_CREDENTIALS = "no credentials were found by boto3: no variables, no profile, no role"
_NOT_FETCHED = "the credentials could not be fetched"
# By the names of botocore's errors, and of urllib3's.
_UNREACHED = {
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NOT_FETCHED,
    "TokenRetrievalError": _NOT_FETCHED,
    "UnauthorizedSSOTokenError": _NOT_FETCHED,
    "MetadataRetrievalError": _NOT_FETCHED,
    "ProxyConnectionError": "the HTTP proxy cannot be reached",
    "SSLError": "the server's certificate was not accepted",
    "EndpointConnectionError": "the S3 endpoint cannot be reached",
    "ConnectTimeoutError": "the S3 endpoint cannot be reached",
    "ReadTimeoutError": "the S3 endpoint did not answer in time",
    "HTTPClientError": "the connection to the S3 endpoint broke",
    "HTTPError": "the connection to the S3 endpoint broke",
}


class S3Error(StorageError):
    """A refusal by S3, or the reason why it was not reached."""

    def __init__(
        self, path: str, detail: str, *, reason: str = "", status: int = 0, retried: bool = False
    ) -> None:
        super().__init__(path, detail)
        self.reason, self.status = reason, status  # S3's own code and HTTP's, if it answered
        self.retried = retried  # an earlier attempt may have been made, and its answer lost
        self.lasting = self.refused

    @property
    def refused(self) -> bool:
        """Returns whether the server understood the request and would refuse it again."""
        return self.status in _REFUSALS and self.reason not in THROTTLED


def is_unsupported(error: S3Error) -> bool:
    return error.reason == "NotImplemented" or error.status in _UNSUPPORTED


@contextmanager
def translated(path: str, place: str = "") -> Iterator[None]:
    """Turns boto3's exceptions into an `S3Error` about a path, or a certain `NotFoundError`."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        raise _refusal(error, path, place) from error
    except (BotoCoreError, HTTPError) as error:  # the latter while a refusal is received
        # The words are those of the error's kind: its own may quote an address with a password.
        kinds = (kind.__name__ for kind in type(error).__mro__)
        words = next(filter(None, map(_UNREACHED.get, kinds)), "the request failed")
        failure = S3Error(path, f"{words} ({type(error).__name__}){place}")
        failure.lasting = words == _NO_CREDENTIALS
        raise failure from error
    except ResponseParserError as error:
        words = "the answer cannot be understood; is this an S3 endpoint?"
        raise S3Error(path, words + place) from error


def place_of(bucket: str, endpoint: str) -> str:
    """Returns the end of an error's sentence: where the bucket is, without a password in it."""
    parts = urlsplit(endpoint)
    return f"; bucket {bucket}, endpoint {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _refusal(error: "ClientError", path: str, place: str) -> StorageError:
    answer: dict[str, Any] = dict(error.response)
    code = str(answer.get("Error", {}).get("Code", ""))
    about = answer.get("ResponseMetadata", {})
    status = int(about.get("HTTPStatusCode", 0))
    if code == "NoSuchKey":
        return NotFoundError(path)
    words = _words(error, code, status) + place
    retried = about.get("RetryAttempts", 0) > 0
    return S3Error(path, words, reason=code, status=status, retried=retried)


def _words(error: "ClientError", code: str, status: int) -> str:
    operation = error.operation_name
    if code == "NoSuchBucket":
        return NO_BUCKET
    if code in _CREDENTIALS:
        return f"the credentials were refused ({code})"
    if code in ("AccessDenied", "403"):
        _, action = OPERATIONS.get(operation, OTHERS)
        # The answer to a HEAD has no body, so only the status is known.
        why = "," if code == "AccessDenied" else f" ({code}): the credentials are wrong, or"
        return f"access denied{why} {action} is not allowed"
    if code in THROTTLED or status in _SERVER_FAILED:
        return f"the server failed or is too busy ({code}), at the last attempt of {operation} too"
    if code in _ELSEWHERE:
        return f"the bucket is in another region ({code}); set AWS_REGION to the bucket's"
    about = error.response.get("Error", {})
    message = " ".join(str(about.get("Message", "")).split())[:_MOST_WORDS]
    shown = about.get("Code", "no code")
    return f"{operation} failed: {shown}{': ' if message else ''}{message}"
