"""The cache gives back what was put in, or nothing; and nobody else can put anything in."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from autodiff_cli import system as cache
from autodiff_cli.system import MAX_ENTRY_BYTES, CacheUnavailableError, entry_name, load, open_cache_folder, store

CONTENT = random.Random(1).randbytes(60)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of a user who has not used the program yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("AUTODIFF_CACHE", raising=False)
    return tmp_path / "autodiff"


@pytest.mark.parametrize("content", [b"", b"tables", CONTENT])
def test_what_is_stored_is_loaded(home: Path, content: bytes) -> None:
    assert load("a") is None
    store("a", content)
    assert load("a") == content
    assert load("b") is None
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "a").stat().st_mode) == 0o600
    assert os.listdir(home) == ["a"]


def test_the_last_content_counts(home: Path) -> None:
    store("a", b"old")
    store("a", b"new")
    assert load("a") == b"new"
    assert os.listdir(home) == ["a"]


@pytest.mark.slow
def test_a_flipped_bit_is_noticed_wherever_it_is(home: Path) -> None:
    store("a", CONTENT)
    whole = (home / "a").read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (home / "a").write_bytes(damaged)
        assert load("a") is None
    (home / "a").write_bytes(whole)
    assert load("a") == CONTENT


def test_a_cut_or_longer_entry_is_noticed(home: Path) -> None:
    store("a", CONTENT)
    whole = (home / "a").read_bytes()
    for damaged in [whole[:n] for n in range(len(whole))] + [whole + b"x"]:
        (home / "a").write_bytes(damaged)
        assert load("a") is None


def test_an_entry_under_another_name_is_noticed(home: Path) -> None:
    store("a", CONTENT)
    (home / "a").rename(home / "b")
    assert load("b") is None


def test_a_pipe_in_the_place_of_an_entry_keeps_nobody_waiting(home: Path) -> None:
    store("a", CONTENT)
    (home / "a").unlink()
    os.mkfifo(home / "a")
    assert load("a") is None
    store("a", CONTENT)
    assert load("a") == CONTENT


def test_a_link_or_a_folder_in_the_place_of_an_entry_is_not_read(home: Path) -> None:
    store("a", CONTENT)
    (home / "a").rename(home.parent / "elsewhere")
    (home / "a").symlink_to(home.parent / "elsewhere")
    assert load("a") is None
    (home / "a").unlink()
    (home / "a").mkdir()
    assert load("a") is None
    store("a", CONTENT)
    assert load("a") is None
    assert os.listdir(home) == ["a"]


@pytest.mark.parametrize("mode", [0o660, 0o606, 0o622])
def test_an_entry_that_others_can_write_is_not_read(home: Path, mode: int) -> None:
    store("a", CONTENT)
    (home / "a").chmod(mode)
    assert load("a") is None


def test_an_entry_of_another_user_is_not_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store("a", CONTENT)
    owner = home.stat().st_uid
    askings = iter([owner, owner + 1])  # the folder is this user's, the entry is not
    monkeypatch.setattr(os, "getuid", lambda: next(askings))
    assert load("a") is None
    assert next(askings, None) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
def test_a_folder_that_others_can_write_is_not_used(home: Path, mode: int) -> None:
    store("a", CONTENT)
    home.chmod(mode)
    store("b", CONTENT)
    assert load("a") is None
    assert os.listdir(home) == ["a"]


def test_a_folder_of_another_user_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: home.parent.stat().st_uid + 1)
    store("a", CONTENT)
    assert os.listdir(home) == []


def test_a_link_to_a_folder_is_not_used(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    home.symlink_to(tmp_path / "elsewhere")
    store("a", CONTENT)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_file_in_the_place_of_the_folder_is_no_obstacle(home: Path) -> None:
    home.write_text("a file where the folder should be")
    store("a", CONTENT)
    assert load("a") is None


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home directory")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("AUTODIFF_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    store("a", CONTENT)
    assert load("a") is None


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_other_systems_have_a_cache_where_they_recommend_it(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows every folder looks as if others could write to it; its access list is what protects it."""
    monkeypatch.delenv("AUTODIFF_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    recommended = SimpleNamespace(user_cache_path=lambda name, appauthor: tmp_path / name)
    monkeypatch.setitem(sys.modules, "platformdirs", recommended)
    (tmp_path / "autodiff").mkdir()
    (tmp_path / "autodiff").chmod(0o777 if platform == "win32" else 0o700)
    store("a", CONTENT)
    assert load("a") == CONTENT
    assert os.listdir(tmp_path / "autodiff") == ["a"]


def test_an_unusable_folder_has_a_reason(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(CacheUnavailableError, match="others can write to it"):
        open_cache_folder()
    home.rmdir()
    home.write_text("a file where the folder should be")
    with pytest.raises(CacheUnavailableError, match=f"{home}: file exists"):
        open_cache_folder()
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    with pytest.raises(CacheUnavailableError, match="AUTODIFF_CACHE is off"):
        open_cache_folder()


def test_off_reads_and_writes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store("a", CONTENT)
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    store("b", CONTENT)
    assert load("a") is None
    assert os.listdir(home) == ["a"]


def test_off_makes_no_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    store("a", CONTENT)
    assert load("a") is None
    assert not home.exists()


def test_a_full_disk_leaves_the_old_entry_and_nothing_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store("a", b"old")

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "replace", full)
        store("a", b"new")
    assert load("a") == b"old"
    assert os.listdir(home) == ["a"]


def test_entries_that_are_too_large_are_not_stored(home: Path) -> None:
    store("a", bytes(MAX_ENTRY_BYTES + 1))
    assert load("a") is None
    store("a", CONTENT)
    with (home / "a").open("ab") as entry:
        entry.truncate(MAX_ENTRY_BYTES + 1)
    assert load("a") is None


def test_the_oldest_entries_make_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_CACHE_BYTES", 4000)
    now = time.time()
    for i in range(10):
        store(f"e{i}", bytes(1000 - 32))
        os.utime(home / f"e{i}", (now - 100 + i, now - 100 + i))
    assert sorted(os.listdir(home)) == ["e6", "e7", "e8", "e9"]


def test_old_files_of_killed_processes_are_removed(home: Path) -> None:
    store("a", CONTENT)
    old, young = home / ".b.0123.part", home / ".c.4567.part"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (0, 0))
    store("d", CONTENT)
    assert sorted(os.listdir(home)) == [young.name, "a", "d"]


