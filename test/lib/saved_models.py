"""saved_models.py: models with dropout left out, and their scores by ONNX Runtime, for models/train_score.py, too."""

import numpy as np
import onnx

from compare import session as session_of


def without_dropout(model):
    """The model with a rate of 0 for each Dropout."""
    drops = [node for node in model.graph.node if node.op_type == "Dropout"]
    rates = {node.input[1] for node in drops}
    kept = [node for node in model.graph.node if not rates & set(node.output)]  # rates in Constant nodes
    zeros = [onnx.numpy_helper.from_array(np.zeros((), np.float32), name) for name in rates]
    initializers = [x for x in model.graph.initializer if x.name not in rates]
    for field, values in ((model.graph.node, kept), (model.graph.initializer, initializers + zeros)):
        del field[:]
        field.extend(values)
    return model


def scores(session, batches):
    """The mean over all samples of every scalar output; `batches` are feeds by name."""
    names = [o.name for o in session.get_outputs()]
    sizes = [len(batch["labels"]) for batch in batches]
    got = [session.run(names, batch) for batch in batches]
    return {name: float(np.average([values[i] for values in got], weights=sizes)) for i, name in enumerate(names)}
