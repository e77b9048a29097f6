"""The command line refuses bad input: exit code 2 and one clear line on stderr."""

import gzip
import subprocess
import sys

import pytest

from bitgrove.cli.main import main

pytest.importorskip("pyarrow")

from cli_cases import ok, refused, regression_csv, train_argv, write_parquet


@pytest.fixture
def regression(tmp_path):
    return regression_csv(tmp_path)


@pytest.fixture
def model(tmp_path, regression, capsys):
    ok(capsys, *train_argv(regression[0], tmp_path / "m.bitgrove"))
    return tmp_path / "m.bitgrove"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: COMMAND"),
        (["trian"], "invalid choice: 'trian'"),
        (["train"], "required: --data, --label, --model"),
        (["info"], "required"),
        (["demo", "--rows", "ten"], "expected an integer >= 1000, got 'ten'"),
        (["info", "m", "--jsn"], "unknown option '--jsn'; did you mean '--json'?"),
        (["info", "m", "n"], "unknown argument 'n'"),
        (["info", "m", "--top", "10", "--top", "3"], "--top is given twice: 10 and 3"),
        (["convert", "m", "n", "--format", "c", "--format", "onnx"], "--format is given twice"),
        (["demo", "--out", "a", "--out=b"], "--out is given twice: 'a' and 'b'"),
        (["predict", "--model", "a", "--model", "b"], "--model is given twice: 'a' and 'b'"),
        (["cv", "--shuffle", "--no-shuffle"], "--no-shuffle is given twice: True and False"),
    ],
)
def test_wrong_words(words, message, capsys):
    assert message in refused(capsys, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num_leafs", "3"], "unknown option '--num_leafs'; did you mean '--num_leaves'?"),
        (["--param", "num_leafs=3"], "unknown parameter 'num_leafs'; did you mean 'num_leaves'?"),
        (["--learning_rate", "fast"], "learning_rate='fast': must be a finite number"),
        (["--max_bin", "256"], "max_bin=256: must be an integer >= 2 and <= 255: a bin is a byte"),
        (["--refit_leaves", "maybe"], "refit_leaves='maybe': must be True or False"),
        (["--rounding", "up"], "rounding='up': must be one of 'stochastic', 'nearest'"),
        (["--param", "max_bin"], "expected NAME=VALUE, got 'max_bin'"),
        (["--param", "num_leaves=9"], "'num_leaves' is given twice: 7 and 9"),
        (["--label", "lab"], "--label is given twice: 'y' and 'lab'"),
        (["--checkpoint-every", "10", "--checkpoint_every", "3"], "is given twice: 10 and 3"),
        (["--learning_rate", "nan"], "learning_rate=nan: must be a finite number"),
        (["--delimiter", ""], "the delimiter must be one ASCII character, got ''"),
        (["--max_leaves", "9"], "are the same parameter but have different values"),
        (["--eval_metric", "auc"], "eval_metric='auc' cannot judge objective='regression'"),
        (["--early_stopping_rounds", "3"], "needs validation data: --valid FILE"),
        (["--group", "x0"], "need each other"),
        (["--weight", "y"], "must be different columns"),
        (["--weight", "xx0"], "no column 'xx0'; did you mean 'x0'?"),
        (["--ignore", "x0,zzz"], "no column 'zzz'; there are 'x0', 'x1'"),
        (["--ignore", "x0,x1,x2,x3,x4,x5"], "no column is left"),
        (["--delimiter", ";;"], "one ASCII character"),
        (["--valid", "absent.csv"], "absent.csv: no such file"),
    ],
)
def test_wrong_training_options(words, message, tmp_path, regression, capsys):
    argv = train_argv(regression[0], tmp_path / "m", *words)
    assert message in refused(capsys, *argv)
    assert not (tmp_path / "m").exists()


def test_objective_is_needed_and_must_fit(tmp_path, regression, capsys):
    argv = ["train", "--data", regression[0], "--label", "y", "--model", tmp_path / "m"]
    assert refused(capsys, *argv).startswith("--objective is needed")
    message = refused(capsys, *argv, "--objective", "binary")
    assert "objective 'binary' needs 2" in message
    assert "--group" in refused(capsys, *argv, "--objective", "lambdarank")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("d.csv", "", "Empty CSV"),
        ("d.csv", "a,y\n", "no rows"),
        ("d.csv", "a,y\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("d.csv", "a,a,y\n1,2,3\n", "more than one column is called 'a'"),
        ("d.csv", "a,y\n1,1\n?,2\n", "column 'a' holds text: '?' in row 2, among numbers"),
        ("d.csv", "a,y\n2020-01-01,1\n2020-01-02,2\n", "column 'a' is of type date32"),
        ("d.csv", "a,y\n1,\n2,3\n", "column 'y' has no value in row 1"),
        ("d.csv", "a,y\n1,x\n2,3\n", "column 'y' holds text: 'x' in row 1; it must hold numbers"),
        ("d.csv", "a,lable\n1,2\n", "no column 'y'"),
        ("d.csv", "y\n1\n2\n", "no column is left"),
        ("d.parquet", "not parquet at all", "cannot be read"),
        ("d.parquet", "", "cannot be read"),
        ("d.xlsx", "a,y\n1,2\n", "the name must end in .csv"),
    ],
)
def test_bad_files(name, text, message, tmp_path, capsys):
    (tmp_path / name).write_text(text)
    found = refused(capsys, *train_argv(tmp_path / name, tmp_path / "m"))
    assert message in found
    assert not (tmp_path / "m").exists()
    if "?" in text:
        assert "--ignore a, or take it as a category with --categorical_feature a" in found


