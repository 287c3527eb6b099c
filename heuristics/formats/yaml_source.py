"""YAML with positions, from the library's events: no object is made that a tag asks for, nothing recurses, and what
aliases repeat is counted before it is built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, NoReturn, cast

from heuristics.declared_tool import Place
from heuristics.formats.limits import MAX_DEPTH, MAX_YAML_ALIASED, MAX_YAML_BYTES, MAX_YAML_VALUES
from heuristics.formats.source import Spot
from heuristics.formats.spotted import Spots, SpottedSource
from heuristics.formats.text import Lines
from heuristics.formats.unreadable import UnreadableSource, shown
from heuristics.formats.yaml_scalars import ScalarRefused, scalar

__all__ = ["parse_yaml"]

_MERGE: Final = "<<"
_NO_KEY: Final = object()
_MERGED: Final = object()
_PLAIN_TAGS: Final = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_BYTES_WITHOUT_LIBYAML: Final = 1 << 20


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not come. `height` and `size` are of what it holds, aliases expanded."""

    value: Any
    spot: Spot
    anchor: str | None
    spots: dict[str | int, tuple[Spot, Spot]] = field(default_factory=dict)
    key: Any = _NO_KEY
    key_spot: Spot = (1, 1)
    merged: list[tuple[dict[str, Any], dict[str | int, tuple[Spot, Spot]]]] = field(default_factory=list)
    height: int = 1
    size: int = 1


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    height: int
    size: int


def parse_yaml(text: str, path: str) -> SpottedSource:
    """One YAML document. Raises UnreadableSource, with the place, for what is malformed or not plain data."""
    yaml = _library(path)
    fast = getattr(yaml, "CSafeLoader", None)
    size = len(text.encode("utf-8", "surrogatepass"))
    limit = MAX_YAML_BYTES if fast is not None else _BYTES_WITHOUT_LIBYAML
    if size > limit:
        raise UnreadableSource(f"has {size:,} bytes of YAML; at most {limit:,} are read", Place(path))
    try:
        return _Builder(yaml, path).build(yaml.parse(text, Loader=fast or yaml.SafeLoader))
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        said = " ".join(part for part in (broken.context, broken.problem) if part)
        spot = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        spot = min(spot, Lines(text).spot(len(text)))  # libyaml calls the end the beginning of one more line
        message = f"is not valid YAML: {shown(said, 200)}"
        if "nesting depth" in said:  # libyaml's own limit, met while it reads ahead
            message = f"is nested deeper than {MAX_DEPTH} levels"
        raise UnreadableSource(message, Place(path, *spot)) from None
    except yaml.YAMLError as broken:
        reason = getattr(broken, "reason", "it cannot be read")
        raise UnreadableSource(f"is not valid YAML: {shown(str(reason), 200)}", Place(path)) from None


def _library(path: str) -> ModuleType:
    try:
        import yaml as library
    except ImportError:
        said = "is YAML, which needs PyYAML: pip install 'oncegate[lint]'"
        raise UnreadableSource(said, Place(path)) from None
    return cast(ModuleType, library)


