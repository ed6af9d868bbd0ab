"""Physics that a run file can name: what losses, labels, laws of data, starts, constraints and algorithms have in common.

A *role* is a subclass of `Physics` that says which key of a run file names its members, and which methods are called:
`class Constraint(Physics, key="constraint")`. A *member* is a subclass of a role with a name:

    class Ball(Constraint, name="ball"):
        radius: float = option(number(0.0, above=True), 1.0, "radius, in units of sqrt(N)")

It becomes a frozen dataclass, and its options (core/schema.py) are its keys: `constraint = {kind = "ball", radius = 1.2}`. Those of
the package are also written flat, `constraint = "ridge"` with `ridge = 0.5` beside it. A user's file uses the same hook.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import Field, dataclass
from typing import Any, ClassVar, TypeVar, dataclass_transform

from dmft.core.errors import UserError, did_you_mean
from dmft.core.schema import Check, Table, option, told_as

Named = str | Table  # what a run file gives for a role: a name, or a table with its `kind` and its keys
Refusal = str | tuple[str, str]  # why something is not meant for a combination; or (key, or key = value; why)
References = tuple[tuple[str, str], ...]  # papers, each with what it is cited for
KIND = "kind"  # the key of such a table that holds the name
members: dict[str, dict[str, type[Physics]]] = {}  # by the key of the role, then by name


def named(key: str, default: Any, doc: str) -> Any:
    """An option that names a member of a role. The keys of a table are checked; whether the name is known is not, since results are
    read where a user's plugin is missing."""
    return option(check_name(key), default, doc)


@dataclass_transform(frozen_default=True, field_specifiers=(option, named, dataclasses.field))
class Physics:
    """What a run file can name."""

    key: ClassVar[str] = ""  # of the role: what names its members in a run file
    section: ClassVar[str] = "problem"  # where that key stands
    name: ClassVar[str] = ""  # of the member
    built_in: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ()  # keys of its section that it cannot do without, although others can
    lacks: ClassVar[Mapping[str, str]] = {}  # keys that make no sense with it, whoever has them, each with a remark for the message

    def __init_subclass__(cls, key: str = "", section: str = "", name: str = "", **more: Any):
        super().__init_subclass__(**more)
        if key:
            cls.key, cls.section = key, section or cls.section
            members.setdefault(key, {})
        cls.name = name
        if "built_in" not in vars(cls):
            cls.built_in = cls.__module__.partition(".")[0] == "dmft"
        dataclass(frozen=True)(cls)
        if name:
            _register(cls)

    @property
    def references(self) -> References:
        """Papers to cite where it is used, each with what for: a key of dmft/core/references.bib, or a whole BibTeX entry."""
        return ()

    def supports(self, use: Any) -> Refusal:
        """Why it is not meant for a combination (a support.Use), in a line that names the remedy; "" where it is."""
        return ""

    @property
    def table(self) -> dict[str, Any]:
        """Name and keys, as a run file would give them."""
        given = {each: getattr(self, each) for each in options(type(self))}
        return {KIND: self.name} | {each: value for each, value in given.items() if value is not None}


AnyPhysics = TypeVar("AnyPhysics", bound=Physics)


def _register(cls: type[Physics]) -> None:
    """Make a member known by its name."""
    known = members[cls.key]
    if not cls.name.isidentifier():
        raise UserError(f"{cls.__name__}: name = {cls.name!r} is not a name (letters, digits and underscores)")
    if cls.name in known and known[cls.name].built_in and not cls.built_in:
        raise UserError(f"{cls.__name__}: the {cls.key} {cls.name!r} is built in; choose another name")
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name == KIND:
            raise UserError(f"{cls.__name__}: a key cannot be called {KIND!r}, which holds the name; choose another")
    known[cls.name] = cls


def names(key: str) -> list[str]:
    """Names of the members of a role."""
    return list(members[key])


def name_of(value: Any) -> Any:
    """The name that a run file gives for a role."""
    return value.get(KIND) if isinstance(value, Mapping) else value


def find(key: str, value: Any) -> type[Physics] | None:
    """The class that a value of a run file names; None where there is none."""
    name = name_of(value)
    return members[key].get(name) if isinstance(name, str) else None


def options(cls: type[Physics] | None) -> dict[str, Field[Any]]:
    """The keys of a member."""
    fields = dataclasses.fields(cls) if cls else ()  # type: ignore[arg-type]
    in_order = sorted(fields, key=lambda field: field.kw_only is True)  # as a call has them
    return {field.name: field for field in in_order if "check" in field.metadata}


