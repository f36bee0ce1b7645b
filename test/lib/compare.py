"""compare.py: what test scripts share of arrays: reading them, how far apart they are, what ONNX Runtime computes."""
import ml_dtypes
import numpy as np

from tolerances import GRADIENT


def load(path):
    """The arrays of a .npz by name; numpy has no bfloat16 and reads its elements as two bytes."""
    with np.load(path) as file:
        return {name: a.view(ml_dtypes.bfloat16) if a.dtype == "V2" else a for name, a in file.items()}


def same_bits(got, want):
    """Of two arrays, or of two dicts of arrays, whose names are the same then."""
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(same_bits(got[name], a) for name, a in want.items())
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def near(got, want, limit, nan=False):
    """Element by element, of the same shape; `limit`: rtol and atol. `nan`: NaN is near NaN."""
    got, want = np.asarray(got), np.asarray(want)
    return got.shape == want.shape and np.allclose(got.astype(np.float64), want, equal_nan=nan, **limit)


def rms(a):
    return float(np.sqrt(np.mean(np.square(a.astype(np.float64))))) if a.size else 0.0


def norm_error(got, want, scale=0.0):
    """||got - want|| / (||want|| + scale * sqrt(size)); infinite where the shapes differ. With the size of an element
    of its like as `scale`, an array that is zero but for rounding is judged beside others."""
    got, want = np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64)
    if got.shape != want.shape:
        return np.inf
    return float(np.linalg.norm(got - want) / (np.linalg.norm(want) + scale * np.sqrt(want.size) + 1e-30))


def max_error(got, want, least=0.0):
    """The largest difference beside the largest element, or `least`; infinite where the shapes differ."""
    got, want = np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64)
    if got.shape != want.shape:
        return np.inf
    return float(np.max(np.abs(got - want), initial=0) / (np.max(np.abs(want), initial=least) + 1e-30))


def most(rows, limit):
    """The largest of (error, name); NaN counts as beyond the limit."""
    return max(rows, key=lambda row: (not row[0] <= limit, row[0]))


def total(got, names):
    """The sum of the tensors whose names are joined by '+'; NaN where one is missing."""
    return sum(np.asarray(got.get(name, np.nan), np.float64) for name in names.split("+"))


def worst(got, want):
    """(error, name) of the tensor that differs most; a missing one counts as wrong."""
    median = float(np.median([rms(v) for k, v in want.items() if k != "loss"]))
    rows = []
    for name, w in want.items():
        g = total(got, name)
        if name == "loss":
            g = g.reshape(w.shape)
        rows.append((norm_error(g, w, 0.0 if name == "loss" else 0.01 * median), name))
    return most(rows, GRADIENT)


def session(model, optimize=True):
    """ONNX Runtime's, of a path, a model or its bytes, on one thread; `optimize`: with its own rewrites of the graph,
    which may round in other places."""
    import onnxruntime  # what compares without it needs no ONNX Runtime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def by_onnxruntime(model, feeds, optimize=True):
    """What a model, or a session, computes of the feeds that it has inputs for, by name."""
    made = model if hasattr(model, "get_inputs") else session(model, optimize)
    known = {i.name for i in made.get_inputs() + made.get_overridable_initializers()}
    return dict(zip([o.name for o in made.get_outputs()],
                    made.run(None, {name: a for name, a in feeds.items() if name in known})))


def dims_of(folder):
    """--dim for the symbolic dims of a model's inputs, as the inputs at hand have them; `folder`: model.onnx,
    inputs.npz."""
    import onnx
    shapes = {name: a.shape for name, a in load(f"{folder}/inputs.npz").items()}
    dims = {}
    for i in onnx.load(f"{folder}/model.onnx", load_external_data=False).graph.input:
        for size, d in zip(shapes.get(i.name, ()), i.type.tensor_type.shape.dim):
            if d.dim_param:
                dims[d.dim_param] = size
    return [word for name, size in dims.items() for word in ("--dim", f"{name}={size}")]
