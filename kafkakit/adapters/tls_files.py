"""Whether the TLS files that a configuration names can be used, before a client meets them.

The clients report a damaged file as a cluster that cannot be reached, and a key with a password makes
OpenSSL prompt on the terminal; both are found here first.
"""

import ssl

from kafkakit.config.security import Security
from kafkakit.core.errors import InputError, UsageError


def check_tls_files(security: Security) -> None:
    """Load the authorities, our certificate and our key as a client will; cheap, and nothing is sent.

    Raises `InputError` naming the file that cannot be used, `UsageError` when the key's password is missing or wrong.
    """
    if not security.protocol.uses_tls:
        return
    if security.ca_file is not None:
        _load_certificates(security.ca_file)
    if security.cert_file is not None and security.key_file is not None:
        _load_certificates(security.cert_file)
        _load_key(security, security.cert_file, security.key_file)


def _load_certificates(path: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError):
        hint = "it must be PEM text: -----BEGIN CERTIFICATE----- and what follows"
        raise InputError(path, "holds no certificate that can be read", hint=hint) from None
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None


def _load_key(security: Security, cert_file: str, key_file: str) -> None:
    requested = False

    def password() -> str:
        nonlocal requested
        requested = True
        return "" if security.key_password is None else security.key_password.reveal()

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, password)
    except (ssl.SSLError, ValueError) as error:
        if "KEY_VALUES_MISMATCH" in str(error):
            raise InputError(key_file, f"is not the key of the certificate {cert_file}") from None
        if requested and security.key_password is None:
            hint = "set security.tls.key_password_file"
            raise UsageError(f"the key {key_file} is encrypted, and no password is configured", hint=hint) from None
        if requested:
            raise UsageError(f"the configured password does not open the key {key_file}") from None
        raise InputError(key_file, "holds no private key that can be read", hint="it must be PEM text") from None
    except OSError as error:
        raise InputError(key_file, f"cannot be read: {error.strerror}") from None