def make(role: type[AnyPhysics], value: Named, section: Any = None) -> AnyPhysics:
    """The object that a value names; where this is a name alone, its keys are those of the section. UserError for an unknown
    name."""
    cls = find(role.key, value)
    if cls is None:
        raise UserError(unknown(role.key, value))
    if isinstance(value, Mapping):
        keys = {each: given for each, given in value.items() if each != KIND}
    else:
        keys = {each: getattr(section, each) for each in options(cls) if cls.built_in and hasattr(section, each)}
    return cls(**keys)  # type: ignore[return-value]


def unknown(key: str, value: Any) -> str:
    """What is wrong with a name that nobody has registered."""
    known, name = names(key), str(name_of(value))
    return (f"unknown {key} {name!r} (known: {', '.join(known)}; others need the plugin that registers them: --plugin FILE.py, or "
            "import it)" + did_you_mean(name, known))


# --- keys of run files -------------------------------------------------------------------------------------------------

def check_name(key: str) -> Check:
    """The check of such an option."""
    def check(value: Any) -> Named:
        if isinstance(value, str):
            return value
        if not isinstance(value, Mapping) or not isinstance(value.get(KIND), str):
            raise ValueError(f'a name, or a table {{{KIND} = "...", ...}}')
        cls = find(key, value)
        if cls is None:
            return frozen(value)
        table = check_table(cls, value)
        return table if options(cls) else value[KIND]

    return told_as(check, role=key)


def check_table(cls: type[Physics], value: Mapping[str, Any], instead: Mapping[Check, Check] | None = None) -> Table:
    """A table of a member with its keys checked, and defaults put in. instead: checks that take the place of some."""
    known, checked = options(cls), {KIND: value[KIND]}
    for each in value:
        if each not in known and each != KIND:
            raise ValueError(f"a table with keys of {cls.name!r} ({', '.join(known) or 'it has none'}), and '{each}' is not one"
                             + did_you_mean(each, known))
    for each, field in known.items():
        if each not in value and field.default is dataclasses.MISSING:
            raise ValueError(f"a table with the key '{each}' ({field.metadata['doc']})")
        check = field.metadata["check"]
        try:
            checked[each] = (instead or {}).get(check, check)(value[each]) if each in value else field.default
        except ValueError as error:
            raise ValueError(f"a table whose {each} is {error}") from None
    return Table({each: found for each, found in checked.items() if found is not None})


def frozen(value: Any) -> Any:
    """A value of a run file as one that can be compared and hashed."""
    if isinstance(value, Mapping):
        return Table({key: frozen(each) for key, each in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


def key_of(cls: type[Physics], name: str, neutral: Any = None) -> Any:
    """An option of a member of the package as a flat key of its section; neutral: its value where the key is not used, for one
    without a default."""
    field = options(cls)[name]
    default = neutral if field.default is dataclasses.MISSING else field.default
    return dataclasses.field(default=default, metadata={**field.metadata, "role": cls.key})


def chosen(section: Any) -> dict[str, type[Physics] | None]:
    """What a section names, by role."""
    return {key: find(key, getattr(section, key)) for key in members if hasattr(section, key)}


def unused(section: Any) -> dict[str, str]:
    """Flat keys of a section that nothing it names has, each with the reason."""
    parts = chosen(section)
    found = {}
    for field in dataclasses.fields(section):
        role: str = field.metadata.get("role", "")
        lacking = next((cls for cls in parts.values() if cls and field.name in cls.lacks), None)
        owner = parts[role] if role else None
        if lacking or (role and (owner is None or not owner.built_in or field.name not in options(owner))):
            key = lacking.key if lacking else role
            found[field.name] = f'{key} = "{name_of(getattr(section, key))}"' + (f" {lacking.lacks[field.name]}" if lacking else "")
    return found


def needed(section: Any) -> dict[str, str]:
    """Keys that what a section names needs although they have a default, each with the reason."""
    return {name: f'{key} = "{cls.name}"' for key, cls in chosen(section).items() if cls
            for name in (*cls.needs, *(each for each, field in options(cls).items()
                                       if cls.built_in and field.default is dataclasses.MISSING))}


def flattened(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a section with objects, and tables of the package's members, written as names and flat keys. ValueError for a
    key that is given twice."""
    flat = dict(table)
    for role in (*members, *members):  # twice: the law of the data brings labels of its own
        value = flat[role].table if isinstance(flat.get(role), Physics) else flat.get(role)
        cls = find(role, value)
        if cls and cls.built_in and isinstance(value, Mapping) and set(value) <= {KIND, *options(cls)}:
            for key in value:
                if key in flat and key != KIND:
                    raise ValueError(f"key '{key}' is given twice, in the table {role} and beside it; leave one of them out")
            flat |= {key: given for key, given in value.items() if key != KIND}
            value = cls.name
        if role in flat:
            flat[role] = value
    return flat
