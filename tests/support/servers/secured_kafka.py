"""A Kafka broker with TLS, mutual TLS, SASL and ACLs, from the jars of the embedded broker.

The logins are PLAIN, SCRAM and OAUTHBEARER. One process has a listener for each way to connect. All
certificates are created for the run, and a token endpoint of the run gives the tokens.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from common.config.settings import Settings
from common.machine import processes
from orchestration.access.embedded_broker.server_process import MAIN_CLASS, Server
from tests.support.servers.token_server import AUDIENCE, TokenServer, token_server

LISTENERS = ("internal", "tls", "mtls", "login", "expired", "elsewhere")
PASSWORD = "swordfish-9"  # noqa: S105  # of a broker that lives for a minute
NOW = datetime.now(UTC)

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MTLS:SSL,LOGIN:SASL_SSL,\
EXPIRED:SSL,ELSEWHERE:SSL
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={folder}/data
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=16777216
log.retention.ms=-1

authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:CN=reader
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
listener.name.mtls.ssl.client.auth=required
listener.name.expired.ssl.keystore.type=PEM
listener.name.expired.ssl.keystore.location={folder}/expired.pem
listener.name.elsewhere.ssl.keystore.type=PEM
listener.name.elsewhere.ssl.keystore.location={folder}/elsewhere.pem
listener.name.login.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_reader="{password}" user_nobody="{password}";
listener.name.login.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
required;
listener.name.login.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.login.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
sasl.oauthbearer.jwks.endpoint.url={jwks}
sasl.oauthbearer.expected.audience={audience}
"""


@dataclass(frozen=True)
class SecuredKafka:
    """A running broker.

    Attributes:
        folder: Its folder, with ``ca.pem`` and the client's ``client.pem``.
        ports: The port of each listener.
        tokens: The server that gives its tokens.
    """

    folder: Path
    ports: dict[str, int]
    tokens: TokenServer

    def address(self, listener: str) -> str:
        """The address of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def admin(self) -> AdminClient:
        """A client that may do everything."""
        return AdminClient({"bootstrap.servers": self.address("internal")})

    def tls(self) -> dict[str, str]:
        """Client options that trust the broker's certificate authority, by the names of Java's clients."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }

    def mutual_tls(self) -> dict[str, str]:
        """Options of a client with a certificate of its own."""
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / "client.pem")}
        return self.tls() | own

    def login(self, mechanism: str, user: str, password: str) -> dict[str, str]:
        """Options of a client with a login."""
        sasl = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        return self.tls() | {"security.protocol": "SASL_SSL"} | sasl

    def token_login(self, client: str, secret: str, endpoint: str = "") -> dict[str, str]:
        """Options of a client that logs in with a token."""
        own = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.client.id": client,
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": endpoint or f"{self.tokens.https}/token",
            "https.ca.location": str(self.folder / "ca.pem"),
        }
        return self.tls() | own


@contextmanager
def secured_kafka(folder: Path, settings: Settings) -> Iterator[SecuredKafka]:
    """A broker that has a user ``reader``, who may read and write every topic, and a user ``nobody``."""
    folder.mkdir(parents=True)
    _write_certificates(folder)
    with ExitStack() as stack:
        tokens = stack.enter_context(token_server({"reader": PASSWORD}, folder / "broker.pem"))
        yield stack.enter_context(_running(folder, settings, tokens))


@contextmanager
def _running(folder: Path, settings: Settings, tokens: TokenServer) -> Iterator[SecuredKafka]:
    ports: list[int] = []
    while len(set(ports)) < len(LISTENERS) + 1:
        ports.append(processes.free_port())
    controller, *others = dict.fromkeys(ports)
    running = SecuredKafka(folder, dict(zip(LISTENERS, others, strict=True)), tokens)
    listeners = ",".join(f"{name.upper()}://{running.address(name)}" for name in LISTENERS)
    keys = f"{tokens.http}/jwks"
    text = _PROPERTIES.format(
        listeners=listeners,
        controller=controller,
        folder=folder,
        password=PASSWORD,
        jwks=keys,
        audience=AUDIENCE,
    )
    (folder / "server.properties").write_text(text)
    server = Server.of(folder, settings)
    java = [*server._java(256), f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"]
    words = [
        "format",
        "--standalone",
        "-t",
        "4L6g3nShT-eMCtK--X86sw",
        "-c",
        str(folder / "server.properties"),
    ]
    subprocess.run([*java, "kafka.tools.StorageTool", *words], check=True, capture_output=True)
    with (folder / "out.log").open("wb") as output:
        process = subprocess.Popen(
            [*java, MAIN_CLASS, str(folder / "server.properties")], stdout=output, stderr=output
        )
    try:
        _await_ready(running, process)
        _grant(running)
        yield running
    finally:
        process.terminate()
        process.wait(60)


def _await_ready(running: SecuredKafka, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    admin = running.admin()  # its results come only while the client exists
    while True:
        created = admin.create_topics([NewTopic("ready", 1, 1)], request_timeout=2)
        if created["ready"].exception() is None:
            return
        log = (running.folder / "out.log").read_text()[-3000:]
        assert process.poll() is None, log
        assert time.monotonic() < deadline, log
        time.sleep(0.2)


def _grant(running: SecuredKafka) -> None:
    admin = running.admin()
    acls = [
        AclBinding(kind, name, pattern, "User:reader", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern in (
            (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL),
            (ResourceType.GROUP, "medallion", ResourcePatternType.PREFIXED),
        )
        for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        if not (kind == ResourceType.GROUP and operation == AclOperation.WRITE)
    ]
    # A principal that may see a topic, and not read it.
    acls.append(
        AclBinding(
            ResourceType.TOPIC,
            "*",
            ResourcePatternType.LITERAL,
            "User:watcher",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
    )
    for granted in admin.create_acls(acls).values():
        granted.result()
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users = [
        UserScramCredentialUpsertion(user, scram, PASSWORD.encode(), os.urandom(16))
        for user in ("reader", "watcher")
    ]
    for created in admin.alter_user_scram_credentials(users).values():
        created.result()


def _write_certificates(folder: Path) -> None:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = _name("test authority")
    builder = _builder(name, name, authority_key.public_key(), timedelta(days=1))
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    authority = builder.add_extension(constraints, critical=True).sign(authority_key, hashes.SHA256())
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    for file, subject, hosts, valid in (
        ("broker", "localhost", here, timedelta(days=1)),
        ("expired", "localhost", here, timedelta(days=-1)),
        ("elsewhere", "kafka.example.com", [x509.DNSName("kafka.example.com")], timedelta(days=1)),
        ("client", "reader", [x509.DNSName("reader")], timedelta(days=1)),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(subject), name, key.public_key(), valid)
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate = builder.sign(authority_key, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        pem += certificate.public_bytes(serialization.Encoding.PEM)
        (folder / f"{file}.pem").write_bytes(pem)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=2))
        .not_valid_after(NOW + valid)
    )