def test_writers_and_readers_at_the_same_time_see_whole_entries(home: Path) -> None:
    contents = [bytes([i]) * (i + 1) * 1000 for i in range(40)]
    with ThreadPoolExecutor(4) as pool:
        written = pool.map(lambda content: store("a", content), contents)
        found = [*pool.map(lambda _: load("a"), range(200))]
        assert [*written] == [None] * len(contents)
    assert {content for content in found if content is not None} <= set(contents)
    assert load("a") in contents
    assert os.listdir(home) == ["a"]


@pytest.mark.usefixtures("home")
def test_two_processes_share_it() -> None:
    store("a", CONTENT)
    code = "import sys; from autodiff_cli.system import load; sys.stdout.buffer.write(load('a'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == CONTENT


def test_the_name_of_an_entry_depends_on_its_parts() -> None:
    names = [entry_name("k", *parts) for parts in (["a"], ["b"], ["a", "b"], ["ab"], ["a", ""], [])]
    assert len(set(names)) == len(names)
    assert entry_name("k", "a") == names[0] != entry_name("l", "a")


@pytest.mark.slow
def test_without_the_cache_matplotlib_stores_nothing_either(tmp_path: Path) -> None:
    home, data, figure = tmp_path / "home", tmp_path / "data.csv", tmp_path / "figure.svg"
    home.mkdir()
    data.write_text("x,y\n0,1\n1,3.1\n2,4.9\n3,7\n")
    command = [sys.executable, "-m", "autodiff_cli", "train", "y ~ a + b*x", str(data), "--plot", str(figure)]
    done = subprocess.run(
        command, env={"HOME": str(home), "AUTODIFF_CACHE": "off"}, capture_output=True, text=True, check=True
    )
    assert done.stderr == f"plot written to {figure}\n"
    assert figure.exists()
    assert not [*home.rglob("*")]
