"""What an S3 server's answers mean: one table from error codes and botocore's exceptions to our errors."""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    EndpointConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from store.errors import NotFound, StoreDenied, StoreError, StoreFull, StoreUnavailable

RETRY, FULL, DENIED, ABSENT, CONDITION = "retry", "full", "denied", "absent", "condition"

CODES = {
    "PreconditionFailed": CONDITION,
    "412": CONDITION,
    "ConditionalRequestConflict": RETRY,
    "OperationAborted": RETRY,
    "409": RETRY,
    "NoSuchKey": ABSENT,
    "NotFound": ABSENT,
    "404": ABSENT,
    "NoSuchBucket": DENIED,
    "AccessDenied": DENIED,
    "AllAccessDisabled": DENIED,
    "AccountProblem": DENIED,
    "InvalidAccessKeyId": DENIED,
    "SignatureDoesNotMatch": DENIED,
    "ExpiredToken": DENIED,
    "RequestTimeTooSkewed": DENIED,
    "MethodNotAllowed": DENIED,
    "NotImplemented": DENIED,
    "EntityTooLarge": DENIED,
    "InvalidBucketName": DENIED,
    "PermanentRedirect": DENIED,
    "403": DENIED,
    "405": DENIED,
    "501": DENIED,
    "InsufficientStorage": FULL,
    "QuotaExceeded": FULL,
    "XMinioStorageFull": FULL,
    "507": FULL,
    "SlowDown": RETRY,
    "ServiceUnavailable": RETRY,
    "InternalError": RETRY,
    "RequestTimeout": RETRY,
    "RequestTimeTooLarge": RETRY,
    "BadDigest": RETRY,
    "TooManyRequests": RETRY,
    "Throttling": RETRY,
    "429": RETRY,
    "500": RETRY,
    "502": RETRY,
    "503": RETRY,
    "504": RETRY,
}
"""By error code, or by status where a reply without a body has no code. Unknown 5xx: retry; else denied."""

REMEDIES = {
    RETRY: "it may soon be back",
    FULL: "make room on the server",
    DENIED: "check the bucket, the credentials, the endpoint and this machine's clock",
}

TRANSPORT = (
    ConnectionError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    IncompleteReadError,
    ResponseStreamingError,
    FlexibleChecksumError,
    OSError,
)
"""Nothing is known about whether a write arrived."""

FAULTS = (ClientError, BotoCoreError, OSError)
"""What a request can raise. Anything else is a defect of ours, and goes through as it is."""


def kind_of(error: Exception) -> str:
    """One of the five kinds."""
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = str(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        for name in (code, status):
            if name in CODES:
                return CODES[name]
        return RETRY if status.startswith("5") else DENIED
    if isinstance(error, NoCredentialsError):
        return DENIED
    if isinstance(error, TRANSPORT):
        return RETRY
    return DENIED if isinstance(error, BotoCoreError) else RETRY


def to_store_error(error: Exception, what: str) -> StoreError:
    """The error to raise for a request that failed; `what` says what was tried, on which key."""
    kind = kind_of(error)
    if kind == ABSENT:
        return NotFound(f"{what}: not in the store")
    classes: dict[str, type[StoreError]] = {FULL: StoreFull, DENIED: StoreDenied}
    return classes.get(kind, StoreUnavailable)(f"{what}: {error}; {REMEDIES.get(kind, REMEDIES[RETRY])}")
