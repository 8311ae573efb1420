"""Making tensor ops: `emit` infers the result types and puts the op at a builder's insertion point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.build import Builder
from tilewright.ir.core import Op, Value
from tilewright.tensor.record import TABLE, OpRecord


def make(record: OpRecord | str, *operands: Any, **attrs: Any) -> Op:
    """A detached op (what rewrite rules return)."""
    definition = TABLE[record] if isinstance(record, str) else record
    results = [Value(type) for type in definition.types(operands, attrs)]
    return Op(definition, operands, results, attrs)


def value(record: OpRecord | str, *operands: Any, **attrs: Any) -> Value:
    """The only result of a detached op: lets rules nest, `value("add", value("negative", x), 1)`."""
    return make(record, *operands, **attrs).result


def insert_tree(made: Value, before: Op) -> None:
    """Put the detached op that makes a value, after the detached ops that it uses, before another op."""
    op = made.producer
    if op is None or op.parent is not None:
        return
    for x in op.values():
        insert_tree(x, before)
    assert before.parent is not None
    op.location = op.location or before.location
    before.parent.insert_before(before, op)


def read_instead(old: Value, new: Value, before: Op) -> None:
    """Let who reads a value read the same elements of a detached one, of another shape; it gets its name and line."""
    op = new.producer
    assert op is not None
    op.location = None if old.producer is None else old.producer.location
    new.name = old.name
    back = value("reshape", new, shape=old.type.shape)
    insert_tree(back, before)
    old.replace_all_uses(back)


def emit(builder: Builder, record: OpRecord | str, *operands: Any, **attrs: Any) -> Value:
    """Add an op with one result."""
    return builder.insert(make(record, *operands, **attrs)).result


def emit_all(builder: Builder, record: OpRecord | str, *operands: Any, **attrs: Any) -> Sequence[Value]:
    """Add an op; all of its results."""
    return builder.insert(make(record, *operands, **attrs)).results
