"""What a store can answer instead of doing what it was asked. One class is one way to react."""


class StoreError(Exception):
    """Base. The message names the key or path, what happened, and what to do."""


class NotFound(StoreError):
    """No such key."""


class AlreadyExists(StoreError):
    """A create-only put found the key taken."""


class Conflict(StoreError):
    """A compare-and-swap found another version than the one it expected."""


class StoreUnavailable(StoreError):
    """It did not answer, or the reply was damaged. May pass: retry."""


class StoreFull(StoreError):
    """No room left. Passes when somebody makes room: retry slowly."""


class StoreDenied(StoreError):
    """No permission, read-only, or the root is gone. Does not pass by itself."""


class BlobCorrupt(StoreError):
    """The content does not match its name or its recorded hash."""


class Nondeterministic(StoreError):
    """Two attempts at the same samples of the same tile gave different films, both intact."""


class OutputConflict(StoreError):
    """A manifest that says something else is already published under this name. It stays."""


class LeaseHeld(StoreError):
    """Another attempt holds the lease. Passes when it is released or runs out."""


class LeaseLost(StoreError):
    """The lease ran out, or another attempt has taken it over: the work that it covers must stop."""
