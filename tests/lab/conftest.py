"""The lab's tests do not see the user's data folder."""

import pytest


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BITGROVE_DATA", raising=False)
