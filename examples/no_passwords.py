"""A proxy that refuses to write passwords into files: `no_passwords.py COMMAND...`."""

import sys

from dragoman import Forward, Kind, ProtocolError, Proxy
from dragoman.schema.fs import WriteTextFileParams, WriteTextFileResult

proxy = Proxy("no-passwords")


@proxy.from_agent("fs/write_text_file")
async def check(params: WriteTextFileParams, forward: Forward[WriteTextFileResult]) -> WriteTextFileResult:
    if "password" in params.content.lower():
        raise ProtocolError(Kind.PERMISSION_DENIED, f"{params.path} would contain a password")
    return await forward(params)


proxy.run(sys.argv[1:])
