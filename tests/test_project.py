"""The rules of the project that no linter knows: who may import whom, what build files may hold.

Each check is a function from a source text to what is wrong with it, and is itself tested on planted
violations: a rule that cannot fail guards nothing.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
STDLIB = set(sys.stdlib_module_names)
COMPILERS = {"numba", "llvmlite"}
DEVELOPMENT = {"bench", "scenes", "tests"}
"""Not installed, so nothing that is installed may import them."""

ALLOWED = {
    "contracts": {"pydantic"},
    "workflows": {"temporalio", "contracts", "workflows"},
    "tracer": {"numpy", "PIL", "OpenEXR", "Imath", "tracer"},  # Imath comes with OpenEXR
    "tracer.kernels": {"numpy", "numba", "llvmlite", "tracer"},
    "store": {"boto3", "botocore", "types_boto3_s3", "store"},
}
"""What a package may import beside the standard library; the longest matching name counts."""

FORBIDDEN = {
    "activities": COMPILERS | {"client", "settings", "starter", "worker"},
    "client": COMPILERS | {"activities", "tracer.kernels", "worker"},
    "settings": COMPILERS | {"tracer", "store", "activities", "workflows"},
    "starter": COMPILERS | {"activities", "tracer.kernels", "worker"},
    "telemetry": COMPILERS | {"tracer", "store", "activities", "workflows"},
    "worker": COMPILERS,
}

EXCEPT = {"client": {"activities.merge", "activities.scenes"}, "settings": {"tracer.limits"}}
"""Parts of forbidden packages that know nothing of Temporal, which a desk needs to do a worker's work, or
that import nothing themselves."""

IMPURE = {"os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid"}
"""Modules of the standard library that a workflow may not use: a replay must see what the first run saw."""
CLOCKS = {"now", "utcnow", "today"}

SKIPS = {
    "pytest.importorskip",
    "pytest.mark.skip",
    "pytest.mark.skipif",
    "pytest.mark.xfail",
    "pytest.skip",
    "pytest.xfail",
}

LONGEST_FILE = 350
LONGER_FILES = {"contracts.py": 650}
"""contracts.py holds every model that crosses a process; the design wants those in one place."""


def python_files() -> list[Path]:
    hidden = re.compile(r"(^|/)(\.[^/]+|build|out|[^/]+\.egg-info)/")
    return sorted(p for p in ROOT.rglob("*.py") if not hidden.search(p.relative_to(ROOT).as_posix()))


def module_name(path: str) -> str:
    """tracer/kernels/__init__.py -> tracer.kernels"""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(source: str, path: str) -> Iterator[str]:
    """Dotted names of everything that a module imports, at whatever depth, relative and dynamic ones too."""
    name = module_name(path)
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                parts = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*parts, *([module] if module else [])])
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(target)), *_]):
                yield target
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield target


def import_violations(source: str, path: str) -> list[str]:
    module = module_name(path)

    def is_in(name: str, prefixes: set[str]) -> bool:
        return any(name == p or name.startswith(p + ".") for p in prefixes)

    rule = max((name for name in ALLOWED if is_in(module, {name})), key=len, default=None)
    top = module.split(".")[0]
    forbidden = FORBIDDEN.get(top, set()) | (set() if top in DEVELOPMENT else DEVELOPMENT)
    wrong = []
    for name in imported(source, path):
        if rule is not None and not is_in(name, ALLOWED[rule] | STDLIB):
            wrong.append(f"{path} imports {name}: not allowed in {rule}")
        elif is_in(name, forbidden) and not is_in(name, EXCEPT.get(top, set())):
            wrong.append(f"{path} imports {name}: forbidden there")
        elif rule == "workflows" and is_in(name, IMPURE):
            wrong.append(f"{path} imports {name}: a workflow must give the same on replay")
    return wrong


def clock_violations(source: str, path: str) -> list[str]:
    """Reads of the clock or the environment in workflow code."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        match node:
            # workflow.now() is the one clock that replays.
            case ast.Attribute(attr=attr, value=value) if attr in CLOCKS and ast.unparse(value) != "workflow":
                wrong.append(f"{path}:{node.lineno} reads the clock: {ast.unparse(node)}")
            case ast.Attribute(attr="environ" | "getenv"):
                wrong.append(f"{path}:{node.lineno} reads the environment")
    return wrong


