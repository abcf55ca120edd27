"""Whose code a function of a Ruby program is, and how files are called."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind, Function
from flametap.symbols.interpreters.function_origin import origin_of
from flametap.symbols.interpreters.origin import Origin
from flametap.symbols.interpreters.ruby.paths import short_path
from flametap.symbols.interpreters.ruby.plumbing import is_plumbing


@pytest.mark.parametrize(
    "name", ["rb_vm_exec", "rb_yield", "rb_funcallv", "rb_vm_call0", "ruby_run_node", "rb_ensure"]
)
def test_calls_are_plumbing(name: str) -> None:
    assert is_plumbing(Function(name, "libruby-3.1.so.3.1.2"))


@pytest.mark.parametrize(
    "name", ["rb_ary_each", "rb_str_concat", "rb_gc_start", "rb_hash_foreach", "main", "rb_nogvl"]
)
def test_work_is_not(name: str) -> None:
    assert not is_plumbing(Function(name, "libruby-3.1.so.3.1.2"))


def test_a_method_is_not() -> None:
    assert not is_plumbing(Function("rb_yield", "", kind=FrameKind.RUBY))


@pytest.mark.parametrize(
    ("path", "short", "origin"),
    [
        ("/srv/shop/app/models/cart.rb", "models/cart.rb", Origin.PROJECT),
        ("/usr/lib/ruby/3.1.0/net/http.rb", "net/http.rb", Origin.STDLIB),
        ("<internal:kernel>", "<internal:kernel>", Origin.STDLIB),
        ("/usr/lib/ruby/vendor_ruby/rack/builder.rb", "rack/builder.rb", Origin.LIBRARY),
        ("/var/lib/gems/3.1.0/gems/rack-2.2.6/lib/rack/head.rb", "rack/head.rb", Origin.LIBRARY),
        ("/b/ruby/3.1.0/gems/pg-1.4.5/lib/pg.rb", "pg/pg.rb", Origin.LIBRARY),
        (
            "/usr/share/rubygems-integration/all/gems/puma-5.6/lib/puma/server.rb",
            "puma/server.rb",
            Origin.LIBRARY,
        ),
        ("/a/bundler/gems/rails-0f1e2d3c4b5a/lib/rails.rb", "rails/rails.rb", Origin.LIBRARY),
        ("(eval)", "(eval)", Origin.PROJECT),
        ("config.ru", "config.ru", Origin.PROJECT),
        ("", "", Origin.STDLIB),
    ],
)
def test_files(path: str, short: str, origin: Origin) -> None:
    assert short_path(path) == short
    assert origin_of(Function("m", short, path, FrameKind.RUBY)) is origin
