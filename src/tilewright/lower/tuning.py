"""Numbers that lowering chooses, in one object: thresholds and sizes that no document gives and that a test or a
measurement may move. What the hardware fixes is in the target files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class Tuning:
    """Every number by name. They are read when they are used, so that `tuned` reaches all of lowering."""

    # What is in work at a time
    transfer_bytes: int = 1 << 20
    """What one transfer of a large operand brings."""
    part_bytes: int = 1 << 15
    """Bytes per partition of what is in work, or is held for it, beside much else."""
    piece_bytes: int = 1 << 13
    """Bytes per partition of a piece that is loaded, filled or stored at a time, where there are many."""
    panel: int = 2048
    """Columns in work at a time, where more would go."""
    copies: int = 3
    """Copies of the tiles of a loop: one is filled, one is worked on, one waits for bandwidth."""
    together: int = 2
    """Things in work at a time: one engine has the one while another engine has the other."""
    tall_pieces: int = 4
    """Pieces in which something is loaded and stored, at least, so that loads, work and stores overlap."""

    # Unrolled loops (unrolled.py)
    least_steps: int = 4
    """Steps that do the same, from which on they are done at once."""
    rolled_up: int = 4
    """How often what came of it is looked at again."""
    stack_tries: int = 200
    """Ways that are tried to lay out what the steps of a scan take (stacks.py)."""

    # Products (prepare.py)
    joined_columns: int = 16
    """Columns that are multiplied by a matrix together where programs do so apart (joined_products.py)."""
    few_terms: int = 16
    """Elements of a matrix that rows are multiplied by column by column (small_products.py)."""
    least_scaled: int = 1 << 6
    """Rows of weights of 8 bits, from which on their scales come after the product."""

    row_runs: int = 4
    """Runs of rows that are evenly apart in a block; of shorter ones a copy is made."""

    picked_of: int = 1 << 8
    """Elements of a row of an input for each that is picked of it, from which on the others are not loaded."""

    # Convolutions by taps (taps.py)
    least_taps: int = 3
    """Products of shifted slices, from which on their sum is a convolution."""

    most_taps: int = 32
    """Offsets of a kernel up to which a convolution of single channels may be a sum (spread_taps.py)."""

    # Batches of products (batches.py)
    batch_columns: int = 1 << 8
    """Columns from which on a product is one of a batch, rather than put together with others."""

    # Regions of neighbours (patch_sizes.py)
    patch_chunks: int = 16
    """How many times a program may say what to do with some patches."""
    patch_tries: int = 3
    """Sizes of patches that are timed."""

    # Groups (grouping.py)
    shared_elements: int = 8192
    """A small op up to this size is computed by each of its readers for itself."""
    block_cost: int = 200
    """Elements per partition that take as long as a block of rows takes beyond its elements."""
    moved_cost: int = 8
    """Elements per partition that take as long as one that is moved to other rows."""
    rough: float = 2.0
    """How far about estimated times may be from the truth, at least."""
    twins: int = 2
    """Other layouts of a group that are tried."""
    few_rows: int = 32
    much_work: int = 2048
    """Work beyond this size does not join a group of fewer rows."""
    few_elements: int = 1 << 15
    """Elements up to which a transfer may move them one by one."""

    # Groups whose rows are reduced (tall.py, tall_rows.py)
    least_run: int = 1 << 8
    """Bytes of such a value that lie together, at least."""
    tall_bytes: int = 160 << 10
    """What the narrowest columns of a value may take of a partition."""
    same_for_all: int = 1 << 17
    """Elements of a value that every partition has for itself."""
    looked_ahead: int = 16
    """Ops that are looked through for a reduction."""
    few_channels: int = 1 << 4
    """Entries of a dim between others that are reduced, from which on they lie on partitions."""
    most_channel_elements: int = 1 << 22
    """Elements of such a value at most: all of them are on chip."""
    by_blocks_bytes: int = 2048
    """Bytes of a row from which on it may be a transfer of its own."""
    least_tall_part: int = 1 << 11
    """The same at least: smaller parts overlap nothing."""
    tall_columns: int = 1 << 10
    """Columns in work at a time, where rows are few."""
    twinned: int = 8
    """Rows of a partition from which on what they are computed with is put into PSUM too."""
    least_height: int = 64
    """Columns that lie on partitions of their own, at least."""
    upright_bytes: int = 1 << 16
    """What a reduction of other dims than rows may read of a partition, the narrowest columns of it."""

    added_bytes: int = 1 << 15
    """Bytes per partition of a product over all rows up to which it is added up in SBUF (totals.py)."""

    # Blocks (blocks.py)
    tile_bytes: int = 16384
    """Bytes per partition that a load should bring: enough for a transfer at full rate."""
    many_blocks: int = 16
    short_row: int = 64
    """Rows of fewer elements, in more blocks, are not kept on chip: each block takes instructions of its own."""
    block_bytes: int = 4096
    """Bytes per partition and block below which further blocks overlap nothing."""

    # Reductions of dims that are not the last (steps.py)
    folded_columns: int = 64
    """Elements that lie together between those of a line, from which on it is folded by halves."""

    # Small operands (early.py)
    ahead_pieces: int = 512
    """Pieces of memory that one transfer of theirs consists of at most."""
    early_times: float = 4.0
    """How much longer than a transfer of many short pieces the issue of one for each block takes at least."""

    # Parts of rows that do not fit (cuts.py)
    longest_part: int = 8192
    """Elements of an axis in work at a time, at most."""
    least_part: int = 64
    """An axis of which fewer elements would fit is not cut alone."""

    long_row: int = 4096
    """Elements of a row from which on it may lie across several partitions."""
    longest_row: int = 1 << 20
    """Elements of a row up to which it may: beyond, parts of it are reduced, then what they gave."""
    line: int = 1024
    """Elements of a line of an axis that is reduced, at most."""
    row_parts: int = 1 << 7
    """Parts of it then, at most."""

    # Products of integers (whole_products.py)
    few_products: int = 4
    """Parts of K up to which each is a product of its own."""

    # Products of any size (large.py)
    large_row_blocks: int = 16
    """Blocks of rows in work at a time."""
    large_k_blocks: int = 64
    """Blocks of K in work at a time."""
    least_k_blocks: int = 2
    """At least so many, where that fits."""

    # Attention by parts of rows (online.py)
    least_online_panel: int = 512
    few_queries: int = 32
    """Queries up to which the keys lie on partitions rather than the queries (few_queries.py)."""
    many_keys: int = 1024
    """Keys from which on they do."""
    query_chunk: int = 32
    """Columns of keys in work at a time, a key to a partition."""
    row_lengths: int = 16
    """At most so many different row lengths in a causal attention, so that the kernel does not grow with its length."""

    # Reductions over rows (rows.py)
    columns: int = 4096
    """Columns that are reduced at a time."""
    tensor_share: float = 0.5
    """Share of the time of a load that adding up its rows may take of the Tensor engine, slow when often idle."""

    # Running sums over rows (scan_rows.py)
    scanned_part: int = 1 << 6
    """Elements of a row from which on rows are turned for it."""
    scanned_columns: int = 1 << 10
    """Columns in work at a time."""
    scanned_rows: int = 1 << 9
    """Rows in work at a time."""

    # Copies (copy.py, assemble.py, lay.py, transfers.py)
    long_run: int = 512
    strip_ns: float = 2500.0
    """An instruction that takes as long twice is cut in strips."""
    most_strips: int = 16
    """Strips of an instruction: more overlap no better, and take their time to write."""
    much_straight: float = 0.1
    """The share of the time of a kernel from which on the order of its straight code is looked at (finish.py)."""
    long_text: int = 90
    """Ops of a kernel from which on straight code need not keep the order of the program."""
    ahead_of_others: int = 32
    """Instructions by which one may come before others that were written before it (order.py)."""
    dispatched: int = 1000
    """Instructions up to which each is put where it ends first."""
    macro: tuple[int, int] = (512, 1024)
    """Rows and columns that may be turned at a time."""
    most_parts: int = 16
    """Parts in which a transfer of many short runs is made."""
    fewer_parts: float = 1.25
    """How many times longer it may take in fewer of them."""
    window_rest: int = 4
    """An inner dim is loaded as a whole where less than this part of what windows see is left over (windows.py)."""
    scattered: int = 4
    """How many times longer a store may take than one of whole rows before its elements change their order first."""
    turned_ns: int = 8192
    """Time of a load from which on rows that lie across memory are turned on chip."""
    excess: int = 4
    """How many times the time of moving them is held against bytes that are read without being needed."""
    least_laid: int = 512
    """Elements of a partition that an engine puts in order at least, where several could."""

    # Rows one by one (rehome.py)
    many_slices: int = 4
    """Single rows of a value that are read, from which on all of its rows are moved to one partition."""

    # Engines (select.py)
    split_columns: int = 513
    """Columns from which on two engines share an instruction."""
    aligned: int = 64
    """Columns at a multiple of which it is cut."""
    least_share: float = 0.15
    """Part of the columns that an engine has at least, if it has any."""
    shares: int = 16
    """Parts into which work is divided among engines."""
    least_gain: float = 0.005
    """Part of a loop's time for which an instruction is given to another engine."""

    # Indices (roles.py, combine.py)
    gathered: int = 1 << 20
    """Elements from which on rows that are taken from a table are fetched by those who compute with them."""
    least_order: int = 1 << 7
    """Elements of an axis from which on what is put in an order is sorted by it."""
    table: int = 5 << 12
    """Elements of a table that every partition may have for itself, to look single numbers up in it."""
    looked_up: int = 1 << 10
    """Numbers from which on they are."""
    table_share: int = 4
    """Elements of a table for each of them at most: to bring one to all partitions takes a seventh of the time of a
    fetch."""
    most_ranges: int = 8
    """Ranges of known indices up to which what is taken is a join of parts."""
    sparse: int = 1024
    """Elements of a row for each one that is read, from which on rows are not loaded for it."""
    index_line: int = 8192
    """Indices that lie in one partition at a time, in whole blocks of rows, to be used one by one."""
    compared: int = 2048
    """Indices that a partition compares its own place with at a time."""

    # Sums by places (counting.py)
    counted_row: int = 4
    """Columns that a table of places has at least."""
    counted_columns: int = 1 << 8
    """Columns that it has at most: bfloat16 holds their numbers."""

    # Sorted rows (bisect.py)
    bisected_values: int = 512
    """Values that each partition looks for at a time."""

    # Searches (search.py, topk.py)
    searched: int = 8192
    """Elements of a row that are searched at a time."""
    segment: int = 1024
    """A row of more elements than this is cut into segments where there are few rows."""

    # Sorting by networks (spans.py)
    sorted_long: int = 1 << 20
    """Elements of a row that lies across partitions, at most."""

    # Rows on every partition (moves.py)
    spread_bytes: int = 1 << 20
    """Bytes of such a tile from which on the row is loaded once and spread on chip."""

    # Pieces (pieces.py, matmul.py)
    pieces: int = 3
    """Pieces in which a product's left operand is made."""
    least_piece: int = 512
    """Columns that a piece has at least."""

    # Operands that pass through a few tiles (matmul.py, placement.py)

    neat_bytes: int = 64
    """Addresses in SBUF are multiples of it, where there is room."""

    # blocks.py
    most_copies: int = 6
    """Copies of a tile that may be alive at once, so that transfers and engines overlap, where there is room."""

    # convolution.py
    convolution_parts: int = 8
    """A load of weights brings as much as this part of SBUF."""

    # depthwise.py
    depthwise_unrolled: int = 49
    """Offsets up to which engines share them; more are a loop."""

    # elements.py
    element_tiles: int = 8
    """Tiles of 32-bit numbers for which there has to be room."""

    # even.py
    least_even_parts: int = 8
    """Parts of a row that make it worth while to gather more work around a few long rows."""

    # prepare.py
    most_layers: int = 64
    """Arrays whose stack is combined one by one."""

    # grouping.py
    few_makers: int = 16
    """Times that what a group reads of itself is larger than what is computed ahead of the group for it."""

    # rebalance.py
    trips_together: tuple[int, ...] = (1 << 8, 1 << 7, 1 << 6)
    """Instructions of the trips of a loop that are written together (together.py)."""
    together_gain: float = 0.045
    """Part of the time of a kernel that this has to gain, and once more for every time its text is twice as long."""
    rebalanced: int = 12000
    """Executions that the clock is asked for, in all, when work is moved between engines."""

    # forms.py
    tried_ops: int = 640
    """Ops of programs that are lowered to see whether rows of an axis gain something."""
    least_excess: float = 0.1
    """Part of a kernel's time by which a region has to take longer than it should."""
    most_gain: float = 0.25
    """Part of an engine's time at most that is saved once a kernel is written: dead code, work of other engines."""

    # fit.py
    short_rows: int = 512
    """Elements of the longest rows of which a partition may have several in work."""
    overlapped_time: float = 1.18
    """A way whose time is not so many times that of its busiest engine need not be bettered."""
    settled_after: int = 3
    """Similar groups that were best written in one way, from which on others are written so at once."""
    timed_instructions: int = 20_000
    """Instructions up to which a way is timed by the clock."""
    about_equal: float = 1.05
    """Bytes and times that differ by less count as the same."""
    bytes_weight: float = 1 / 3
    """The power of bytes that times are multiplied by: a way with twice the bytes has to be a fifth faster."""
    most_demoted: int = 8
    """Values that give way to a group one by one (ways.py); then all do."""

    # array_parts.py
    part_columns: int = 64
    """Columns of a product that a part of the array has at least."""
    parts_gain: float = 0.03
    """Part of a kernel's time that parts have to save, as they take more instructions."""

    # matmul.py
    written_blocks: int = 4
    """Blocks of K that are written one by one."""
    wide_terms: int = 24
    """Blocks of K from which on a product by terms fills two banks at a time: emptying them takes long."""

    # online.py
    online_staged_blocks: int = 16
    """Blocks of keys that one transfer brings."""

    # picker.py
    longest_picked: int = 1 << 18
    """Elements of a row up to which each one counts those before it."""
    picked_chunks: int = 15
    """Chunks of a row that are written one after the other, if they are not too long then."""
    picked_groups: tuple[int, ...] = (4, 8, 16, 32)
    """Neighbours that may be searched together."""
    picked_gain: float = 0.1
    """Part of the time that this has to save."""
    picked_worth: int = 40000
    """Elements that pass by from which on it is worth three times as many instructions."""
    picked_unrolled: int = 8
    """Rounds of eight up to which they are written one after the other."""

    # spans.py
    network_worth: float = 1.0
    """How many times longer than a search a network may take that sorts rows instead."""
    ranked: int = 1 << 31
    """Places in a row times positions in it up to which both are one integer."""

    # repeats.py
    most_repeat_dims: int = 5
    """Dims that a value may have once one of them is split."""

    # right.py
    small_operand_bytes: int = 1 << 18
    """A right operand up to this size is loaded as a whole, before the first block."""
    causal_operand_bytes: int = 1 << 21
    """The same where the blocks are of many kinds, each of which would have to load its part."""
    operand_load_pieces: int = 8
    """Transfers that bring an operand which has to be turned."""


TUNING = Tuning()
"""The numbers in force."""


@contextmanager
def tuned(**numbers: Any) -> Iterator[Tuning]:
    """Other numbers for a while: tests bring every decision within reach of small arrays with them."""
    before = asdict(TUNING)
    unknown = numbers.keys() - before.keys()
    assert not unknown, f"no such numbers: {sorted(unknown)}"
    try:
        for name, number in numbers.items():
            setattr(TUNING, name, number)
        yield TUNING
    finally:
        for name, number in before.items():
            setattr(TUNING, name, number)