def skip_violations(source: str, path: str) -> list[str]:
    """Tests that are skipped, or expected to fail, without saying why."""
    nodes = list(ast.walk(ast.parse(source)))
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    wrong = []
    for node in nodes:
        if not isinstance(node, ast.Attribute) or ast.unparse(node) not in SKIPS:
            continue
        call = calls.get(id(node))  # None: a bare @pytest.mark.skip
        reasons = [] if call is None else [k.value for k in call.keywords if k.arg == "reason"]
        if call is not None and ast.unparse(node) in {"pytest.skip", "pytest.xfail"}:
            reasons += call.args[:1]
        if not any(ast.unparse(reason).strip("'\" ") for reason in reasons):
            wrong.append(f"{path}:{node.lineno} {ast.unparse(node)} without a reason")
    return wrong


def machine_violations(text: str, path: str) -> list[str]:
    """Paths of one machine, and package hosts or other addresses that only some networks reach."""
    wrong = []
    for number, line in enumerate(text.splitlines(), 1):
        # A host with a dot is on a network; a plain name is this machine or a service of the compose file.
        hosts = [host for host in re.findall(r"\w+://([^/\s:\"']+)", line) if "." in host]
        wrong += [f"{path}:{number} names the host {host}" for host in hosts if not host.startswith("127.")]
        if re.search(r"--(extra-)?index-url|--find-links|--trusted-host|PIP_(EXTRA_)?INDEX_URL", line):
            wrong.append(f"{path}:{number} names a package index")
        if found := re.search(r"(?<![\w.$}~])/(root|home|Users|work|tmp|opt|mnt)/\w", line):
            wrong.append(f"{path}:{number} holds a path of one machine: {found.group()}")
    return wrong


def pins(constraints: str) -> dict[str, str]:
    """Name (normalised) -> version. Raises ValueError for a line that is no exact pin."""
    found = {}
    for line in constraints.splitlines():
        if line and not line.startswith("#"):
            if not (match := re.fullmatch(r"([\w.-]+)==([\w.]+)", line)):
                raise ValueError(f"not an exact pin: {line}")
            found[normalised(match[1])] = match[2]
    return found


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pin_violations(requirements: list[str], constraints: str) -> list[str]:
    pinned = pins(constraints)
    wrong = []
    for requirement in map(Requirement, requirements):
        version = pinned.get(normalised(requirement.name))
        if version is None:
            wrong.append(f"{requirement.name} is not pinned")
        elif not requirement.specifier.contains(version):
            wrong.append(f"{requirement.name}=={version} is not {requirement.specifier}")
    return wrong


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_imports_follow_the_rules() -> None:
    wrong = [v for p in python_files() for v in import_violations(p.read_text(), relative(p))]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("contracts.py", "import numpy"),
        ("contracts.py", "from settings import Settings"),
        ("workflows/frame.py", "from tracer.scene import PixelRect"),
        ("workflows/frame.py", "def f():\n    import store"),
        ("workflows/frame.py", "import time"),
        ("workflows/frame.py", "from os import environ"),
        ("workflows/frame.py", "from ..settings import connect"),
        ("tracer/build.py", "import temporalio.activity"),
        ("tracer/build.py", "from numba import njit"),
        ("tracer/build.py", "import importlib\nimportlib.import_module('numba')"),
        ("tracer/kernels/trace.py", "import contracts"),
        ("store/local.py", "from temporalio import activity"),
        ("store/local.py", "from tracer import film"),
        ("activities/tiles.py", "from settings import Settings"),
        ("activities/tiles.py", "import numba"),
        ("client/render.py", "from numba import njit"),
        ("starter.py", "from tracer.kernels import trace"),
        ("worker.py", "import numba"),
        ("worker.py", "from tests import farm"),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str) -> None:
    assert import_violations(source, path) != []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("contracts.py", "import hashlib\nfrom pydantic import BaseModel"),
        ("workflows/frame.py", "import asyncio\nfrom datetime import timedelta\nfrom . import state"),
        ("tracer/kernels/trace.py", "import numba\nfrom llvmlite import ir\nfrom ..scene import Scene"),
        ("store/__init__.py", "from .base import Store"),
        ("store/s3.py", "from botocore.config import Config"),
        ("tests/test_worker.py", "import numba, worker\nfrom tests import farm"),
    ],
)
def test_an_allowed_import_is_not_found(path: str, source: str) -> None:
    assert import_violations(source, path) == []