def test_text_that_is_not_utf8(tmp_path, capsys):
    (tmp_path / "d.csv").write_bytes(b"a,y\n\xff\xfe,1\n2,2\n")
    for more in ([], ["--categorical_feature", "a"]):
        found = refused(capsys, *train_argv(tmp_path / "d.csv", tmp_path / "m", *more))
        assert "column 'a' holds text that is not UTF-8" in found and "iconv" in found
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe,y\n1,1\n2,2\n")
    assert "cannot be read" in refused(capsys, *train_argv(tmp_path / "d.csv", tmp_path / "m"))


@pytest.mark.parametrize("code", ["utf-16", "utf-16-be"])
def test_utf16_names_itself(code, tmp_path, capsys):
    mark = "\ufeff" if code == "utf-16-be" else ""
    (tmp_path / "d.csv").write_bytes(f"{mark}a,y\n1,1\n2,2\n".encode(code))
    found = refused(capsys, *train_argv(tmp_path / "d.csv", tmp_path / "m"))
    assert (
        "d.csv: cannot be read: it looks like UTF-16 text" in found and "iconv -f utf-16" in found
    )


@pytest.mark.parametrize(
    ("name", "separator", "said"),
    [("d.csv", ";", "';'"), ("d.txt", "|", "'|'"), ("d.csv", "\t", r"$'\t'"), ("d.tsv", ",", ",")],
)
def test_another_delimiter_is_named(name, separator, said, tmp_path, capsys):
    rows = ["a,b,y", *(f"{i},{i % 7},{i % 2}" for i in range(100))]
    (tmp_path / name).write_text("\n".join(rows).replace(",", separator) + "\n")
    found = refused(capsys, *train_argv(tmp_path / name, tmp_path / "m"))
    assert f"{name}: has one column" in found and f"--delimiter {said}" in found
    ok(capsys, *train_argv(tmp_path / name, tmp_path / "m", "--delimiter", separator))


def test_another_delimiter_is_named_where_cells_hold_commas(tmp_path, capsys):
    text = "a;b;y\n" + "1,5;2,25;1\n" * 40
    (tmp_path / "d.csv").write_text(text)
    with gzip.open(tmp_path / "z.csv.gz", "wt") as file:
        file.write(text)
    for name in ("d.csv", "z.csv.gz"):
        found = refused(capsys, *train_argv(tmp_path / name, tmp_path / "m"))
        assert f"{name}: has one column, 'a;b;y'" in found and "--delimiter ';'" in found
    (tmp_path / "d.csv").write_text("a,b;c,y\n1,2,3\n1,2\n")  # its header has commas
    assert "Expected 3 columns, got 2" in refused(capsys, *train_argv(tmp_path / "d.csv", "m"))


def test_one_value_twice_is_one(tmp_path, regression, capsys):
    ok(capsys, *train_argv(regression[0], tmp_path / "m", "--label", "y", "--num_leaves", "7"))


def test_files_that_do_not_fit_together(tmp_path, capsys):
    (tmp_path / "1.csv").write_text("a,y\n1,2\n")
    (tmp_path / "2.csv").write_text("b,y\n1,2\n")
    (tmp_path / "3.csv").write_text("a,y\nx,2\n")
    first, second, third = (str(tmp_path / f"{i}.csv") for i in (1, 2, 3))
    argv = train_argv(first, tmp_path / "m")
    found = refused(capsys, *argv[:3], second, *argv[3:])
    assert "2.csv: its columns differ" in found
    assert "missing: 'a'; unexpected: 'b'" in found
    found = refused(capsys, *argv[:3], third, *argv[3:])
    assert "column 'a' holds text: 'x' in row 2, among numbers" in found
    write_parquet(tmp_path / "1.parquet", {"a": [1], "y": [2.0]})
    write_parquet(tmp_path / "2.parquet", {"a": ["x"], "y": [2.0]})
    parquet = train_argv(tmp_path / "*.parquet", tmp_path / "m")
    assert "do not fit together" in refused(capsys, *parquet)
    assert "no file matches" in refused(capsys, *train_argv(tmp_path / "*.pq", tmp_path / "m"))
    assert "is a directory" in refused(capsys, *train_argv(tmp_path, tmp_path / "m"))


