"""Groups that compute softmax(mask(x @ y * scale)) @ v and nothing else, after the rewrites of `prepare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import bfloat16, float16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.regions.causal import FAR_BELOW, masked_from
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING
from tilewright.tensor.passes.match import maker, number

if TYPE_CHECKING:
    from tilewright.lower.regions.grouping import Group

FLOATS = (float32, bfloat16, float16)


@dataclass(frozen=True, slots=True)
class Choice:
    """A number in place of scores: of those for which a condition holds, or of the others."""

    condition: Value
    number: float
    where_set: bool


@dataclass(frozen=True, slots=True)
class SoftmaxProduct:
    """result = softmax(scores * scale + mask) @ v; `scores` and `product` are the two products.

    query: the left operand of the scores, before casts of the group. band: the attributes of a mask that a rule
    describes. causal: what the mask covers counts for nothing, and it covers all that comes after a row's own column.
    hides: what the mask has is there in place of scores, whatever these are, rather than added to them. choice: what is
    there in place of some scores, after the mask.
    """

    scores: Op
    product: Op
    result: Op
    query: Value
    scale: float
    mask: Value | None
    band: Mapping[str, Any] | None
    causal: bool
    choice: Choice | None = None
    hides: bool = False

    @property
    def masks(self) -> list[Value]:
        """What tells keys apart, other than by a rule."""
        masks = [] if self.band is not None else [self.mask]
        return [x for x in (*masks, self.choice and self.choice.condition) if x is not None]


ATTENDING = ("multiply", "add", "where", "max", "subtract", "exp", "sum", "divide", "cast", *PRODUCTS)


def ops_after(scores: Op) -> list[Op]:
    """What could be a softmax product that begins with a product: the ops that follow up to the second product."""
    found, work = {scores: None}, [scores]
    while work and len(found) <= TUNING.looked_ahead:
        op = work.pop(0)
        ends = op.name == "divide" and maker(op.operands[0], *PRODUCTS) is not None
        if ends or (op.name in PRODUCTS and op is not scores):
            continue
        for use in op.result.uses:
            if use.name not in ATTENDING:
                return []
            if use not in found:
                found[use] = None
                work.append(use)
    return list(found)


def find_softmax_product(group: Group, lanes: int, bank: int | None = None) -> SoftmaxProduct | None:
    """The softmax product that a group is, if it is one that parts of rows can be computed of.

    bank: how many columns the values may have at most.
    """
    inside = set(group.ops)
    exps = [op for op in group.ops if op.name == "exp"]
    shifted = maker(exps[0].operands[0], "subtract") if len(exps) == 1 else None
    if shifted is None or not isinstance(shifted.operands[0], Value):
        return None
    top, x = maker(shifted.operands[1], "max"), shifted.operands[0]
    total = next((op for op in exps[0].result.uses if op.name == "sum"), None)
    last = (x.type.rank - 1,)
    if top is None or total is None or top.operands[0] is not x or {top.attrs["axes"], total.attrs["axes"]} != {last}:
        return None
    seen = {exps[0], shifted, top, total}
    inner, choice = _choice(x, seen)
    mask, scale, scores = _unscaled(inner, seen)
    end = _product(exps[0], total, seen)
    if scores is None or end is None:
        return None
    product, result = end
    query = scores.operands[0]
    cast = maker(query, "cast")
    if cast is not None and cast in inside:
        seen.add(cast)
        query = cast.operands[0]
    plain = query.producer not in inside
    if seen != inside or not plain or group.results != [result.result] or group.own:
        return None
    width, columns = scores.operands[1].type.shape[-2:]
    values = product.operands[1].type
    fits = width <= lanes and (bank is None or values.shape[-1] <= bank) and x.type.dtype is float32
    types = {query.type.dtype, scores.operands[1].type.dtype, values.dtype, product.operands[0].type.dtype}
    if not fits or not types <= set(FLOATS):
        return None
    if product.name != "matmul_split" and values.dtype is not product.operands[0].type.dtype:
        return None
    if scores.operands[1].producer in inside or product.operands[1].producer in inside:
        return None
    band = _hiding(choice, x, mask)
    hides = band is not None
    choice = None if hides else choice
    if mask is not None:
        described = maker(mask, "band")
        if described is not None:
            band = described.attrs
            if (band["low"] is None) == (band["high"] is None) or band["outside"] != 0:
                return None
        elif not mask.type.dtype.is_float:
            return None
    square = x.type.shape[-2] == columns
    causal = band is not None and square and band["low"] == 1 and band["high"] is None and band["inside"] <= FAR_BELOW
    made = SoftmaxProduct(scores, product, result, query, scale, mask, band, causal, choice, hides)
    return made if all(_is_given(each, x, inside) for each in made.masks) else None


def _hiding(choice: Choice | None, x: Value, mask: Value | None) -> Mapping[str, Any] | None:
    """The mask that a number is which takes the place of all scores after a row's own column."""
    where = x.producer
    if choice is None or mask is not None or where is None or masked_from(where) != 1:
        return None
    return {"low": 1, "high": None, "inside": choice.number, "outside": 0}