def test_workflows_read_neither_clock_nor_environment() -> None:
    files = [p for p in python_files() if relative(p).startswith("workflows/")]
    assert files
    assert [v for p in files for v in clock_violations(p.read_text(), relative(p))] == []


@pytest.mark.parametrize(
    "source",
    ["datetime.now(UTC)", "datetime.datetime.utcnow()", "date.today()", "os.environ['A']", "os.getenv('A')"],
)
def test_a_read_of_the_clock_or_the_environment_is_found(source: str) -> None:
    assert clock_violations(source, "workflows/frame.py") != []
    assert clock_violations("workflow.now()", "workflows/frame.py") == []


@pytest.mark.parametrize("module", ["starter", "worker, workflows.frame"])
def test_numba_is_not_loaded_by(module: str) -> None:
    """Otherwise `tessera status` takes seconds, and the control worker hundreds of megabytes."""
    code = f"import sys, {module}; print([m for m in {sorted(COMPILERS)} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_every_skip_has_a_reason() -> None:
    files = [p for p in python_files() if relative(p).startswith("tests/")]
    assert [v for p in files for v in skip_violations(p.read_text(), relative(p))] == []


def test_a_skip_without_a_reason_is_found() -> None:
    for source in ["pytest.skip()", "pytest.mark.skip", "pytest.mark.xfail(strict=True)", "pytest.skip('')"]:
        assert skip_violations(source, "tests/test_a.py") != [], source
    for source in ["pytest.skip('no disk')", "pytest.mark.skipif(a, reason='b')", "pytest.skip(reason=why)"]:
        assert skip_violations(source, "tests/test_a.py") == [], source


BUILD_FILES = [
    "Makefile",
    ".ci/run",
    ".dockerignore",
    "Dockerfile",
    "constraints.txt",
    "docker-compose.yml",
    "pyproject.toml",
    *(relative(p) for p in sorted(ROOT.glob("deploy/**/*")) if p.is_file()),
]


@pytest.mark.parametrize("path", BUILD_FILES)
def test_a_build_file_names_no_machine_and_no_host(path: str) -> None:
    assert machine_violations((ROOT / path).read_text(), path) == []


def test_the_sources_name_no_machine() -> None:
    wrong = [
        v for p in python_files() for v in machine_violations(p.read_text(), relative(p)) if "path of" in v
    ]
    assert [v for v in wrong if not v.startswith("tests/test_project.py")] == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install --index-url=mirror x",
        "curl https://packages.example.org/x",
        "PYTHON = /home/anna/bin/python",
        "cd /opt/tree && make",
        "cp '/tmp/x' .",
    ],
)
def test_a_machine_in_a_build_file_is_found(line: str) -> None:
    assert machine_violations(line, "Makefile") != []
    assert machine_violations("http://127.0.0.1:80 http://s3:8333 .:/project ./tmp/x", "Makefile") == []


def test_constraints_cover_what_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    assert "tessera[otel]" in extras  # the tests need that extra too
    requirements = [*project["dependencies"], *(r for r in extras if not r.startswith("tessera["))]
    assert pin_violations(requirements, (ROOT / "constraints.txt").read_text()) == []


def test_a_missing_or_wrong_pin_is_found() -> None:
    assert pin_violations(["ruamel.yaml>=0.19"], "ruamel_yaml==0.19.1") == []
    assert pin_violations(["numpy>=2.4"], "scipy==1.0") != []
    assert pin_violations(["numpy>=2.4"], "# a comment\nnumpy==2.3.1") != []
    with pytest.raises(ValueError, match="numpy>=2"):
        pins("numpy>=2")


def test_no_file_is_longer_than_a_person_reads() -> None:
    lengths = {relative(p): len(p.read_text().splitlines()) for p in python_files()}
    assert {p: n for p, n in lengths.items() if n > LONGER_FILES.get(p, LONGEST_FILE)} == {}
