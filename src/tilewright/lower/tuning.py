"""Numbers that lowering chooses, in one place: thresholds and sizes that no document gives and that a test or a
measurement may move. What the hardware fixes is in the target files."""

from __future__ import annotations

# Groups (grouping.py)
SHARED_ELEMENTS = 8192
"""A small op up to this size is computed by each of its readers for itself."""
BLOCK_COST = 200
"""Elements per partition that take as long as a block of rows takes beyond its elements."""
FEW_ROWS = 32
MUCH_WORK = 2048
"""Work beyond this size does not join a group of fewer rows."""
MOST_NARROW = 1 << 20
"""Elements that are reduced by a few partitions at most, where many can."""
MOST_BLOCKS = 8
"""Blocks of rows up to which work on them is not left to a few partitions."""
FEW_ELEMENTS = 1 << 15
"""Elements up to which a transfer may move them one by one."""

# Groups whose rows are reduced (tall.py, tall_rows.py)
LEAST_RUN = 1 << 8
"""Bytes of such a value that lie together, at least."""
TALL_BYTES = 160 << 10
"""What the narrowest columns of a value may take of a partition."""
SAME_FOR_ALL = 1 << 17
"""Elements of a value that every partition has for itself."""
LOOKED_AHEAD = 16
"""Ops that are looked through for a reduction."""
EXACT_INTEGER = 1 << 24
"""Integers up to this are float32 numbers."""
FEW_CHANNELS = 1 << 4
"""Entries of a dim between others that are reduced, from which on they lie on partitions."""
MOST_CHANNEL_ELEMENTS = 1 << 22
"""Elements of such a value at most: all of them are on chip."""
TALL_PART = 1 << 15
"""Bytes per partition of a value in work at a time, where columns can be cut."""
BY_BLOCKS_BYTES = 2048
"""Bytes of a row from which on it may be a transfer of its own."""
LEAST_TALL_PART = 1 << 11
"""The same at least: smaller parts overlap nothing."""
TALL_COLUMNS = 1 << 10
"""Columns in work at a time, where rows are few."""
STREAMED_PIECE = 1 << 13
"""Bytes per partition of a piece of rows that do not stay on chip."""
OVERLAPPED = 1 << 14
"""Bytes per partition of the only block of rows from which on parts of it are in work."""
TWINNED = 8
"""Rows of a partition from which on what they are computed with is put into PSUM too."""
LEAST_HEIGHT = 64
"""Columns that lie on partitions of their own, at least."""
TALL_PIECES = 4
"""Pieces in which the rows are loaded and stored, at least."""
UPRIGHT_BYTES = 1 << 16
"""What a reduction of other dims than rows may read of a partition, the narrowest columns of it."""

# Blocks (blocks.py)
TILE_BYTES = 16384
"""Bytes per partition that a load should bring: enough for a transfer at full rate."""
MANY_BLOCKS = 16
SHORT_ROW = 64
"""Rows of fewer elements, in more blocks, are not kept on chip: each block takes instructions of its own."""
BLOCK_BYTES = 4096
"""Bytes per partition and block below which further blocks overlap nothing."""

# Reductions of dims that are not the last (steps.py)
FOLDED_COLUMNS = 64
"""Elements that lie together between those of a line, from which on it is folded by halves."""

# Masks (described.py)
DIAGONAL_BYTES = 1 << 13
"""Bytes per partition up to which a band near the diagonal is made once for all blocks of rows."""

# Small operands (early.py)
AHEAD_BYTES = 1 << 13
"""Bytes per partition of what several trips of a loop load or store together (ahead.py)."""
AHEAD_PIECES = 512
"""Pieces of memory that one transfer of theirs consists of at most."""
AHEAD_PARTS = 4
"""Parts that such a loop has at least, so that loading, computing and storing overlap."""
EARLY_BYTES = 1 << 15
"""Bytes per partition up to which the rows of an operand are loaded before the loop over them."""

# Parts of rows that do not fit (cuts.py)
LONGEST_PART = 8192
"""Elements of an axis in work at a time, at most."""
LEAST_PART = 64
"""An axis of which fewer elements would fit is not cut alone."""
PART_COPIES = 3
"""Copies of every tile that there should be room for."""

LONG_ROW = 4096
"""Elements of a row from which on it may lie across several partitions."""
LONGEST_ROW = 1 << 20
"""Elements of a row up to which it may: beyond, parts of it are reduced, then what they gave."""
ROW_PARTS = 1 << 7
"""Parts of it then, at most."""

# Products of any size (large.py)
LARGE_PANEL = 2048
"""Columns in work at a time."""
LARGE_ROW_BLOCKS = 16
"""Blocks of rows in work at a time."""
LARGE_K_BLOCKS = 16
"""Blocks of K in work at a time."""
LEAST_K_BLOCKS = 2
"""At least so many, where that fits."""

