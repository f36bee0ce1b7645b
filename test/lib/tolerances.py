"""tolerances.py: how far from right numbers may be in tests, each with its reason. A limit that is one number is of a
norm, or of the largest element (compare.py), where nothing else is said; one with rtol and atol is of each element."""


def each(rtol, atol):
    return {"rtol": rtol, "atol": atol}


# --- gradients of whole models ----------------------------------------------------------------------------------------
# fp32 sums in another order differ by about 1e-6 of a gradient's norm; a wrong term shows at 1e-3 and above. Models in
# 16 bits state their own in expected.npz: twice the error of PyTorch's own gradients in that type.
GRADIENT = 1e-4
# Adapters beside PEFT's, whose own sums are of the same length; after 96 updates by AdamW, whose steps do not shrink
# with the gradient: an element whose gradient is rounding alone goes its own way.
ADAPTER_GRADIENT, ADAPTER_UPDATED = 1e-5, 1e-4
# Of recipes beside `none`: the same in float; in 16 bits twice the error of PyTorch's own (models/*/expected.npz).
RECIPE = {"float": GRADIENT, "float16": 1e-2, "bfloat16": 8e-2}
# PyTorch's gradients element by element, where a layout is what is asked: a transposed one is off by all of itself.
LAYOUT = each(1e-3, 1e-5)
# Outputs of a whole model, element by element, by ONNX Runtime's kernels and ours.
OUTPUT = each(1e-4, 1e-5)
# A sum of gradients over runs: one addition in float for each.
ACCUMULATED = each(1e-5, 1e-6)
# Over two ranks and one: one adds up a gradient's terms over 24 rows in float, two over half as many, each addition
# rounding by 2^-24 of what it adds to: at most 24 * 2^-24 = 1.4e-6 of the terms' magnitude, for each of three steps,
# whose weights go into the next, and about twice that for what cancels in a sum. A term that is missing, or counted
# twice, shows at 1e-2.
RANKS = 1e-5
# What --verify takes for right: truncation and rounding of a difference in float, for files that double cannot stand
# for, come to some 1e-3 for one seed in four.
VERIFIED = {"double": 1e-5, "float": 1e-2}

# --- mixed precision --------------------------------------------------------------------------------------------------
# Of the norm of the gradient, on the scale of all: products are rounded to 2^-11 and 2^-8 of themselves.
AUTOCAST = {"float16": 2e-2, "bfloat16": 1e-1}
# Under a loss scale that is a power of two: only what is subnormal is rounded otherwise.
SCALED = 1e-3
# The loss under --precision, relative: some products of 16 bits are on its way.
AUTOCAST_LOSS = 1e-2
# The means of 70000 losses: a share of 1 / N is stored to 6e-8 in float16, and to 1 / 256 of itself in bfloat16.
SHARE = {"float16": 5e-3, "bfloat16": 1e-2}

# --- slopes by differences --------------------------------------------------------------------------------------------
# Central differences in double precision: the step and the limits of PyTorch's gradcheck.
GRADCHECK_STEP, GRADCHECK = 1e-6, each(1e-3, 1e-5)
# In float: rounding of 1e-7 times a sum, over twice the step.
GRADCHECK_FLOAT_STEP, GRADCHECK_FLOAT = 1e-2, each(1e-3, 2e-3)
# Of smooth losses of a few terms in double, with a step of 1e-5: its square is 1e-10, rounding over it 1e-11.
SMOOTH = 1e-7
# Of a loss in float, by steps of 1e-3: of the sum of the products' sizes, and of 1, as which large the loss is.
SLOPE_OF_FLOAT = 4e-4

# --- one op, or a few, in standard ops and in ours --------------------------------------------------------------------
# In double, where both sides round as often.
DOUBLE = each(1e-12, 1e-14)
DOUBLE_LOSS = each(1e-12, 0)
# A loss behind a softmax or a logarithm, in double.
DOUBLE_MASKED_LOSS = each(1e-10, 0)
# Losses and gradients of scores of size 1, by their type, and in float16 stored once.
LOSS = {"float32": each(1e-6, 1e-6), "float64": each(1e-12, 1e-12), "float16": each(2e-3, 2e-3)}
# A gradient that is 0, a share or 1.
TIE = each(1e-5, 1e-6)
# An upgraded node beside the one of the old opset, both by ONNX Runtime: its kernels sum in other orders.
UPGRADED = each(1e-5, 1e-6)
# Ops of ONNX Runtime's training tools beside numpy's formulas in float, with two or three roundings more.
TRAINING_OP = each(2e-5, 2e-6)
# Bodies beside onnx's reference evaluator: a softmax over rows in float; of float16 every piece is rounded.
BODY, BODY_IN_HALF = each(1e-4, 1e-5), each(1e-3, 1e-2)
# Of 1 + |value|, where an op is raised: it rounds less often than its pieces.
RAISED = {"float": 1e-5, "float16": 2e-3}
# Of a gradient's norm, where an op is raised: all is float, or something is of 16 bits.
RAISED_GRADIENT = {"float": GRADIENT, "float16": 2e-2}
# Ops of ai.tempo by their definitions, of the largest element; ONNX's statistics are float, whatever the type is.
LEAN = {"float16": 4 * 4e-3, "float32": 4 * 2e-6, "float64": 4 * 2e-7}
# The same by tempo-run alone, of 1 + |value|: a forward pass, and gradients, which are sums of products more.
LEAN_FORWARD, LEAN_GRADIENT = 3e-6, 1e-5
# Products of up to a thousand terms beside ONNX Runtime's, of the largest element.
PRODUCT = {"float32": 1e-5, "float64": 1e-13, "float16": 4e-3}
# Sums, means and extremes of up to five operands.
FOLDED_SUM = {"float32": each(1e-6, 1e-5), "float64": each(1e-14, 1e-5), "float16": each(2e-3, 0.01)}
WHOLE_NUMBERS = each(0, 1e-5)
FOLDED_SUM_GRADIENT = each(1e-12, 1e-12)
# Norms, their statistics in float, those of doubles too.
NORM = {"float32": 2e-5, "float64": 1e-6, "float16": 2e-2}
# Norms whose x-hat comes from y: the largest error of dscale and dbias beside the root of dscale's mean square, of an
# element of dx beside dx's. ONNX Runtime sums in the elements' type, in no good order: so many times as much.
NORM_FROM_Y = {"float": (2.5e-7, 2e-6), "float16": (4e-3, 1e-2), "bfloat16": (1.5e-2, 8e-2)}
NORM_FROM_Y_ORT = 40, 4
# Dropout and what is around it in float; ONNX Runtime's with masks of the same bits; a product with 1 / (1 - ratio).
DROPPED = each(1e-5, 1e-6)
DROPPED_GRADIENT = each(1e-5, 1e-5)
DROPPED_ONCE = each(2e-7, 0)
# A function of two or three ops in float.
FUNCTION = each(1e-6, 1e-6)
# One logarithm in float.
LOGARITHM = 1e-6
# A product of 3 terms of up to 11, in float.
LAYER = each(1e-6, 1e-5)
EXACT_SUM = each(1e-5, 1e-8)  # of small whole numbers

