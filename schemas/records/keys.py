"""Keys of compacted topics: what makes a snapshot replace another one, or stand beside it."""


def snapshot_key(shard: int, version: int, tensor: str, digest: bytes) -> bytes:
    """Key of a snapshot: with the digest in it, those of different runs or contents never replace one another."""
    return f"{shard}/{version}/{tensor}/{digest.hex()}".encode()
