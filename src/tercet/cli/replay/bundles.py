"""`tercet export`, `verify-bundle` and `signing-keys`: a run in one file, and the keys that sign it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.journals import DEFAULT, JournalUrl, SessionId, tenant_of, use_journal
from tercet.cli.options import AsJson, Force, argument, option
from tercet.cli.replay.runs import require_writable
from tercet.cli.screen import Screen, print_json, respond
from tercet.packs.declared import read_files
from tercet.replay.bundle.exporting import Exported, PackContent, export_run
from tercet.replay.bundle.layout import SUFFIX, Manifest, Seal
from tercet.replay.bundle.reading import Answer, Finding, verify_bundle
from tercet.replay.bundle.signing import PREFIX, BundleDamaged, KeyRing, parse_key, usual_folder
from tercet.view.terminal.text import count, printable
from tercet.view.vocabulary import status_word

EXPORT_EXAMPLES = """\
tercet export ses_0123456789abcdef -o run.tercet --pack examples/refunds
tercet export ses_0123456789abcdef -o run.tercet --pack examples/refunds --sign release
"""
VERIFY_FILE_EXAMPLES = """\
tercet verify-bundle run.tercet
tercet verify-bundle run.tercet --key release
"""


def export(
    session: SessionId,
    *,
    output: Annotated[
        Path | None,
        option("FILE", f"The file to write; by default ID{SUFFIX} in this folder.", "-o", "--output"),
    ] = None,
    pack: Annotated[
        list[Path] | None,
        option(
            "PACK",
            "The folder of the run's pack, whose files are added to the bundle; may be given several times for a session that was migrated.",
        ),
    ] = None,
    sign: Annotated[
        str | None, option("KEY", "Sign it with this key; tercet signing-keys new makes one.")
    ] = None,
    force: Force = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Export a run into one file, a bundle.

    A bundle holds the events, checkpoints and blobs, the pack as data, and a hash over all of it. Exporting a
    finished run again gives the same bytes; a run in progress is exported as far as it is. Without --pack the bundle
    holds the declarations of the pack, which the run has recorded, but none of its files. Values that were redacted
    in the journal stay redacted; everything else is exported as recorded.
    """
    path = output or Path(f"{session}{SUFFIX}")
    require_writable(path, is_forced=force)
    signer = keys().private(sign) if sign is not None else None
    packs = [_content(folder) for folder in pack or ()]
    exported = use_journal(
        journal,
        lambda opened: export_run(
            opened, tenant_of(opened), session, path, packs=packs, signer=signer, is_forced=force
        ),
    )
    return respond(
        lambda: {"file": str(path), **_facts(exported.manifest, exported.seal)},
        lambda screen: _show_exported(screen, path, exported),
        as_json=as_json,
    )


def keys() -> KeyRing:
    """The signing keys of the current user."""
    return KeyRing(usual_folder(os.environ))


def _content(folder: Path) -> PackContent:
    loaded = load_pack(folder)
    return PackContent(pack=loaded, files=read_files(folder, loaded))


def _facts(manifest: Manifest, seal: Seal) -> dict[str, Any]:
    return {
        "hash": f"sha256:{seal.hash}",
        "records": seal.records,
        "signer": f"{PREFIX}{seal.signer}" if seal.signer else None,
        "manifest": msgspec.to_builtins(manifest),
    }


def _show_exported(screen: Screen, path: Path, exported: Exported) -> None:
    manifest, seal = exported.manifest, exported.seal
    told = (
        f"{printable(str(path), 200)}: {count(seal.records, 'record')}, {count(path.stat().st_size, 'byte')}"
    )
    screen.conclude(told)
    _show_contents(screen, manifest, seal)
    if not manifest.is_over:
        screen.put("The run is not over: later events are not in the bundle.", first="  · ")
    if missing := [entry.ref for entry in manifest.packs if not entry.included]:
        screen.put(
            f"The files of {printable(', '.join(missing))} are not in it: --pack with the pack's folder adds them.",
            first="  · ",
        )
    screen.show_command(f"tercet verify-bundle {path}")


def _show_contents(screen: Screen, manifest: Manifest, seal: Seal) -> None:
    screen.put(
        f"{printable(manifest.session)}, {status_word(manifest.status)}: {printable(manifest.intent, 80)}",
        first="  run     ",
    )
    packs = ", ".join(f"{printable(each.ref)} {each.hash[:19]}…" for each in manifest.packs)
    screen.put(packs, first="  pack    ")
    show_whole(screen, "  hash    ", f"sha256:{seal.hash}")


def show_whole(screen: Screen, label: str, text: str) -> None:
    """Print a hash or a key after its label, without line breaks, so that it can be copied."""
    screen.print(screen.escape_undecodable(Text.assemble((label, "dim"), text)), soft_wrap=True)