class _Builder:
    def __init__(self, yaml: ModuleType, path: str) -> None:
        self._yaml = yaml
        self._path = path
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._spots: Spots = {}
        self._values = 0
        self._aliased = 0
        self._roots: list[tuple[Any, Spot]] = []

    def build(self, events: Iterator[Any]) -> SpottedSource:
        yaml = self._yaml
        for event in events:
            spot = (event.start_mark.line + 1, event.start_mark.column + 1)
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event, spot)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._start({} if isinstance(event, yaml.MappingStartEvent) else [], event, spot)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event.anchor, spot)
            elif isinstance(event, yaml.DocumentStartEvent) and self._roots:
                self._refuse("holds more than one YAML document: give each a file of its own", spot)
        value, root = self._roots[0] if self._roots else (None, (1, 1))
        return SpottedSource(self._path, value, self._spots, root)

    def _scalar(self, event: Any, spot: Spot) -> None:
        self._count(spot)
        try:
            value = scalar(event.value, event.tag, plain=event.implicit[0] and not event.style)
        except ScalarRefused as refused:
            said = str(refused)
            self._refuse(self._tag_words(event.tag) if said == "tag" else f"is not usable YAML: {said}", spot)
        if self._wants_key():
            top = self._open[-1]
            if event.value == _MERGE and not event.style:
                top.key = _MERGED
            else:
                # As in JSON, names are texts: a status code as a key is the text of its digits.
                top.key = event.value
                if top.key in top.value:
                    said = f'is not usable YAML: the key "{shown(top.key)}" stands twice in one mapping'
                    self._refuse(said, spot)
            top.key_spot = spot
            return
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 0, 1)
        self._put(value, spot, 0, 1)

    def _start(self, value: Any, event: Any, spot: Spot) -> None:
        self._count(spot)
        if event.tag not in _PLAIN_TAGS:
            self._refuse(self._tag_words(event.tag), spot)
        if self._wants_key():
            self._refuse("is not usable YAML: a mapping's key is itself a mapping or a list", spot)
        if len(self._open) >= MAX_DEPTH:
            self._refuse(f"is nested deeper than {MAX_DEPTH} levels", spot)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(value, spot, event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        for mapping, spots in done.merged:
            for key in mapping:
                if key not in done.value:
                    done.value[key] = mapping[key]
                    done.spots[key] = spots[key]
        self._spots[id(done.value)] = done.spots
        if done.anchor is not None:
            self._anchors[done.anchor] = _Anchored(done.value, done.height, done.size)
        self._put(done.value, done.spot, done.height, done.size)

    def _alias(self, name: str, spot: Spot) -> None:
        self._count(spot)
        if name not in self._anchors:
            self._refuse(f"is not valid YAML: no anchor is called {shown(name)}", spot)
        anchored = self._anchors[name]
        if anchored is None:
            self._refuse("is not usable YAML: an alias stands for what it is a part of", spot)
        if self._wants_key():
            self._refuse("is not usable YAML: an alias is used as a key", spot)
        self._aliased += anchored.size
        if self._aliased > MAX_YAML_ALIASED:
            self._refuse(f"is not read: its aliases repeat over {MAX_YAML_ALIASED:,} values", spot)
        if len(self._open) + anchored.height > MAX_DEPTH:
            self._refuse(f"is nested deeper than {MAX_DEPTH} levels", spot)
        self._put(anchored.value, spot, anchored.height, anchored.size)

    def _put(self, value: Any, spot: Spot, height: int, size: int) -> None:
        if not self._open:
            self._roots.append((value, spot))
            return
        top = self._open[-1]
        top.height = max(top.height, height + 1)
        top.size += size
        if isinstance(top.value, list):
            top.spots[len(top.value)] = (spot, spot)
            top.value.append(value)
        elif top.key is _MERGED:
            self._merge(top, value, spot)
            top.key = _NO_KEY
        else:
            top.value[top.key] = value
            top.spots[top.key] = (top.key_spot, spot)
            top.key = _NO_KEY

    def _merge(self, top: _Open, value: Any, spot: Spot) -> None:
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                self._refuse("is not usable YAML: << merges mappings only", spot)
            top.merged.append((each, self._spots.get(id(each), {})))

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is _NO_KEY

    def _count(self, spot: Spot) -> None:
        self._values += 1
        if self._values > MAX_YAML_VALUES:
            self._refuse(f"holds over {MAX_YAML_VALUES:,} values", spot)

    def _tag_words(self, tag: str) -> str:
        return f"is not plain YAML: the tag {shown(str(tag))} is not read"

    def _refuse(self, message: str, spot: Spot) -> NoReturn:
        raise UnreadableSource(message, Place(self._path, *spot))
