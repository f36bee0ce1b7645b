"""resize_cases.py: the definition of ResizeGrad, and its cases, for check_lean_ops.py."""
import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator


def resize_grad(dy, shape, roi=None, scales=None, sizes=None, **attributes):
    """Along one axis after the other, by the weights that onnx's evaluator gives rows of an identity matrix."""
    axes = attributes.pop("axes", list(range(dy.ndim)))
    for item, axis in enumerate(axes):
        unit, names = np.eye(shape[axis]), ["unit", "roi" if roi is not None else ""]
        feeds = dict(unit=unit, scales=scales[[item]] if scales is not None else np.zeros(0, np.float32))
        if roi is not None:
            feeds["roi"] = roi[[item, item + len(axes)]]
        if scales is None:
            feeds["sizes"] = np.array([dy.shape[axis]])
        node = helper.make_node("Resize", [*names, "scales", *(["sizes"] if scales is None else [])], ["weights"],
                                axes=[1], **attributes)
        weights = ReferenceEvaluator(node).run(None, feeds)[0]
        dy = np.moveaxis(np.tensordot(weights, dy, (1, axis)), 0, axis)
    return (dy,)


def cases(case, f):
    """Weights of the body are floats, so cubic ones are not held to the limits of double."""
    whole, spatial = np.array([2, 3, 4, 5]), dict(axes=[2, 3])
    common = dict(types=(np.float32, np.float64))
    two, half = np.array([1, 1, 2, 2], np.float32), np.array([0.5, 1.5], np.float32)
    for dynamic in (False, True):
        common["dynamic"] = dynamic
        case("ResizeGrad", f(2, 3, 8, 10), whole, None, two, mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric", **common)
        case("ResizeGrad", f(2, 3, 2, 7), whole, None, half, mode="linear", **spatial, **common)
        case("ResizeGrad", f(2, 3, 2, 7), whole, None, half, mode="linear", antialias=1, **spatial, **common)
        case("ResizeGrad", f(2, 3, 7, 3), whole, None, None, np.array([7, 3]), mode="linear", **spatial, **common,
             coordinate_transformation_mode="align_corners")
        case("ResizeGrad", f(2, 3, 7, 3), whole, None, None, np.array([3, 7]), mode="cubic", axes=[3, 2],
             dynamic=dynamic)
        case("ResizeGrad", f(2, 3, 7, 3), whole, None, None, np.array([7, 3]), mode="cubic", exclude_outside=1,
             cubic_coeff_a=-0.5, **spatial, dynamic=dynamic)
        case("ResizeGrad", f(3, 6, 3, 4), np.array([2, 3, 4, 5]), None, None, np.array([3, 6, 3, 4]), mode="linear",
             **common)
    case("ResizeGrad", f(2, 3, 8, 10), whole, None, two, mode="linear", types=(np.float16,))
    case("ResizeGrad", f(2, 3, 4), np.array([2, 3, 5]), np.array([0.1, 0.8], np.float32), None, np.array([4]),
         mode="linear", axes=[2], coordinate_transformation_mode="tf_crop_and_resize", **common)
