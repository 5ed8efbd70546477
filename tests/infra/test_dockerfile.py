"""The images as their Dockerfile has them. None is built here: there is no Docker where these tests run."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import PurePosixPath

import pytest

from infra.locked import BUILD, IMAGES, ROOT, file_for
from tests.infra.dockerfile import SOURCE, read
from tests.support.processes import BIN

PATH = ROOT / "infra" / "Dockerfile"
TEXT = PATH.read_text()
DOCKERFILE = read(TEXT)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IGNORED = (ROOT / ".dockerignore").read_text().splitlines()
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def left_out(path: str) -> bool:
    """Whether .dockerignore keeps `path` out: the last line that fits it, or a folder above it, decides."""
    whole = PurePosixPath(path)
    ignored = False
    for line in IGNORED:
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        if any(_fits(str(each), pattern) for each in (whole, *whole.parents)):
            ignored = not line.startswith("!")
    return ignored


def _fits(path: str, pattern: str) -> bool:
    """By Docker's rules: `*` is anything within a name, `**/` any folders."""
    expression = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return path != "." and re.fullmatch(expression, path) is not None


def test_hadolint_has_nothing_to_say_without_being_told_to_look_away() -> None:
    done = subprocess.run(
        [BIN / "hadolint", "--disable-ignore-pragma", "--failure-threshold", "style", PATH],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_looks() -> None:
    done = subprocess.run(
        [BIN / "hadolint", "-"],
        input=TEXT.replace("CMD [", "CMD sh -c ["),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "DL3025" in done.stdout


def test_without_a_target_the_gateway_is_built() -> None:
    assert list(DOCKERFILE.stages)[-1] == "gateway"


def test_each_program_gets_its_signals_itself() -> None:
    assert DOCKERFILE.command("gateway") == ["granian", "gateway.app:app"]
    assert DOCKERFILE.command("emulator")[:3] == ["python", "-m", "emulator"]
    for image in IMAGES:
        assert DOCKERFILE.everything(image, "ENTRYPOINT") == []
        assert DOCKERFILE.last(image, "STOPSIGNAL") == "SIGTERM"


@pytest.mark.parametrize("image", IMAGES)
def test_a_check_gives_up_before_it_is_given_up(image: str) -> None:
    health = DOCKERFILE.health(image)
    (patience,) = re.findall(r"timeout=(\d+)", health.command[-1])
    assert int(patience) < int(health.options["timeout"].removesuffix("s"))
    assert health.command[0] == "python", "the image has no curl"


@pytest.mark.parametrize("image", IMAGES)
def test_the_user_is_a_number_that_is_not_roots(image: str) -> None:
    user, _, group = DOCKERFILE.last(image, "USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    # Nothing after it goes back.
    assert len(DOCKERFILE.everything(image, "USER")) == 1


def test_the_base_is_one_and_is_pinned_by_a_tag() -> None:
    (base,) = DOCKERFILE.args.values()
    name, _, tag = base.partition(":")
    assert name == "python"
    assert re.fullmatch(r"3\.\d+-slim-\w+", tag)
    assert DOCKERFILE.base_image("gateway") == DOCKERFILE.base_image("build") == base


def test_its_python_is_the_one_that_the_lock_was_made_for() -> None:
    (least,) = re.findall(r">=(3\.\d+)", PROJECT["project"]["requires-python"])
    (base,) = DOCKERFILE.args.values()
    assert base.startswith(f"python:{least}-")


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_its_environment_and_nothing_that_built_it(image: str) -> None:
    assert "build" not in [stage.name for stage in DOCKERFILE.lineage(image)]
    assert DOCKERFILE.everything(image, "RUN") == []
    assert DOCKERFILE.everything(image, "COPY") == [f"--from={image}-venv /opt/streamhold /opt/streamhold"]
    assert DOCKERFILE.environment(image)["PATH"] == "/opt/streamhold/bin:$PATH"


@pytest.mark.parametrize("stage", [BUILD, *(f"{image}-venv" for image in IMAGES)])
def test_whatever_is_installed_is_locked_or_our_own(stage: str) -> None:
    installs = [
        words
        for rest in DOCKERFILE.stages[stage].all("RUN")
        for words in re.findall(r"pip install[^&]*", rest)
    ]
    assert installs
    locks = []
    for words in installs:
        if "--no-deps" in words:
            assert "--no-index" in words
            assert words.strip().endswith(" wheels/*.whl")
        else:
            assert "--require-hashes" in words
            locks += re.findall(r" -r locked/(\S+)", words)
    use = stage.removesuffix("-venv")
    assert locks == [file_for(use).name]


def test_the_wheel_has_all_that_the_images_run() -> None:
    copied = " ".join(DOCKERFILE.stages["wheel"].all("COPY"))
    for needed in ("gateway", "emulator", "pyproject.toml", PROJECT["project"]["readme"], "LICENSE"):
        assert needed in copied


def test_no_secret_gets_into_a_layer() -> None:
    """No variable of a build but the base's name; nothing is copied that may hold one."""
    assert set(DOCKERFILE.args) == {"PYTHON_IMAGE"}
    assert all(not stage.all("ARG") for stage in DOCKERFILE.stages.values())
    assert "--mount" not in TEXT
    set_here = {key for stage in DOCKERFILE.stages for key in DOCKERFILE.environment(stage)}
    assert not [key for key in set_here if re.search("TOKEN|SECRET|PASSWORD|KEY|URL|GATEWAY_", key)]


def test_what_is_copied_reaches_the_build() -> None:
    for stage in DOCKERFILE.stages.values():
        for rest in stage.all("COPY"):
            if SOURCE.fullmatch(rest):
                continue
            for source in rest.split()[:-1]:
                found = list(ROOT.glob(source))
                assert found, source
                assert not [path for path in found if left_out(str(path.relative_to(ROOT)))], source


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".git/config",
        ".venv/bin/python",
        "gateway.yaml",
        "infra/service.yaml",
        "infra/secrets.env",
        "server.pem",
        "tests/conftest.py",
        "gateway/__pycache__/app.cpython-311.pyc",
        "emulator/cli/__pycache__/serve.cpython-311.pyc",
        "requirements.txt",
    ],
)
def test_nothing_else_reaches_the_build(path: str) -> None:
    assert left_out(path)


@pytest.mark.parametrize(
    "path", ["gateway/app.py", "emulator/player/page/index.html", "infra/requirements-gateway.txt"]
)
def test_code_reaches_the_build(path: str) -> None:
    assert not left_out(path)


def test_the_gateway_can_be_reached_from_outside_its_container() -> None:
    assert DOCKERFILE.environment("gateway")["GRANIAN_HOST"] not in LOOPBACK
    command = DOCKERFILE.command("emulator")
    assert command[command.index("--host") + 1] not in LOOPBACK
