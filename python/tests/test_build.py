"""The build of the extension, without a build: its footer, its tags, its messages."""

from __future__ import annotations

import importlib.util
import os
import re
import struct
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import duckdb
import pytest

import ccl_sql

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script of the build."""
    for name in ("CARGO_BUILD_TARGET", "CCL_SQL_WHEEL_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    spec = importlib.util.spec_from_file_location("build", PROJECT / "build_extension.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fields(footer: bytes) -> list[str]:
    """The fields of a file's end, as DuckDB reads them: the last one first."""
    texts = [footer[-512:][at : at + 32].rstrip(b"\0").decode() for at in range(0, 256, 32)]
    return texts[::-1]


def test_the_footer_is_duckdbs(build: ModuleType) -> None:
    footer = build.footer("linux_amd64", "1.2.3")
    assert fields(footer) == ["4", "linux_amd64", "v1.5.6", "1.2.3", "C_STRUCT", "", "", ""]
    assert footer[-256:] == bytes(256)
    # A section of WebAssembly: its kind, the length of what follows, its name.
    header = footer[:-512]
    assert header[0] == 0
    assert (header[1] & 127) + (header[2] << 7) == len(footer) - 3
    assert header[3] == len("duckdb_signature")
    assert header[4:20] == b"duckdb_signature"
    assert (header[20] & 127) + (header[21] << 7) == 512
    with pytest.raises(build.BuildError, match="longer"):
        build.footer("x" * 33, "v1")


def test_duckdb_takes_the_footer(build: ModuleType, tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"no library: ccl_sql_init_c_api ccl_sql_main")
    con = duckdb.connect(config={"allow_unsigned_extensions": True})
    here = con.execute("PRAGMA platform").fetchone()
    assert here is not None

    def refusal(platform: str) -> str:
        place = build.extension(library, platform, tmp_path / build.NAME)
        with pytest.raises(duckdb.Error) as raised:
            con.execute(f"LOAD '{place}'")
        return str(raised.value)

    # What is wrong with it is not its end.
    assert "could not be loaded" in refusal(here[0])
    assert "built for the platform 'atari'" in refusal("atari")


def test_what_is_no_extension_is_refused(build: ModuleType, tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"another library")
    with pytest.raises(build.BuildError, match="no symbol"):
        build.extension(library, "linux_amd64", tmp_path / build.NAME)
    assert [path.name for path in tmp_path.iterdir()] == ["lib.so"]


def test_the_installed_extension_is_ours(build: ModuleType) -> None:
    place = ccl_sql.extension()
    with open(place, "rb") as file:
        file.seek(-512, 2)
        found = fields(file.read())
    con = duckdb.connect()
    here = con.execute("PRAGMA platform").fetchone()
    assert here is not None
    assert found[:5] == ["4", here[0], "v1.5.6", build.version(), "C_STRUCT"]


def test_the_version_is_that_of_the_crate(build: ModuleType) -> None:
    text = (build.crate() / "Cargo.toml").read_text()
    assert build.version() == tomllib.loads(text)["package"]["version"]
    if ccl_sql_is_installed():
        assert ccl_sql.__version__ == build.version()


def ccl_sql_is_installed() -> bool:
    import importlib.metadata

    try:
        importlib.metadata.version("ccl-sql")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def test_targets_have_their_platforms(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "tool", lambda name: name)
    monkeypatch.setattr(build, "output", lambda *_: "MACOSX_DEPLOYMENT_TARGET=11.3\n")
    tags = {triple: build.wheel_platform(triple, tmp_path) for triple in build.PLATFORMS}
    assert tags["x86_64-unknown-linux-gnu"] == "linux_x86_64"
    assert tags["aarch64-apple-darwin"] == "macosx_11_0_arm64"
    assert tags["x86_64-pc-windows-msvc"] == "win_amd64"
    monkeypatch.setattr(build, "output", lambda *_: "10.12\n")
    assert build.wheel_platform("x86_64-apple-darwin", tmp_path) == "macosx_10_12_x86_64"
    with pytest.raises(build.BuildError, match="no platform"):
        build.wheel_platform("riscv64gc-unknown-linux-gnu", tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="ELF files are those of Linux")
def test_needs_of_a_library_are_read(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ccl_sql.extension()
    libraries, versions = build.needed(place.read_bytes())
    assert "libc.so.6" in libraries
    assert any(re.fullmatch(r"GLIBC_2\.\d+", name) for name in versions)
    assert not [name for name in libraries if "stdc++" in name or "duckdb" in name]
    triple = "x86_64-unknown-linux-gnu"
    monkeypatch.setenv("CCL_SQL_WHEEL_PLATFORM", "manylinux_2_99_x86_64")
    assert build.wheel_platform(triple, place) == "manylinux_2_99_x86_64"
    monkeypatch.setenv("CCL_SQL_WHEEL_PLATFORM", "manylinux_2_5_x86_64")
    with pytest.raises(build.BuildError, match="needs glibc 2"):
        build.wheel_platform(triple, place)


def test_what_is_no_elf_file_is_refused(build: ModuleType) -> None:
    for data in (b"", b"\x7fELF\x01\x01", struct.pack("<Q", 0xFEEDFACF)):
        with pytest.raises(build.BuildError, match="no ELF file"):
            build.needed(data)


def test_a_machine_without_rust_is_told_so(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"no `cargo` here: install Rust from https"):
        build.build()


@pytest.mark.parametrize("said", ["cargo 1.70.0 (abc 2023-01-01)", "cargo", ""])
def test_a_rust_that_is_too_old_is_told_so(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(build, "tool", lambda name: name)
    monkeypatch.setattr(build, "output", lambda *_: said)
    with pytest.raises(build.BuildError, match="rustup update"):
        build.check_toolchain()
    monkeypatch.setattr(build, "output", lambda *_: "cargo 1.90.0-nightly (abc)")
    build.check_toolchain()


def test_the_sources_of_a_distribution_are_there(build: ModuleType) -> None:
    sources = [str(path) for path in build.sources()]
    assert {"Cargo.toml", "Cargo.lock", "src", "sql"} <= set(sources)
    assert all((build.crate() / path).exists() for path in sources)


def test_a_name_that_duckdb_does_not_load_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, PROJECT / "build_extension.py", "-o", "x.so"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert ".duckdb_extension" in done.stderr


def test_sources_of_a_distribution_are_dated(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old, new = tmp_path / "crate" / "src" / "old.rs", tmp_path / "crate" / "new.rs"
    old.parent.mkdir(parents=True)
    for file in (old, new):
        file.touch()
    before = new.stat().st_mtime_ns
    os.utime(old, (1_580_601_600, 1_580_601_600))
    monkeypatch.setattr(build, "crate", lambda: tmp_path / "crate")
    build.date_sources()
    assert old.stat().st_mtime_ns >= before
    assert new.stat().st_mtime_ns == before


def test_the_commit_of_a_distribution_is_noted(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "crate", lambda: tmp_path)
    assert build.commit() is None
    (tmp_path / ".git").mkdir()
    assert build.commit() is None
    (tmp_path / ".cargo_vcs_info.json").write_text('{"git": {"sha1": "0123456789ab"}}')
    assert build.commit() == "0123456789ab"
