"""Certificates for this machine: one that is signed by itself, and those of an authority."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificate(folder: Path, *addresses: str) -> tuple[Path, Path]:
    """Write one that is signed by itself, and its key, there, for this machine and these addresses."""
    return Authority("localhost", *addresses).write(folder)


class Authority:
    """A key with a certificate for this machine. It signs itself, and others."""

    def __init__(self, name: str, *addresses: str, signed_by: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._addresses = addresses
        signer = signed_by or self
        self._certificate = self._build(signer._name).sign(signer._key, hashes.SHA256())

    def _build(self, issuer: x509.Name) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        known = [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", *self._addresses)]
        names = [x509.DNSName("localhost"), *known]
        return (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(issuer)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        )

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the certificate and its key there."""
        folder.mkdir(exist_ok=True)
        cert, private = folder / "cert.pem", folder / "key.pem"
        cert.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        form = serialization.PrivateFormat.PKCS8
        private.write_bytes(self._key.private_bytes(serialization.Encoding.PEM, form, plain))
        return cert, private
