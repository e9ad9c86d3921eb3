"""One trained agent of the package as files, for all tests that look at them."""

import jaxtyping
import pytest


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A folder with agent.onnx, agent.pt2 and their cards, written by the command line."""
    from gtrxl.cli.main import main

    folder = tmp_path_factory.mktemp("exported")
    jaxtyping.config.update("jaxtyping_disable", True)  # what is traced has no number of streams
    for format, suffix in (("onnx", ".onnx"), ("torch", ".pt2")):
        assert main(["export", "zoo:grid-numpad", "--format", format, "--to", str(folder / f"agent{suffix}")]) == 0
    jaxtyping.config.update("jaxtyping_disable", False)
    return folder
