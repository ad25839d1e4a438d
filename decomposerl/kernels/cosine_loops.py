"""Compiled loops of the cosine searches; imported inside functions, never at start-up.

Vectors are float32, one per row; ``squares`` holds each row's squared length.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, internal

Vectors = NDArray[np.float32]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Numbers = NDArray[np.int32]
Rows = NDArray[np.int64]
Side = tuple[Floats, Floats]
Exact = tuple[Vectors, Doubles]
Hits = tuple[Numbers, Numbers, Doubles]

LANES = 64  # as many independent sums as hide the latency of an addition
STRIP = 64
LARGEST_CODE = 127.0
NOTHING = 1e-20  # a head this short is rounded to zeros
MAGNITUDE = np.int32(0x7FFFFFFF)
# Of a cosine: enough to tell rows apart, few enough to hide the rounding of the quotient.
DECIMALS = 1e12


@internal
def dot(left: NDArray[np.floating], right: NDArray[np.floating], lanes: Doubles) -> float:
    """Dot product in double precision, in one fixed order; ``lanes`` is working space.

    Lane k adds up dimensions k, k + 64, k + 128, ..., then the lanes are added from the
    first to the last.
    """
    # Products of single-precision numbers are exact in double precision, so only this order
    # decides the bits: they are the same on every machine and for any number of threads.
    lanes[:] = 0.0
    whole = left.size // LANES
    for strip in range(whole):
        x = left[strip * LANES : (strip + 1) * LANES]
        y = right[strip * LANES : (strip + 1) * LANES]
        for lane in range(LANES):
            lanes[lane] += np.float64(x[lane]) * np.float64(y[lane])
    x, y = left[whole * LANES :], right[whole * LANES :]
    for lane in range(x.size):
        lanes[lane] += np.float64(x[lane]) * np.float64(y[lane])
    total = 0.0
    for lane in range(LANES):
        total += lanes[lane]
    return total


@compiled
def squared_lengths(vectors: Vectors) -> Doubles:
    """The squared length of each row."""
    lanes, squares = np.empty(LANES), np.empty(len(vectors))
    for row in range(len(vectors)):
        squares[row] = dot(vectors[row], vectors[row], lanes)
    return squares


@internal
def cosine(product: float, left_square: float, right_square: float) -> float:
    """Cosine rounded to 12 decimals, so that equal rows have exactly 1."""
    value = product / np.sqrt(left_square * right_square)
    rounded: float = np.rint(value * DECIMALS) / DECIMALS
    return min(rounded, 1.0)


@compiled
def pair_cosines(left: Exact, left_rows: Rows, right: Exact, right_rows: Rows) -> Doubles:
    """Exact cosine of each pair of rows."""
    vectors, squares = left
    others, other_squares = right
    lanes, cosines = np.empty(LANES), np.empty(len(left_rows))
    for pair in range(len(left_rows)):
        a, b = left_rows[pair], right_rows[pair]
        product = dot(vectors[a], others[b], lanes)
        cosines[pair] = cosine(product, squares[a], other_squares[b])
    return cosines


@compiled
def encode_f32(exact: Exact, used: int, scales: Floats, errors: Floats) -> None:
    """Write each row's normalising factor, and the error of its first ``used`` numbers."""
    vectors, squares = exact
    lanes = np.empty(LANES)
    for row in range(len(vectors)):
        head = vectors[row][:used]
        scales[row] = np.float32(1 / np.sqrt(squares[row]))
        errors[row] = error_of(0.0, dot(head, head, lanes), squares[row])


@compiled
def encode_int8(exact: Exact, codes: NDArray[np.int8], scales: Floats, errors: Floats) -> None:
    """Write the first numbers of each unit row as a scale times integers in -127..127."""
    vectors, squares = exact
    used = codes.shape[1]
    lanes, rest = np.empty(LANES), np.empty(used)
    for row in range(len(vectors)):
        head, code = vectors[row][:used], codes[row]
        bits = head.view(np.int32)
        most = np.int32(0)
        # The order of positive floats is that of their bits, and integers have a vector maximum.
        for k in range(used):
            most = max(most, bits[k] & MAGNITUDE)
        largest = np.float64(np.array([most], np.int32).view(np.float32)[0])
        if largest < NOTHING:
            largest = np.float64(1)
        factor = LARGEST_CODE / largest
        length = np.sqrt(squares[row])
        scales[row] = np.float32(largest / LARGEST_CODE / length)
        inverse, scale = 1.0 / length, np.float64(scales[row])
        for k in range(used):
            code[k] = np.int8(np.rint(np.float64(head[k]) * factor))
            rest[k] = np.float64(head[k]) * inverse - scale * np.float64(code[k])
        errors[row] = error_of(dot(rest, rest, lanes), dot(head, head, lanes), squares[row])


