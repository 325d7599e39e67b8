"""The tests of what a corpus does run twice: on files, and on a PostgreSQL and a Chroma server that are really started."""

import os
from collections.abc import Iterator

import pytest
import servers

from hoptrail.corpus.place import Place

ON_BOTH = {
    "test_any_history",
    "test_corpus",
    "test_graph",
    "test_hostile",
    "test_indexing",
    "test_kills",
    "test_store",
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "files_only: the test is about a corpus's own files, or about nothing it is stored in"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    both = metafunc.module.__name__.rpartition(".")[2] in ON_BOTH
    if both and metafunc.definition.get_closest_marker("files_only") is None:
        metafunc.parametrize("backend", ["files", "servers"], indirect=True, scope="module")


@pytest.fixture(scope="session")
def both_servers() -> Iterator[dict[str, str]]:
    if servers.postgres_folder() is None:
        pytest.skip("PostgreSQL's programs are not here (Debian: apt-get install postgresql)")
    with servers.running() as found:
        yield found


@pytest.fixture(scope="module", autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the corpora of the module's tests are: `files`, or `servers`, which then stand behind every folder."""
    if getattr(request, "param", "files") == "files":
        yield "files"
        return
    with pytest.MonkeyPatch.context() as patch:
        for name, value in request.getfixturevalue("both_servers").items():
            patch.setitem(os.environ, name, value)
        patch.setattr(Place, "of", staticmethod(servers.served))
        yield "servers"
