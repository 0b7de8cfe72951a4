"""`tercet signing-keys`: the keys that bundles are signed with."""

from __future__ import annotations

from typing import Annotated

from rich.text import Text

from tercet.cli.bundles import keys, show_whole
from tercet.cli.options import AsJson, argument
from tercet.cli.screen import Screen, print_json
from tercet.cli.text import printable

NEW_EXAMPLES = "tercet signing-keys new release\n"
LIST_EXAMPLES = "tercet signing-keys list\n"
SHOW_EXAMPLES = """\
tercet signing-keys show release
tercet signing-keys show release --json
"""

KeyName = Annotated[str, argument("NAME", "The key's name: small letters, digits, '-' and '_'.")]


def new(name: KeyName, *, as_json: AsJson = False) -> None:
    """Make a key to sign bundles with (Ed25519).

    It is kept in a file that only you may read, in `tercet/keys` of your folder for configuration (XDG_CONFIG_HOME, else
    ~/.config), or in the folder that TERCET_KEYS names. Give its public half to whoever shall check your signatures. Who
    has the file can sign as you: keep a copy where you keep such things, and nowhere else.
    """
    ring = keys()
    public = ring.make(name)
    if as_json:
        print_json({"name": name, "public_key": public, "folder": str(ring.folder)})
    else:
        screen = Screen()
        screen.conclude(f"{name} is in {printable(str(ring.folder), 200)}")
        show_whole(screen, "  public  ", public)
        screen.show_command(f"tercet export ID --sign {name}")


def list_keys(*, as_json: AsJson = False) -> None:
    """List the keys that are there, with their public halves.

    The public key of somebody else can be put beside your own, as NAME.pub with one line: then their signatures are told
    by that name, and `tercet verify-bundle --key NAME` asks for them.
    """
    ring = keys()
    found = ring.names()
    if as_json:
        listed = [
            {"name": name, "public_key": public, "can_sign": ring.can_sign(name)}
            for name, public in found.items()
        ]
        print_json({"folder": str(ring.folder), "keys": listed})
        return
    screen = Screen()
    if not found:
        screen.say(
            f"There is no key in {printable(str(ring.folder), 200)}: tercet signing-keys new NAME makes one."
        )
    width = max(map(len, found), default=0)
    for name, public in found.items():
        suffix = "" if ring.can_sign(name) else "  (public half only)"
        screen.say(Text.assemble((f"{name:<{width}}  ", "bold"), f"{public}{suffix}"))


def show(name: KeyName, *, as_json: AsJson = False) -> None:
    """Print the public half of a key. It is for whoever shall check your signatures."""
    ring = keys()
    public = ring.public(name)
    if as_json:
        print_json({"name": name, "public_key": public, "can_sign": ring.can_sign(name)})
    else:
        show_whole(Screen(), "", public)
