"""Options in a TOML file: read by --config, before those of the command line, and written by --save-config."""

from __future__ import annotations

import difflib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from biasgp.cli.options import of_output
from biasgp.messages import WrongUseError, clip

LARGEST = 1_000_000
"""Bytes of a file of options."""
NOT_READ = frozenset({"config", "save_config", "tables", "help"})
NOT_KEPT = NOT_READ | {"force", "as_json", "quiet", "verbose"}
"""What is said anew for each run."""
JOINED = frozenset({"features"})
"""Options that take several names with commas between, and may be a list in a file."""


def _read(ctx: typer.Context, path: Path | None) -> Path | None:
    """Takes the options in a file for the defaults of the command."""
    if path is None or ctx.resilient_parsing:
        return path
    known = {_name(param): param for param in ctx.command.params if param.name not in NOT_READ}
    found: dict[str, Any] = {}
    for key, value in _options_in(path).items():
        name = key.replace("-", "_")
        if name not in known:
            close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
            hint = f"Did you mean {close[0]!r}?" if close else "`biasgp fit --help` lists the options."
            raise WrongUseError(f"{path.name}: there is no option {clip(key)!r}. {hint}")
        found[known[name].name or name] = _value(name, value, getattr(known[name], "multiple", False), path.name)
    ctx.default_map = {**(ctx.default_map or {}), **found}
    return path


def _name(param: Any) -> str:
    """Of an option, as it is written, with _ for -."""
    return str(max(param.opts, key=len)).lstrip("-").replace("-", "_")


def _options_in(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        if len(data) > LARGEST:
            raise WrongUseError(f"{path.name} has more than {LARGEST:,} bytes: it is no file of options.")
        return tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise WrongUseError(f"--config {str(path)!r} cannot be read: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeError, RecursionError) as error:
        raise WrongUseError(f"--config {str(path)!r} is no TOML: {clip(str(error), 120)}.") from None


def _value(name: str, value: Any, multiple: bool, file: str) -> Any:
    """What a key says, as the command line would have it."""
    several = isinstance(value, list)
    plain = all(isinstance(each, str | int | float) for each in (value if several else [value]))
    if not plain or (several and not multiple and name not in JOINED):
        raise WrongUseError(f"{file}: {name} must be text, a number, or true or false{', or a list' * multiple}.")
    if several:
        words = [str(each) for each in value]
        return words if multiple else ",".join(words)
    return [str(value)] if multiple else value


def save_config(ctx: typer.Context, path: Path, *, force: bool) -> None:
    """Write what was said, on the command line or in a file, as a file of options."""
    from biasgp.cli.output import new_file

    lines = ["# Options of `biasgp fit`; --config reads them, and what the command line says comes first."]
    for param in ctx.command.params:
        name = param.name or ""
        source = ctx.get_parameter_source(name)
        if name in NOT_KEPT or source is None or source.name == "DEFAULT":
            continue
        value = ctx.params[name]
        if value is not None and value != ():
            lines.append(f"{_name(param).replace('_', '-')} = {_toml(value)}")
    with new_file(path, force=force) as stage:
        stage.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    # The escapes of JSON are those of TOML.
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value))


Config = Annotated[
    Path | None,
    of_output(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_read,
        help="Options in a TOML file, by their names; what the command line says comes first.",
    ),
]
SaveConfig = Annotated[
    Path | None, of_output("--save-config", metavar="FILE", help="Write the options of this run to such a file.")
]