def test_query_rows_must_be_contiguous(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,y,q\n1,0,7\n2,1,8\n3,0,7\n")
    argv = train_argv(tmp_path / "d.csv", tmp_path / "m", "--group", "q", objective="lambdarank")
    assert "must be contiguous, but '7' in column 'q'" in refused(capsys, *argv)


def test_validation_class_that_training_lacks(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,y\n" + "1,cat\n2,dog\n" * 30)
    (tmp_path / "v.csv").write_text("a,y\n1,cat\n2,cow\n")
    argv = train_argv(tmp_path / "d.csv", tmp_path / "m", objective="binary")
    found = refused(capsys, *argv, "--valid", tmp_path / "v.csv")
    assert found.startswith("row 2 of 'y' holds the class 'cow'")
    (tmp_path / "n.csv").write_text("a,y\n" + "1,2\n2,10\n" * 30)
    (tmp_path / "v.csv").write_text("a,y\n1,10\n2,two\n")
    argv = train_argv(tmp_path / "n.csv", tmp_path / "m", objective="binary")
    found = refused(capsys, *argv, "--valid", tmp_path / "v.csv")
    assert found == "column 'y' holds text: 'two' in row 2; the classes are numbers"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "1"], "has 1 classes (1)"),
        (["2020-01-01", "2020-01-02"], "of type date32[day] cannot hold classes"),
        (["1", "inf"], "of type double cannot hold classes"),
        (["a", ""], "column 'y' has no value in row 2"),
    ],
)
def test_labels_that_are_no_classes(values, message, tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,y\n" + "".join(f"1,{value}\n" for value in values) * 30)
    argv = train_argv(tmp_path / "d.csv", tmp_path / "m", objective="binary")
    assert message in refused(capsys, *argv)


def test_output_that_cannot_be_written(tmp_path, regression, model, capsys):
    path = regression[0]
    assert "does not exist" in refused(capsys, *train_argv(path, tmp_path / "no" / "m"))
    assert "is a directory" in refused(capsys, *train_argv(path, tmp_path))
    assert "is not a regular file" in refused(capsys, *train_argv(path, "/dev/null"))
    assert "is also an input" in refused(capsys, *train_argv(path, path))
    predict = ["predict", "--model", model, "--data", path, "--out"]
    assert "must end in .csv or" in refused(capsys, *predict, tmp_path / "p.txt")
    assert "is also an input" in refused(capsys, *predict, path)


def test_prediction_data_must_have_the_models_columns(tmp_path, model, capsys):
    (tmp_path / "d.csv").write_text("x0,x1,x2,x4\n1,2,3,4\n")
    argv = ["predict", "--model", model, "--data", tmp_path / "d.csv", "--out", tmp_path / "p.csv"]
    assert refused(capsys, *argv) == "missing columns: 'x3', 'x5'"
    (tmp_path / "d.csv").write_text("x0,x1,x2,x3,x4,x5\n1,2,3,4,5,big\n")
    assert "column 'x5' holds text: 'big' in row 1" in refused(capsys, *argv)
    assert not (tmp_path / "p.csv").exists()


def test_damaged_and_missing_model_files(tmp_path, regression, model, capsys):
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    broken = tmp_path / "broken.bitgrove"
    for content in (bytes(data), b"", b"BITGROVE", data[:-1], b"PK\x03\x04 a zip file"):
        broken.write_bytes(content)
        assert str(broken) in refused(capsys, "info", broken)
        predict = ["predict", "--model", broken, "--data", regression[0]]
        assert str(broken) in refused(capsys, *predict, "--out", tmp_path / "p.csv")
    assert refused(capsys, "info", tmp_path / "no").startswith(f"{tmp_path / 'no'}: No such file")


def test_models_of_others_are_to_be_converted(tmp_path, regression, capsys):
    for name, text in (("a.txt", "tree\nversion=v4\n"), ("b.json", '{"learner": {}}')):
        other = tmp_path / name
        other.write_text(text)
        predict = [
            "predict",
            "--model",
            other,
            "--data",
            regression[0],
            "--out",
            tmp_path / "p.csv",
        ]
        for words in (["info", other], predict):
            assert "`bitgrove convert`" in refused(capsys, *words)


def test_missing_pyarrow_names_the_extra(tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n1,2\n")
    argv = [str(word) for word in train_argv(tmp_path / "d.csv", tmp_path / "m")]
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        f"from bitgrove.cli import main; sys.exit(main({argv!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "bitgrove: error: reading tables needs pyarrow: pip install bitgrove[cli]\n"
    )


def test_a_fault_of_ours_is_exit_code_1(monkeypatch, capsys):
    def broken(args):
        raise RuntimeError("two\nlines")

    monkeypatch.setitem(sys.modules["bitgrove.cli.main"]._COMMANDS, "info", broken)
    assert main(["info", "m"]) == 1
    assert capsys.readouterr().err.startswith("bitgrove: error: unexpected RuntimeError: two lines")


def test_labels_that_are_not_utf8(tmp_path, capsys):
    path = tmp_path / "latin.csv"
    rows = "".join(f"{i},{('tea', 'café')[i % 2]}\n" for i in range(60))
    path.write_bytes(("x,y\n" + rows).encode("latin-1"))
    message = refused(capsys, *train_argv(path, tmp_path / "m", objective="binary"))
    assert "column 'y' holds text that is not UTF-8" in message and "iconv" in message
