"""Scripts that publish a package: each does everything up to the network, and the rest with --push."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dragoman.packaging.manifest import Manifest

_HEAD = """\
#!/bin/sh
# {title}
# usage: {usage}
# Without --push nothing leaves this machine: the steps that need the network are only printed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
push=
for word in "$@"; do last=$word; done
[ "${{last-}}" = --push ] && push=yes
"""

_RUN = """
network() {
  if [ "$push" ]; then "$@"; return; fi
  printf ' '
  for word in "$@"; do
    case $word in *[!A-Za-z0-9_./:=@+-]*) printf " '%s'" "$word";; *) printf ' %s' "$word";; esac
  done
  echo
}
[ "$push" ] || echo 'Steps that need the network (--push runs them):'
"""

_CHECK_ARCHIVES = """
# 1. The archives are those of the manifest.
cd "$here/archives"
if command -v sha256sum >/dev/null; then sha256sum -c SHA256SUMS; else shasum -a 256 -c SHA256SUMS; fi
"""


def registry_script(manifest: Manifest, archives: Sequence[str]) -> str:
    """Return the script for the official registry."""
    id, version, name = _words(manifest)
    head = _HEAD.format(
        title=f"Publish {_one_line(manifest, 'name')} {_one_line(manifest, 'version')} in the ACP registry.",
        usage="publish.sh CHECKOUT [--push]      CHECKOUT is a clone of your fork of agentclientprotocol/registry",
    )
    return f"""\
{head}id={id} version={version} name={name} repository={_quote(manifest.get("repository"))}
case ${{1-}} in ""|--push) sed -n '2,4p' "$0"; exit 2;; esac
checkout=$(cd "$1" && pwd)
{_CHECK_ARCHIVES if archives else ""}
# 2. The entry goes into the folder of its id, on a branch of its own.
cd "$checkout"
git switch -c "$id-$version" 2>/dev/null || git switch "$id-$version"
mkdir -p "$id"
cp "$here/$id/agent.json" "$here/$id/icon.svg" "$id/"

# 3. The registry's own checks, without those that need the network.
SKIP_URL_VALIDATION=1 python3 .github/workflows/build_registry.py

git add "$id"
git diff --cached --quiet || git commit -m "Add $name $version"
{_RUN}{_release(archives)}network git push -u origin "$id-$version"
network gh pr create --repo agentclientprotocol/registry --title "Add $name $version" --fill
"""


def extension_script(manifest: Manifest, archives: Sequence[str]) -> str:
    """Return the script for the repository of Zed's extensions."""
    id, version, name = _words(manifest)
    head = _HEAD.format(
        title=f"Publish {_one_line(manifest, 'name')} {_one_line(manifest, 'version')} as an extension of Zed.",
        usage="publish.sh REPOSITORY CHECKOUT [--push]      REPOSITORY is the folder of the extension's own repository "
        "(it is made if needed), CHECKOUT a clone of your fork of zed-industries/extensions",
    )
    return f"""\
{head}id={id} version={version} name={name} repository={_quote(manifest.get("repository"))}
case ${{2-}} in ""|--push) sed -n '2,4p' "$0"; exit 2;; esac
mkdir -p "$1"
own=$(cd "$1" && pwd)
checkout=$(cd "$2" && pwd)
{_CHECK_ARCHIVES if archives else ""}
# 2. The extension is a repository of its own.
cd "$own"
[ -d .git ] || git init -q -b main
cp -R "$here/$id/." .
git add -A
git diff --cached --quiet || git commit -qm "$name $version"
git tag -f "v$version" >/dev/null
commit=$(git rev-parse HEAD)
address=$(git remote get-url origin 2>/dev/null || echo "$repository")

# 3. The repository of extensions names it twice, in sorted tables, and points to its commit.
cd "$checkout"
git switch -c "$id-$version" 2>/dev/null || git switch "$id-$version"
python3 - "$id" "$version" "$address" <<'EOF'
{_SORTED_TABLES}EOF
git update-index --add --cacheinfo "160000,$commit,extensions/$id"
git add extensions.toml .gitmodules
git diff --cached --quiet || git commit -qm "Add $id $version"
{_RUN}{_release(archives)}network git -C "$own" push origin main "v$version"
network git push -u origin "$id-$version"
network gh pr create --repo zed-industries/extensions --title "Add $id $version" --fill
"""


def pypi_script(name: str, version: str, command: str, folder: str) -> str:
    """Return the script for PyPI."""
    head = _HEAD.format(
        title=f"Publish {name} {version} on PyPI, so that `uvx` starts it.",
        usage="publish.sh PROJECT [--push]      PROJECT is the folder with pyproject.toml; PYTHON=... the interpreter",
    )
    return f"""\
{head}case ${{1-}} in ""|--push) sed -n '2,4p' "$0"; exit 2;; esac
project=$(cd "$1" && pwd)
name={_quote(name)} version={_quote(version)} command={_quote(command)}
python=${{PYTHON-python3}}

# 1. Build the wheel, with the build tools that are installed.
rm -rf "$here/dist"
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$here/dist" "$project"

# 2. Install it into a folder of its own, and see that its program is there.
rm -rf "$here/try"
"$python" -m pip install --quiet --no-deps --no-index --target "$here/try" "$here"/dist/*.whl
[ -x "$here/try/bin/$command" ] || {{ echo "the wheel has no program $command" >&2; exit 1; }}
grep -qx "Version: $version" "$here"/try/*.dist-info/METADATA || {{ echo "the wheel is not $version" >&2; exit 1; }}
rm -rf "$here/try"
{_RUN}network "$python" -m twine upload "$here"/dist/*.whl
network uvx --from "$name==$version" "$command"
"""


# Inserts the extension into extensions.toml and .gitmodules, where the alphabet wants it; a known one gets the version.
_SORTED_TABLES = r"""import re, sys
id, version, address = sys.argv[1:]

def insert(path, pattern, header, body):
    text = open(path, encoding="utf-8").read() if __import__("os").path.exists(path) else ""
    tables = [each.strip("\n") for each in re.split(r"(?m)^(?=\[)", text) if each.strip()]
    tables = [each for each in tables if not each.startswith(header + "\n")] + [header + "\n" + body]
    tables.sort(key=lambda each: re.match(pattern, each)[1])
    open(path, "w", encoding="utf-8").write("\n\n".join(tables) + "\n")

insert("extensions.toml", r"\[([^\]]+)\]", f"[{id}]", f'submodule = "extensions/{id}"\nversion = "{version}"')
insert(".gitmodules", r'\[submodule "([^"]+)"\]', f'[submodule "extensions/{id}"]',
       f"\tpath = extensions/{id}\n\turl = {address.removesuffix('.git')}.git")
"""


def _release(archives: Sequence[str]) -> str:
    if not archives:
        return ""
    files = " ".join(f'"$here/archives/"{_quote(name)}' for name in archives)
    return f'network gh release create "v$version" --repo "${{repository#https://github.com/}}" {files}\n'


def _words(manifest: Manifest) -> tuple[str, str, str]:
    return _quote(manifest.get("id")), _quote(manifest.get("version")), _quote(manifest.get("name"))


def _quote(value: object) -> str:
    return shlex.quote(str(value or ""))


def _one_line(manifest: Manifest, key: str) -> str:
    return " ".join(str(manifest.get(key)).split())
