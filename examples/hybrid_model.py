"""A hybrid decoder: three layers of gated linear attention to one of grouped-query attention, experts on all of them.

Two kernels in NKI: a chunk of the gated delta rule, which multiplies by exp(-g) of a sum of gates and overflows when
the sum falls below -88, and a router that gathers a row of its expert by the index of the largest logit. What the first
makes NaN, the second cannot find, and looks up where nothing is.

    tilewright plan examples/hybrid_model.py            # executables, barriers, predicted times
    tilewright run examples/hybrid_model.py --gates -6  # realistic gates: out of bounds, and where it comes from
"""

import argparse

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from tilewright.host.model import compile_model

TOKENS, EXPERTS = 32, 16
FLAGS = "--enable-saturate-infinity --enable-mixed-precision-accumulation --model-type transformer -O1 --auto-cast=none"


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def like(x):
    return nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)


def product(a, b):
    """a.T @ b"""
    bank = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=a, moving=b)
    made = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=made, src=bank)
    return made


def combine(a, b, op):
    made = like(a)
    nisa.tensor_tensor(dst=made, data1=a, data2=b, op=op)
    return made


def exp(x, scale=1.0):
    made = like(x)
    nisa.activation(dst=made, op=nl.exp, data=x, scale=scale)
    return made


def inverse(a, eye, rounds):
    """(1 + a + a^2 + ...) of a strictly lower triangular matrix, by doubling."""
    total, power = combine(eye, a, nl.add), a
    for _ in range(rounds):
        power = product(product(power, eye), power)
        total = combine(total, product(product(total, eye), power), nl.add)
    return total


def finish(q, k, v, beta, gc, g_last, state, eye, scores, attention):
    """The end of both forms of the chunk: corrected values, output and state."""
    decayed_q, decayed_k = combine(q, exp(gc), nl.multiply), combine(k, exp(gc), nl.multiply)
    solve = product(inverse(scores, eye, 4), eye)
    values = product(solve, combine(v, beta, nl.multiply))
    keys = product(solve, combine(decayed_k, beta, nl.multiply))
    new = combine(values, product(product(keys, eye), state), nl.subtract)
    out = combine(product(product(decayed_q, eye), state), product(product(attention, eye), new), nl.add)
    rest = combine(k, exp(combine(g_last, gc, nl.subtract)), nl.multiply)
    return store(out), store(combine(combine(state, exp(g_last), nl.multiply), product(rest, new), nl.add))


@nki.jit
def delta_step(query, key, value, beta_in, g_cumsum, g_last_in, state_in, below, identity, below_or_on):
    """A chunk of the gated delta rule; decays are products of exp(g) and exp(-g)."""
    q, k, v, beta, gc = load(query), load(key), load(value), load(beta_in), load(g_cumsum)
    g_last, state, eye = load(g_last_in), load(state_in), load(identity)
    grown = product(combine(k, exp(gc, -1.0), nl.multiply), eye)
    decayed_kb = product(combine(combine(k, beta, nl.multiply), exp(gc), nl.multiply), eye)
    decayed_q = product(combine(q, exp(gc), nl.multiply), eye)
    scores = combine(product(decayed_kb, grown), load(below), nl.multiply)
    nisa.tensor_scalar(dst=scores, data=scores, op0=nl.multiply, operand0=-1.0)
    attention = combine(product(decayed_q, grown), load(below_or_on), nl.multiply)
    return finish(q, k, v, beta, gc, g_last, state, eye, scores, attention)


@nki.jit
def delta_step_safe(query, key, value, beta_in, g_cumsum, g_last_in, state_in, below, identity, below_or_on):
    """The same with exp(g_i - g_j), which is never above one: where it would be the mask lets nothing through."""
    q, k, v, beta, gc = load(query), load(key), load(value), load(beta_in), load(g_cumsum)
    g_last, state, eye = load(g_last_in), load(state_in), load(identity)
    mask, mask_on = load(below), load(below_or_on)
    apart = combine(gc, product(gc, eye), nl.subtract)
    nisa.tensor_scalar(dst=apart, data=apart, op0=nl.minimum, operand0=0.0)
    decay = exp(apart)
    k_columns = product(k, eye)
    scores = product(product(combine(k, beta, nl.multiply), eye), k_columns)
    scores = combine(combine(scores, decay, nl.multiply), mask, nl.multiply)
    nisa.tensor_scalar(dst=scores, data=scores, op0=nl.multiply, operand0=-1.0)
    attention = product(product(q, eye), k_columns)
    attention = combine(combine(attention, decay, nl.multiply), mask_on, nl.multiply)
    return finish(q, k, v, beta, gc, g_last, state, eye, scores, attention)