# --- files of PyTorch's exporter --------------------------------------------------------------------------------------
# Losses and gradients of a few ops in float, of the largest element.
EXPORTED = 1e-5
# Functions beside differences with a step of 1e-5 in double.
EXPORTED_FUNCTION = {"float32": 1e-5, "float64": 1e-9, "float16": 1e-2}
EXPORTED_SLOPE = 1e-4
EXPORTED_LOSS = each(1e-5, 1e-8)
# Losses behind a softmax in float; those of several axes, which are larger; means of scattered values; sums of rows.
RESTORED = each(1e-5, 1e-8)
RESTORED_LOSS, RESTORED_LARGE = each(1e-5, 2e-6), each(1e-5, 1e-4)
RESTORED_MEAN, RESTORED_SUM = each(1e-5, 1e-6), each(1e-6, 1e-8)

# --- optimizers and training ------------------------------------------------------------------------------------------
# One update beside its definition in double, of the largest element: a few roundings of float, or of double.
UPDATE = {"float32": 2e-6, "float64": 1e-12}
# The norm of all gradients; sums of gradients over three runs; an update made of such sums.
UPDATE_NORM, UPDATE_SUM, UPDATE_OF_SUM = 1e-6, 1e-5, 2e-5
# Four steps with numpy's slopes, of 1 or the largest element; one node alone.
STEPS, STEP = 2e-5, 2e-6
# Losses of some steps, and weights behind them, whose roundings went into the next step.
TRAINED, TRAINED_WEIGHT = each(2e-5, 1e-7), each(5e-5, 1e-6)
TRAINED_FP16 = each(0.03, 0.03)  # in 16 bits
TRAINED_FLOAT16 = each(2.0**-11, 1e-7)  # rounded to float16 once
TRAINED_PART = each(2e-5, 2e-6)  # over ranks: another order of summation
RATE = each(1e-6, 1e-7)
# A mean of losses in float: of an evaluation, and of rows of other lengths, each a few units off.
EVALUATED, SAVED_SCORE, FIRST_LOSS = each(1e-5, 1e-7), each(2e-5, 1e-7), each(2e-6, 1e-7)
# PyTorch's curves of real models: its own in float is a fortieth of that off from that in float64 at most.
CURVE = 1e-4
CURVE_OF_RANKS = each(CURVE, 1e-7)
# Rounding of a few floats of magnitude 1, over six steps.
DESCENT = each(2e-6, 2e-6)

# --- pointwise functions (check_pointwise.py and check_from_output.py say what each is of) ----------------------------
# Largest relative error in float. Where alpha is no power of two, alpha x rounds by 6e-8 of up to 88 in the far tail.
FORWARD, SLOPE, ALPHA_TAIL = 5e-7, 2e-6, 6e-6
# In double, of 1 + |value|: Gauss and Legendre's integral of a slope; a body; ONNX Runtime's, in float.
INTEGRAL, BODY_OF_KERNEL, BODY_BY_ORT = 1e-12, 1e-13, 1e-5
# Far off, where ONNX Runtime's Sigmoid ends in 0 where it is 1e-8.
FAR, FAR_BY_ORT, FAR_LIMIT = each(1e-6, 1e-30), each(1e-6, 1e-7), each(0, 1e-30)

# --- devices beside the CPU -------------------------------------------------------------------------------------------
# Sums of eight terms of up to 4, two of them.
PAIR = {"float": each(0, 1e-5), "float16": each(0, 5e-2), "bfloat16": each(0, 4e-1)}
# A sum of at most 25 terms, each of a size of 1, with up to five roundings of 16 bits on the way.
LINEAR = {"float": each(0, 1e-5), "double": each(0, 1e-13), "float16": each(0, 2e-2), "bfloat16": each(0, 1.6e-1)}
# Some ops in a row, each of which rounds to 16 bits.
CHAIN = each(0.1, 0.1)
# Attention: P, ds and results are rounded, by units of what is summed.
HEAD_SUMS = {"float16": each(4 * 2.0**-10, 4 * 2.0**-10), "bfloat16": each(4 * 2.0**-7, 4 * 2.0**-7)}
FORMS = 2e-6  # sums of floats in another order
CONV = {"float32": 2e-5, "float64": 1e-12}  # as FORMS, of some layers
ROW_SUM = each(0, 1e-5)  # numbers below 10: the CPU sums a row in another order