def verify_file(
    file: Annotated[Path, argument("FILE", "The bundle.")],
    *,
    key: Annotated[
        str | None,
        option(
            "KEY",
            "The key that must have signed it: a public key (ed25519:…), or the name of one of your keys.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Check that a bundle is intact, and who signed it.

    A damaged bundle is reported with the first record that was changed, removed, reordered or inserted. A bundle
    without a signature shows accidents, not forgery: anyone who can write the file can compute new hashes. With --key
    it counts as intact only if that key has signed it. Exits with 0 if it is intact, with 3 if it is not, and with 2
    if the file is not a bundle. Nothing in it is run, unpacked or sent anywhere.
    """
    wanted = None if key is None else _expected_key(key)
    finding = verify_bundle(file, wanted)
    return respond(
        lambda: _as_json(file, finding),
        lambda screen: _show_finding(screen, file, finding, wanted),
        as_json=as_json,
        code=ExitCode.ACCEPTED if finding.answer == "intact" else ExitCode.REFUSED,
    )


def _expected_key(key: str) -> str:
    """Return the digits of a public key, given directly or by its name."""
    return parse_key(key if key.startswith(PREFIX) or len(key) == 64 else keys().public(key))


def _as_json(file: Path, finding: Finding) -> dict[str, Any]:
    answer: dict[str, Any] = {"file": str(file), "answer": finding.answer}
    if finding.manifest is not None and finding.seal is not None:
        answer |= _facts(finding.manifest, finding.seal)
    if (damage := finding.damage) is not None:
        first = {
            "record": damage.record,
            "name": damage.name,
            "damage": damage.damage,
            "reason": damage.reason,
        }
        answer |= {"first": first, "remedy": damage.remedy}
    return answer


_WORDS: dict[Answer, str] = {
    "intact": "is intact",
    "damaged": "is damaged",
    "forged": "has an invalid signature",
    "unsigned": "is not signed",
    "wrong_signer": "is signed with another key",
}


def _show_finding(screen: Screen, file: Path, finding: Finding, wanted: str | None) -> None:
    screen.conclude(
        f"{printable(str(file), 200)} {_WORDS[finding.answer]}", is_good=finding.answer == "intact"
    )
    if (damage := finding.damage) is not None:
        screen.put(printable(_tell(damage)), first="  ")
        screen.put(printable(damage.remedy or ""), first="  → ")
    if finding.manifest is not None and finding.seal is not None:
        _show_contents(screen, finding.manifest, finding.seal)
        _show_signer(screen, finding.seal, wanted)


def _tell(damage: BundleDamaged) -> str:
    was = "" if damage.damage == "inconsistent" else f" was {damage.damage}"
    return f"record {damage.record} ({damage.name}){was}: {damage.reason}"


def _show_signer(screen: Screen, seal: Seal, wanted: str | None) -> None:
    if wanted is not None and wanted != seal.signer:
        show_whole(screen, "  wanted  ", f"{PREFIX}{wanted}")
    if not seal.signer:
        screen.put("Not signed: this shows accidents, not forgery.", first="  · ")
        return
    names = [name for name, public in keys().names().items() if public == f"{PREFIX}{seal.signer}"]
    known = f" ({', '.join(names)})" if names else ""
    show_whole(screen, "  signed  ", f"{PREFIX}{seal.signer}{known}")


NEW_EXAMPLES = "tercet signing-keys new release\n"
LIST_KEYS_EXAMPLES = "tercet signing-keys list\n"
SHOW_EXAMPLES = """\
tercet signing-keys show release
tercet signing-keys show release --json
"""

KeyName = Annotated[str, argument("NAME", "The key's name: small letters, digits, '-' and '_'.")]


def new(name: KeyName, *, as_json: AsJson = False) -> None:
    """Create an Ed25519 key that signs bundles.

    The key is written to a file that only you can read, in the folder TERCET_KEYS, else in `tercet/keys` of
    XDG_CONFIG_HOME, else in ~/.config/tercet/keys. Give its public half to those who check your signatures. Anyone
    with the file can sign as you.
    """
    ring = keys()
    public = ring.make(name)
    if as_json:
        print_json({"name": name, "public_key": public, "folder": str(ring.folder)})
    else:
        screen = Screen()
        screen.conclude(f"{name} is in {printable(str(ring.folder), 200)}")
        show_whole(screen, "  public  ", public)
        screen.say(f"  tercet export signs a bundle with it: --sign {name}")


def list_keys(*, as_json: AsJson = False) -> None:
    """List your keys, with their public halves.

    To check another person's signatures, put their public key beside your own as NAME.pub, one line: their signatures
    are then shown with that name, and `tercet verify-bundle FILE --key NAME` requires them.
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
    """Print the public half of a key, for those who check your signatures."""
    ring = keys()
    public = ring.public(name)
    if as_json:
        print_json({"name": name, "public_key": public, "can_sign": ring.can_sign(name)})
    else:
        show_whole(Screen(), "", public)
