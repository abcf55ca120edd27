"""Tell the JDK's own packages, and those of libraries that many use, from others. Pure.

The memory of a Java machine says of a class which package it is in, not which file it is from. So
libraries are known by name: the roots of their packages. The list need not be complete; what it
lacks counts as the user's own.
"""

from __future__ import annotations

import re

from ..origin import Origin

_JDK = re.compile(r"(java|javax|jdk|sun|com\.sun|org\.(ietf\.jgss|w3c\.dom|xml\.sax|jcp))(\..*)?")

_LIBRARIES = {
    "ch": "qos.logback",
    "com": "amazonaws codahale datastax esotericsoftware fasterxml github.benmanes google.api"
    " google.auth google.cloud google.common google.gson google.inject google.protobuf hazelcast"
    " lmax mchange mongodb mysql netflix rabbitmq squareup thoughtworks typesafe zaxxer",
    "io": "dropwizard grpc helidon jsonwebtoken ktor lettuce micrometer micronaut netty"
    " opentelemetry perfmark projectreactor prometheus quarkus reactivex smallrye swagger undertow"
    " vertx",
    "net": "bytebuddy jcip jpountz sf",
    "org": "agrona antlr apache aspectj assertj bouncycastle codehaus eclipse ehcache flywaydb"
    " glassfish h2 hamcrest hibernate hsqldb infinispan jboss jctools jetbrains joda jooq json"
    " junit liquibase lz4 mapstruct mariadb mockito mozilla mybatis neo4j objectweb postgresql"
    " quartz reactivestreams rocksdb roaringbitmap slf4j springframework testng thymeleaf wildfly"
    " xerial xnio yaml",
    "redis": "clients",
    "software": "amazon",
    "": "akka clojure groovy groovyx jakarta javassist junit kotlin kotlinx lombok okhttp3 okio"
    " reactor retrofit2 rx scala zio",
}
_ROOTS = {
    f"{root}.{name}" if root else name
    for root, names in _LIBRARIES.items()
    for name in names.split()
}
_MOST_PARTS = 1 + max(root.count(".") for root in _ROOTS)


def origin_of_package(package: str) -> Origin:
    """Return whose code a package is."""
    if _JDK.fullmatch(package):
        return Origin.STDLIB
    parts = package.split(".")[:_MOST_PARTS]
    is_library = any(".".join(parts[: i + 1]) in _ROOTS for i in range(len(parts)))
    return Origin.LIBRARY if is_library else Origin.PROJECT
