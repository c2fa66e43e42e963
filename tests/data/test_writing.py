"""Atomic writing: files are written completely or not at all, with the permissions of the file they replace."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest

from autodiff_cli import system as writing
from tests.support import run_cli


def write(path: str | os.PathLike[str], text: str = "new") -> None:
    with writing.open_atomic_text(path) as stream:
        stream.write(text)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("old")
    with contextlib.suppress(ZeroDivisionError), writing.open_atomic_text(path) as stream:
        stream.write(f"new {1 / 0}")
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_link_stays_a_link_and_a_new_file_has_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "target.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "target.json")
    write(tmp_path / "link.json")
    assert (tmp_path / "target.json").read_text() == "new"
    (tmp_path / "plain").write_text("")
    assert stat.S_IMODE((tmp_path / "target.json").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_link_to_nothing_yet_makes_the_file(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("target.json")
    write(tmp_path / "link.json")
    assert (tmp_path / "target.json").read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_what_is_written_over_keeps_its_rights(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("old")
    path.chmod(mode)
    with writing.open_atomic_text(path) as stream:
        (part,) = (other for other in tmp_path.iterdir() if other != path)
        assert stat.S_IMODE(part.stat().st_mode) == mode  # also during writing
        stream.write("new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)


def test_what_is_written_over_keeps_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root can change the owner of a file; for other users this is not an error."""
    path = tmp_path / "model.json"
    path.write_text("old")
    asked: list[tuple[int, int]] = []

    def refuse(_file: int, owner: int, group: int) -> None:
        asked.append((owner, group))
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    write(path)
    assert asked == [(path.stat().st_uid, -1), (-1, path.stat().st_gid)]
    assert path.read_text() == "new"


def test_whether_a_file_can_be_written_is_known_before(tmp_path: Path) -> None:
    writing.check_writable(tmp_path / "new.json")
    assert not [*tmp_path.iterdir()]
    for path in (tmp_path, tmp_path / "nowhere" / "model.json"):
        with pytest.raises(OSError, match="irectory"):
            writing.check_writable(path)


def test_a_file_that_may_not_be_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root can write read-only files
    for attempt in (writing.check_writable, write):
        with pytest.raises(PermissionError):
            attempt(path)
    assert path.read_text() == "old"


@pytest.mark.parametrize("length", [242, 250, 255])
def test_the_longest_names_that_a_file_can_have(length: int, tmp_path: Path) -> None:
    path = tmp_path / ("n" * length)
    writing.check_writable(path)
    write(path)
    assert path.read_text() == "new"


@pytest.mark.parametrize(
    "line", ["trace x^2 --x 3 -o {}", "train 'y ~ a*x' {csv} --save {}", "predict {model} {csv} -o {}"]
)
def test_a_link_to_itself_is_refused_in_words(line: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    csv, model = tmp_path / "line.csv", tmp_path / "model.json"
    csv.write_text("x,y\n1,2\n2,4\n")
    run_cli(["train", "y ~ a*x", str(csv), "--save", str(model)])
    refused = run_cli(line.format(tmp_path / "loop", csv=csv, model=model))
    assert refused.status == 1
    assert refused.stderr.endswith(f"error: cannot write {tmp_path / 'loop'}: too many levels of symbolic links\n")


def test_a_model_saved_to_a_pipe_reaches_its_reader(tmp_path: Path) -> None:
    """The reader waits during the whole fit: testing the pipe in advance would end it."""
    pipe, csv = tmp_path / "pipe", tmp_path / "line.csv"
    os.mkfifo(pipe)
    csv.write_text("x,y\n1,2\n2,4\n")
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()), daemon=True)
    reader.start()
    assert run_cli(["train", "y ~ a*x", str(csv), "--save", str(pipe)]).status == 0
    reader.join(20)
    assert '"format": "autodiff model"' in heard[0]


def test_an_open_pipe_of_the_process_can_be_named() -> None:
    """In `--save >(gzip > model.json.gz)` the shell passes a path such as `/dev/fd/63`."""
    end, start = os.pipe()
    with os.fdopen(end) as reader, os.fdopen(start, "w") as held:
        writing.check_writable(f"/dev/fd/{start}")
        write(f"/dev/fd/{start}")
        held.close()
        assert reader.read() == "new"