@compiled
def encode_bf16(exact: Exact, codes: NDArray[np.uint16], scales: Floats, errors: Floats) -> None:
    """Write the first numbers of each row as bfloat16 bits: the nearest, ties to even."""
    vectors, squares = exact
    used = codes.shape[1]
    lanes, rest, wide = np.empty(LANES), np.empty(used), np.empty(used, np.uint32)
    values = wide.view(np.float32)
    for row in range(len(vectors)):
        head, code = vectors[row][:used], codes[row]
        bits = head.view(np.uint32)
        for k in range(used):
            odd = (bits[k] >> np.uint32(16)) & np.uint32(1)
            high = (bits[k] + np.uint32(0x7FFF) + odd) >> np.uint32(16)
            code[k] = np.uint16(high)
            wide[k] = high << np.uint32(16)
        inverse = 1.0 / np.sqrt(squares[row])
        scales[row] = np.float32(inverse)
        scale = np.float64(scales[row])
        for k in range(used):
            rest[k] = np.float64(head[k]) * inverse - scale * np.float64(values[k])
        errors[row] = error_of(dot(rest, rest, lanes), dot(head, head, lanes), squares[row])


@internal
def error_of(rounded: float, head: float, whole: float) -> np.float32:
    """A row's share of the error bound of a product, rounded up (see ``products``).

    ``rounded`` is the squared length of what the rounding lost of the unit row's head,
    ``head`` and ``whole`` the squared lengths of the row's head and of the row.
    """
    # The last two terms cover the rounding of this line itself.
    tail = max(1 - head / whole, 0.0)
    return np.float32((np.sqrt(rounded) + (rounded + tail) / 2) * (1 + 1e-6) + 1e-9)


@compiled
def find_near(
    products: NDArray[np.generic],
    sides: tuple[Side, Side],
    bounds: tuple[float, float],
    hits: Hits,
) -> int:
    """Write every cell whose cosine may reach the threshold; returns their number.

    ``sides`` are scales and errors of the left and the right rows, ``bounds`` the
    threshold and the error of a product beside those. ``hits`` receives row, column and the
    upper bound of the cosine, row by row.
    """
    threshold, allowance = bounds
    rows, columns, most = hits
    left, right = sides
    count = 0
    for row in range(len(products)):
        scale, error = np.float64(left[0][row]), np.float64(left[1][row])
        bound = np.float32((threshold - allowance - error) / scale)
        slope = np.float32(1 / scale)
        line = products[row]
        for start in range(0, line.size, STRIP):
            cells = line[start : start + STRIP]
            scales = right[0][start : start + STRIP]
            errors = right[1][start : start + STRIP]
            # Nearly every strip has no hit. This loop has no branch, so that vector instructions
            # skip such a strip; only a strip with a hit is read a second time, cell by cell.
            hit = False
            for k in range(cells.size):
                hit |= np.float32(cells[k]) * scales[k] + slope * errors[k] >= bound
            if hit:
                for k in range(cells.size):
                    if np.float32(cells[k]) * scales[k] + slope * errors[k] >= bound:
                        value = scale * np.float64(cells[k]) * np.float64(scales[k])
                        rows[count], columns[count] = row, start + k
                        most[count] = min(value + error + errors[k] + allowance, 1.0)
                        count += 1
    return count


@compiled
def best_of_hits(
    hits: Hits, left: Exact, right: Exact, right_rows: Rows, threshold: float
) -> tuple[Rows, Rows, Doubles]:
    """Per row with a hit at or above ``threshold``: the best right row and its cosine.

    Ties go to the first.
    """
    rows, columns, most = hits
    lanes = np.empty(LANES)
    best_rows = np.empty(len(rows), np.int64)
    matched, best = np.empty(len(rows), np.int64), np.empty(len(rows))
    count = 0
    for hit in range(len(rows)):
        row, other = np.int64(rows[hit]), right_rows[columns[hit]]
        same = count > 0 and best_rows[count - 1] == row
        if same and most[hit] <= best[count - 1]:  # cannot be better than the row's best so far
            continue
        product = dot(left[0][row], right[0][other], lanes)
        value = cosine(product, left[1][row], right[1][other])
        if value < threshold or (same and value <= best[count - 1]):
            continue
        if not same:
            count += 1
        best_rows[count - 1], matched[count - 1], best[count - 1] = row, other, value
    return best_rows[:count], matched[:count], best[:count]


@compiled
def keep_in_block(
    hits: Hits, exact: Exact, threshold: float, matched: Rows, similarity: Doubles, start: int
) -> None:
    """The keep-first greedy inside one block of rows.

    ``hits`` are row numbers within the block, earlier row by earlier row, columns ascending.
    ``matched`` and ``similarity`` hold the matches with rows kept before the block, and are
    completed; ``start`` is the number of the block's first row.
    """
    rows, columns, most = hits
    vectors, squares = exact
    lanes = np.empty(LANES)
    for hit in range(len(rows)):
        earlier, later = rows[hit], columns[hit]
        if earlier >= later or matched[earlier] >= 0 or most[hit] <= similarity[later]:
            continue
        product = dot(vectors[earlier], vectors[later], lanes)
        value = cosine(product, squares[earlier], squares[later])
        if value >= threshold and value > similarity[later]:
            matched[later], similarity[later] = start + earlier, value