@nki.jit
def experts(x, router, table, identity):
    """x times the row of the expert that the router likes best."""
    tile = load(x)
    logits = product(product(tile, load(identity)), load(router))
    best = nl.ndarray((x.shape[0], 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(best, logits)
    index = nl.ndarray((x.shape[0], 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(index, logits, best)
    row = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    width = x.shape[1]
    nisa.dma_copy(dst=row, src=table.ap(pattern=[[width, x.shape[0]], [1, width]], vector_offset=index[:, 0:1]))
    return store(combine(tile, row, nl.multiply))


def experts_in_numpy(x, router, table, identity):
    """What to put in place of the kernel: replace={"experts": experts_in_numpy}."""
    return x * np.take(table, np.argmax(x @ router, axis=-1), axis=0)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def delta_layer(rng, kernel, gates):
    """Gated linear attention with weights of its own."""
    width = TOKENS
    wq, wk, wv, wb, table, router = (_weights(rng, shape) for shape in [(width, width)] * 4 + [(EXPERTS, width)] * 2)
    gate = np.cumsum(rng.uniform(gates, 0, TOKENS)).astype(np.float32)
    gc = np.repeat(gate[:, None], width, 1)
    last = np.full_like(gc, gate[-1])
    below = np.tril(np.ones((width, width), np.float32), -1)
    eye, state = np.eye(width, dtype=np.float32), np.zeros((width, width), np.float32)

    def layer(x):
        q, k, v = unit(x @ wq), unit(x @ wk), x @ wv
        beta = 1 / (1 + np.exp(-(x @ wb)))
        out, _ = kernel(q, k, v, beta, gc, last, state, below, eye, below + eye)
        x = unit(x + out)
        return x + experts(x, router.T.copy(), table, eye)

    return layer


def attention_layer(rng):
    """Grouped-query attention in NumPy: two heads of queries to one of keys."""
    wq, wk, wv = (_weights(rng, (TOKENS, size)) for size in (TOKENS, TOKENS // 2, TOKENS // 2))
    table, router = _weights(rng, (EXPERTS, TOKENS)), _weights(rng, (TOKENS, EXPERTS))
    later = np.triu(np.full((TOKENS, TOKENS), -1e9, np.float32), 1)
    eye = np.eye(TOKENS, dtype=np.float32)

    def layer(x):
        q, k, v = x @ wq, x @ wk, x @ wv
        heads = []
        for head in range(2):
            half = q[:, head * TOKENS // 2 : (head + 1) * TOKENS // 2]
            scores = half @ k.T / np.sqrt(TOKENS // 2).astype(np.float32) + later
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(scores / scores.sum(-1, keepdims=True) @ v)
        x = unit(x + np.concatenate(heads, -1))
        return x + experts(x, router, table, eye)

    return layer


def _weights(rng, shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def layers_of(count, kernel=delta_step, gates=-0.05, seed=0):
    """`count` layers, every fourth one of attention."""
    rng = np.random.default_rng(seed)
    return [attention_layer(rng) if number % 4 == 3 else delta_layer(rng, kernel, gates) for number in range(count)]


def model(count=4, kernel=delta_step, gates=-0.05, **options):
    """The model as one program, with the configuration that a library of inference would give it."""
    x = np.random.default_rng(1).standard_normal((TOKENS, TOKENS)).astype(np.float32)
    layers = layers_of(count, kernel, gates)
    return compile_model(layers, x, tp_degree=4, logical_nc_config=2, compiler_args=FLAGS, name="hybrid", **options), x


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--gates", type=float, default=-0.05)
    parser.add_argument("--safe", action="store_true")
    given = parser.parse_args()
    program, x = model(given.layers, delta_step_safe if given.safe else delta_step, given.gates)
    result = program(x)
    print(f"{given.layers} layers: mean {result.mean():.4f}, {np.isfinite(result).mean():.0%} finite")