def _is_given(mask: Value, scores: Value, inside: set[Op]) -> bool:
    """True for what is there before, for all queries or for each of them."""
    op = mask.producer
    if op is not None and (op in inside or op.definition.family == "creation"):
        return False
    rows, shape = mask.type.shape[-2:-1], scores.type.shape
    return mask.type.shape[-1:] == shape[-1:] and rows in ((), (1,), shape[-2:-1])


def has_own_rows(found: SoftmaxProduct) -> bool:
    """True where masks have a row for each query, and nothing else takes the place of scores."""
    shape = found.scores.result.type.shape
    return found.choice is None and all(mask.type.shape[-2:] == shape[-2:] for mask in found.masks)


def has_few_queries(group: Group, found: SoftmaxProduct) -> bool:
    """True for attention that is written this way."""
    roles, shape = group.roles[found.scores.result], found.scores.result.type.shape
    if found.hides or group.rows > TUNING.few_queries or shape[-1] < TUNING.many_keys or roles.rows[1] > len(shape) - 1:
        return False
    # A number for each key, whatever the query.
    return group.rows == 1 or all(
        d < len(shape) - mask.type.rank or mask.type.shape[d - len(shape)] == 1
        for mask in ([] if found.mask is None else [found.mask]) + found.masks
        for d in range(*roles.rows)
    )


def _choice(x: Value, seen: set[Op]) -> tuple[Value, Choice | None]:
    """Scores, and what takes the place of some of them."""
    op = maker(x, "where")
    if op is None:
        return x, None
    condition, *both = op.operands
    for i, (scores, other) in enumerate((both, both[::-1])):
        put = number(other)
        if isinstance(scores, Value) and put is not None and scores.type.shape == x.type.shape:
            seen.add(op)
            return scores, Choice(condition, float(put), i == 1)
    return x, None


def _unscaled(x: Value, seen: set[Op]) -> tuple[Value | None, float, Op | None]:
    """The mask, the factor and the product that scores are made of."""
    mask = None
    op = maker(x, "add")
    if op is not None:
        a, b = op.operands
        if not (isinstance(a, Value) and isinstance(b, Value)):
            return None, 1.0, None
        x, mask = (a, b) if maker(a, "multiply", *PRODUCTS) is not None else (b, a)
        seen.add(op)
    scale, op = 1.0, maker(x, "multiply")
    factor = None if op is None else number(op.operands[1])
    if op is not None and factor is not None and isinstance(op.operands[0], Value):
        seen.add(op)
        x, scale = op.operands[0], float(factor)
    product = maker(x, *PRODUCTS)
    if product is not None:
        seen.add(product)
    return mask, scale, product


def _product(exp: Op, total: Op, seen: set[Op]) -> tuple[Op, Op] | None:
    """The product with the values and the last op, where the division stands before or after it."""
    weights = exp.result
    others = [op for op in weights.uses if op is not total]
    if len(others) != 1:
        return None
    divided = others[0].name == "divide"
    op = others[0]
    while op.name in ("divide", "cast"):
        if op.operands[0] is not weights or (op.name == "divide" and op.operands[1] is not total.result):
            return None
        seen.add(op)
        weights = op.result
        if len(weights.uses) != 1:
            return None
        op = weights.uses[0]
    if op.name not in PRODUCTS or op.operands[0] is not weights:
        return None
    seen.add(op)
    product = end = op
    if not divided:
        uses = product.result.uses
        if len(uses) != 1 or uses[0].name != "divide" or uses[0].operands[1] is not total.result:
            return None
        end = uses[0]
        seen.add(end)
    return product, end
