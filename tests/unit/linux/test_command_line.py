from __future__ import annotations

import pytest

from flametap.linux.command_line import has_functions_of_its_own, program_name


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/usr/bin/redis-server *:6379", "redis-server"),
        ("nginx: worker process", "nginx"),
        ("/srv/v/bin/python3 /srv/v/bin/gunicorn -w 4 shop:app", "gunicorn"),
        ("python3.12 -X dev -u -m http.server 8000", "http.server"),
        ("python3 -c import time", "python3"),
        ("python3", "python3"),
        ("python3 -", "python3"),
        ("node --require ./trace.js server.js", "server.js"),
        ("java -Xmx1g -cp a.jar:b.jar org.apache.kafka.Kafka server.properties", "Kafka"),
        ("java -jar /opt/shop.jar --port 1", "shop.jar"),
        ("[kworker]", "[kworker]"),
        ("", ""),
    ],
)
def test_name_is_that_of_what_runs(command: str, expected: str) -> None:
    assert program_name(command) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("python3.11", True), ("node", True), ("java", True), ("bash", False), ("cc1", False)],
)
def test_interpreters_have_functions_of_their_own(name: str, expected: bool) -> None:
    assert has_functions_of_its_own(name) is expected
