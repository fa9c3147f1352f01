"""A certificate authority of a company, and a certificate of this machine that it signed."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_authority(folder: Path) -> tuple[Path, Path, Path]:
    """Write the authority, the certificate and its key; return their paths."""
    own, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    company = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "company")])
    machine = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(company)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    authority = builder(company, own.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = builder(machine, key.public_key()).add_extension(names, critical=False)
    paths = folder / "company.pem", folder / "machine.pem", folder / "machine.key"
    for path, made in ((paths[0], authority), (paths[1], leaf)):
        path.write_bytes(made.sign(own, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths[2].write_bytes(private)
    return paths