# Attention by parts of rows (online.py)
ONLINE_PANEL = 2048
"""Columns between two rescalings."""
LEAST_ONLINE_PANEL = 512
FEW_QUERIES = 32
"""Queries up to which the keys lie on partitions rather than the queries (few_queries.py)."""
MANY_KEYS = 1024
"""Keys from which on they do."""
QUERY_CHUNK = 32
"""Columns of keys in work at a time, a key to a partition."""
ROW_LENGTHS = 16
"""At most so many different row lengths in a causal attention, so that the kernel does not grow with its length."""

# Reductions over rows (rows.py)
COLUMNS = 4096
"""Columns that are reduced at a time."""

# Running sums over rows (scan_rows.py)
SCANNED_PART = 1 << 6
"""Elements of a row from which on rows are turned for it."""
SCANNED_COLUMNS = 1 << 10
"""Columns in work at a time."""
SCANNED_ROWS = 1 << 9
"""Rows in work at a time."""

# Copies (copy.py, assemble.py, lay.py, transfers.py)
LONG_RUN = 512
"""Bytes that lie together on both sides from which on a transfer moves them at a good rate."""
MACRO = (512, 1024)
"""Rows and columns that may be turned at a time."""
MOST_PARTS = 16
"""Parts in which a transfer of many short runs is made."""
FEWER_PARTS = 1.25
"""How many times longer it may take in fewer of them."""
SCATTERED = 4
"""How many times longer a store may take than one of whole rows before its elements change their order first."""
TURNED_NS = 8192
"""Time of a load from which on rows that lie across memory are turned on chip."""
COPIES = 3
"""Copies of the tiles of a loop."""
EXCESS = 4
"""How many times the time of moving them is held against bytes that are read without being needed."""
LEAST_LAID = 512
"""Elements of a partition that an engine puts in order at least, where several could."""

# Rows one by one (rehome.py)
MANY_SLICES = 4
"""Single rows of a value that are read, from which on all of its rows are moved to one partition."""

# Fills (join.py)
FILL_BYTES = 8192
"""What one partition holds of a number that is sent again and again."""

# Residents (lowering.py)
KEPT_INPUT_BYTES = 4096
"""Bytes per partition up to which an input that several groups read is kept on chip."""

# Engines (select.py)
SPLIT_COLUMNS = 1025
"""Columns from which on two engines share an instruction."""
ALIGNED = 64
"""Columns at a multiple of which it is cut."""

# Indices (roles.py, combine.py)
GATHERED = 1 << 20
"""Elements from which on rows that are taken from a table are fetched by those who compute with them."""
MOST_RANGES = 8
"""Ranges of known indices up to which what is taken is a join of parts."""
SPARSE = 1024
"""Elements of a row for each one that is read, from which on rows are not loaded for it."""
INDEX_LINE = 8192
"""Indices that lie in one partition at a time, whole blocks of rows of them, to be used one by one."""
COMPARED = 2048
"""Indices that a partition compares its own place with at a time."""

# Channels by themselves (depthwise.py)
DEPTHWISE_WINDOWS = 2048
"""Windows in work at a time."""

# Sums by places (counting.py)
COUNTED_ROW = 16
"""Columns that a table of places has at least."""
COUNTED_COLUMNS = 1 << 8
"""Columns that it has at most: bfloat16 holds their numbers."""
COUNTED_BYTES = 1 << 15
"""Bytes per partition of the numbers in work, and of their marks."""

# Sorted rows (bisect.py)
BISECTED_ROW = 8192
"""Elements of a sorted row that lie on every partition at a time."""
BISECTED_VALUES = 512
"""Values that each partition looks for at a time."""

# Searches (search.py, topk.py)
SEARCHED = 8192
"""Elements of a row that are searched at a time."""
SEGMENT = 1024
"""A row of more elements than this is cut into segments where there are few rows."""

# Sorting by networks (bitonic.py)
LEAST_LONG = 2048
"""Elements of a row from which on it may lie across all partitions."""
SORTED_LONG = 1 << 20
"""Elements of a row that lies across all partitions, at most."""

# Rows on every partition (moves.py)
SPREAD_BYTES = 1 << 20
"""Bytes of such a tile from which on the row is loaded once and spread on chip."""

# Pieces (pieces.py, matmul.py)
PIECES = 3
"""Pieces in which a product's left operand is made."""
LEAST_PIECE = 512
"""Columns that a piece has at least."""

# Operands that pass through a few tiles (matmul.py, placement.py)
STREAM_BYTES = 1 << 20
"""What one transfer of a right operand that is read once brings."""
STREAM_COPIES = 3
"""Tiles through which it passes."""
STREAM_QUEUES = 2
"""Queues that bring them in turn."""
STREAMED = "weights"
"""What those tiles are called."""

NEAT_BYTES = 64
"""Addresses in SBUF are multiples of it, where there is room."""
