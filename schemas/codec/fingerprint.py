"""Fingerprints of schemas: Avro 1.12, "Parsing Canonical Form for Schemas" and "Schema Fingerprints"."""

import json
from collections.abc import Mapping
from typing import Any, Final

_EMPTY: Final = 0xC15D213AA4D7A795
_KEPT: Final = ("name", "type", "fields", "symbols", "items", "values", "size")
"""Attributes that a schema's meaning depends on, in their canonical order."""
_NAMED: Final = ("record", "enum", "fixed")


def fingerprint(schema: Any) -> bytes:
    """Return the CRC-64-AVRO fingerprint of a schema (parsed JSON), 8 bytes, little-endian."""
    value = _EMPTY
    for byte in canonical_form(schema).encode():
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY & -(value & 1))
    return value.to_bytes(8, "little")


def canonical_form(schema: Any) -> str:
    """Return the parsing canonical form of a schema: full names, nothing that does not change what is read."""
    return json.dumps(_canonical(schema, "", set()), separators=(",", ":"), ensure_ascii=False)


def _canonical(schema: Any, namespace: str, named: set[str]) -> Any:
    """Return a type in canonical form; ``named`` collects the full names of named types so far."""
    if isinstance(schema, str):
        full = _full_name(schema, namespace)
        return full if full in named else schema
    kept = {key: schema[key] for key in _KEPT if key in schema}
    if schema["type"] in _NAMED:
        kept["name"] = _full_name(schema["name"], schema.get("namespace", namespace))
        namespace = kept["name"].rpartition(".")[0]
        named.add(kept["name"])
    for key in ("items", "values"):
        if key in kept:
            kept[key] = _canonical(kept[key], namespace, named)
    if "fields" in kept:
        kept["fields"] = [_field(field, namespace, named) for field in kept["fields"]]
    return kept


def _field(field: Mapping[str, Any], namespace: str, named: set[str]) -> dict[str, Any]:
    return {"name": field["name"], "type": _canonical(field["type"], namespace, named)}


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name
