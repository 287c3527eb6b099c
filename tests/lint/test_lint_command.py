"""`oncegate lint` as people run it: what it reads, and what it says of what it cannot."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_folders_globs_and_files_are_read_once_each(command: Any, manifest: Any) -> None:
    manifest("place_order", file="a/tools.json")
    manifest("get_order", file="a/b/more.json")
    manifest("zorble", file="a/node_modules/x/tools.json")
    Path("a/package.json").write_text('{"name": "x", "version": "1"}')
    Path("a/notes.txt").write_text("no tools")
    assert command("a")[:2] == (0, "2 tools in 2 files: no findings\n")
    assert command("a", "a/tools.json", "./a/b/more.json")[1] == "2 tools in 2 files: no findings\n"
    assert command("a/*.json")[1] == "1 tool in 1 file: no findings\n"


def test_standard_input(command: Any, monkeypatch: Any) -> None:
    tools = [{"name": "zorble", "description": "x", "input_schema": {"type": "object", "properties": {}}}]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(tools).encode())))
    status, out, _ = command("-", "--from", "anthropic")
    assert status == 1
    assert out.startswith("-:1:")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b'{"tools": [', "a.json:1:12: "),
        ("a.json", b'{"name": "x", "version": "1"}', "declares no tools"),
        ("a.yaml", b"tools: [\n  {name: x\n", "a.yaml:"),
        ("a.toml", b"[tools.x\n", "a.toml:1:"),
        ("a.py", b"def x(:\n", "a.py:1:"),
        ("a.json", b"\xff\xfe\xff", "a.json"),
        ("a.json", b"", "a.json"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_status_2(name: str, content: bytes, said: str, command: Any) -> None:
    Path(name).write_bytes(content)
    status, out, err = command(name)
    assert (status, err.count("\n")) == (2, 1)
    assert said in err
    assert "Traceback" not in err
    assert "1 file not read" in out


def test_one_broken_file_hides_no_finding_of_another(command: Any, manifest: Any) -> None:
    manifest("zorble")
    Path("broken.json").write_text("{")
    status, out, err = command("broken.json", "tools.json", "missing.json")
    assert status == 2
    assert "OG108" in out
    assert len(err.splitlines()) == 2


def test_a_file_of_50_mb_is_one_clear_line(command: Any) -> None:
    """Read whole where the format allows it, refused where not; never a trace."""
    with open("big.toml", "wb") as file:
        file.write(b"[tools.x]\n# " + b"x" * (50 << 20))
    status, _, err = command("big.toml")
    assert (status, err.count("\n")) == (2, 1)
    assert "bytes" in err


@pytest.mark.parametrize("name", ["x" * 10_000, "🛒 кор", "\u202egnp", "a\x07b"])
def test_names_of_any_kind_are_reported_on_printable_lines(name: str, command: Any, manifest: Any) -> None:
    manifest({"name": name, "description": "x", "inputSchema": {"type": "object", "properties": {}}})
    for form in ("text", "github"):
        status, out, err = command("tools.json", "--format", form)
        assert (status, err) == (1, "")
        assert "OG201" in out
        assert all(line.isprintable() for line in out.splitlines())


@pytest.mark.parametrize(
    "arguments", [[], ["tools.json", "--select", "XX"], ["--stdio", "'"], ["https://x.example", "--header", "nocolon"]]
)
def test_what_makes_no_sense_is_one_line_and_status_2(arguments: list[str], command: Any, manifest: Any) -> None:
    manifest("place_order")
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("oncegate lint: ")
    assert err.count("\n") == 1


def test_a_live_server_that_is_not_there_is_one_line(command: Any) -> None:
    status, _, err = command("--stdio", f"{sys.executable} -c pass")
    assert (status, err.count("\n")) == (2, 1)


def test_a_live_server_is_asked_for_its_tools(command: Any) -> None:
    """Over stdio, by a server of a few lines."""
    Path("server.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if 'id' not in asked:\n"
        "        continue\n"
        "    tools = [{'name': 'finalise_basket', 'description': 'x', 'inputSchema': {'type': 'object', 'properties': {}}}]\n"
        "    start = {'protocolVersion': '2025-06-18', 'capabilities': {}, 'serverInfo': {'name': 's', 'version': '1'}}\n"
        "    result = start if asked['method'] == 'initialize' else {'tools': tools}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)\n"
    )
    status, out, err = command("--stdio", f"{sys.executable} server.py")
    assert (status, err) == (1, "")
    assert "OG101 finalise_basket" in out


def test_a_live_server_that_hangs_is_given_up_after_the_time_that_is_allowed(command: Any) -> None:
    Path("server.py").write_text("import sys\nsys.stdin.read()\n")
    status, _, err = command("--stdio", f"{sys.executable} server.py", "--timeout", "0.2")
    assert status == 2
    assert err.endswith(": gave no list of tools within 0.2 s\n")
    for wrong in ("0", "-1", "inf", "nan"):
        status, _, err = command("--stdio", "true", "--timeout", wrong)
        assert (status, err) == (2, "oncegate lint: --timeout must be more than 0 seconds\n")


@pytest.mark.parametrize("form", ["text", "github"])
def test_a_console_that_has_not_every_character_shows_the_rest_escaped(form: str, manifest: Any) -> None:
    """9.4: no trace, whatever the console's encoding."""
    file = manifest("🛒_cart_žlutý", "x" * 100)
    ran = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "lint", str(file), "--format", form],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, b"")
    assert b"\\U0001f6d2_cart" in ran.stdout
    assert ran.stdout.isascii()


def test_the_demo_merchant_is_clean(command: Any) -> None:
    """What the project shows as an example has nothing to remark."""
    example = (ROOT / "config/merchants/demo-shop.toml.example").read_text(encoding="utf-8")
    Path("demo-shop.toml").write_text(example, encoding="utf-8")
    assert command("demo-shop.toml")[:2] == (0, "2 tools in 1 file: no findings\n")


def test_lint_needs_none_of_the_servers_libraries() -> None:
    """The plain install has aiohttp and rapidfuzz; whatever else is imported here would be missing there."""
    script = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'msgspec', 'pydantic', 'redis', 'starlette', 'yaml', 'jsonschema_rs', 'mcp'}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from gateway.cli import main\n"
        "sys.exit(main(['lint', 'config/merchants/demo-shop.toml.example', 'tests/requirements.yaml']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 tools in 1 file: no findings" in ran.stdout, ran.stderr
    assert "No such file" in ran.stderr


def test_yaml_without_its_library_says_what_to_install(command: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    Path("openapi.yaml").write_text("openapi: 3.1.0\npaths: {}\n")
    status, _, err = command("openapi.yaml")
    assert status == 2
    assert "oncegate[lint]" in err


def test_the_hook_for_pre_commit_runs_what_exists() -> None:
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["id"] == "oncegate-lint"
    assert hook["entry"].split() == ["oncegate", "lint"]
    assert {"name", "entry", "language", "files"} <= set(hook)


def test_the_example_for_ci_runs_what_exists() -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((ROOT / "examples/github-actions-lint.yml").read_text(encoding="utf-8"))
    commands = [step["run"] for step in job["jobs"]["lint"]["steps"] if "run" in step]
    assert any("--format sarif" in each for each in commands)
    assert any("--format github" in each for each in commands)
