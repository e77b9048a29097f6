"""Tables and names of strangers: many columns, names that a terminal would obey, a lost stdout."""

import subprocess
import sys

import pytest

from bitgrove.cli.main import main

pytest.importorskip("pyarrow")

from cli_cases import ok, refused, train_argv, write_csv, write_parquet

ESCAPE = "\x1b[2Jx\u202e\nbitgrove: fine"


def test_thousands_of_columns(tmp_path, capsys):
    # Every look at the names of all columns for each column would make this hours.
    names = [f"c{i}" for i in range(8_000)]
    path = tmp_path / "wide.csv"
    rows = [",".join([str(r % 3)] * len(names)) + f",{r % 2}" for r in range(6)]
    path.write_text("\n".join([",".join([*names, "y"]), *rows]) + "\n")
    argv = train_argv(path, tmp_path / "m", "--min_child_samples", "1", objective="binary")
    assert "8000 features" in ok(capsys, *argv)
    ok(capsys, "predict", "--model", tmp_path / "m", "--data", path, "--out", tmp_path / "p.csv")
    short = write_csv(tmp_path / "short.csv", {"c0": [1]})
    said = refused(capsys, "predict", "--model", tmp_path / "m", "--data", short, "--out",
                   tmp_path / "p.csv")  # fmt: skip
    assert said.endswith("and 7991 more")


def test_names_do_not_reach_the_terminal_raw(tmp_path, capsys):
    values = {ESCAPE: [1.0, 2.0] * 40, "y": [1.0, 2.0] * 40}
    data = write_parquet(tmp_path / "data.parquet", values)
    ok(capsys, *train_argv(data, tmp_path / "m"))
    shown = ok(capsys, "info", tmp_path / "m")
    assert r"\x1b[2Jx\u202e\nbitgrove: fine" in shown
    texts = write_parquet(tmp_path / "text.parquet", {**values, ESCAPE: [[1]] * 80})
    said = refused(capsys, *train_argv(texts, tmp_path / "m"))
    bad = tmp_path / "bad.csv"
    bad.write_text("a,y\n1,2\n\x1b]0;owned\x07,3,4\n")
    for text in (shown, said, refused(capsys, *train_argv(bad, tmp_path / "m"))):
        assert not {"\x1b", "\x07", "\u202e"} & {*text}


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_without_a_stdout_the_model_is_written_all_the_same(tmp_path):
    data = write_csv(tmp_path / "data.csv", {"x": [1, 2] * 40, "y": [1, 2] * 40})
    words = train_argv(data, str(tmp_path / "m"))
    shell = ["sh", "-c", 'exec "$0" "$@" >&-', sys.executable, "-m", "bitgrove", *words]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert main(["info", str(tmp_path / "m")]) == 0


def test_many_listed_categories(tmp_path, capsys):
    names = [f"c{i}" for i in range(3000)]
    data = write_csv(tmp_path / "data.csv", {name: [1, 2, 3] for name in names} | {"y": [1, 2, 3]})
    ok(capsys, *train_argv(data, tmp_path / "m", "--categorical_feature", ",".join(names),
                           "--min_child_samples", "1"))  # fmt: skip


def test_query_ids_that_are_not_utf8(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_bytes(b"q,x,y\nq1,1,1\nq\xc3,2,0\n")
    argv = train_argv(path, tmp_path / "m", "--group", "q", objective="lambdarank")
    assert "column 'q' holds text that is not UTF-8" in refused(capsys, *argv)
