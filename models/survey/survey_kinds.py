"""All kinds of models that the survey tries, from the files beside this one."""
import os
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402

import survey_modules  # noqa: E402
import survey_transformers  # noqa: E402
import survey_vision  # noqa: E402

SOURCES = {"tf_": survey_transformers, "timm_": survey_vision, "tv_": survey_vision, "df_": survey_vision,
    "nn_": survey_modules}


def source(kind):
    return next(s for prefix, s in SOURCES.items() if kind.startswith(prefix))


def kinds():
    return [kind for s in (survey_modules, survey_transformers, survey_vision) for kind in s.kinds()]


def make(kind):
    """(module whose output is a loss, inputs by name)"""
    return source(kind).make(kind)


def batch(kind):
    return source(kind).B


def warm():
    """Imports what every kind needs, so that the processes forked from this one have it"""
    import io
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    linear = torch.nn.Linear(2, 2)
    torch.onnx.export(linear, (torch.zeros(1, 2),), io.BytesIO(), dynamo=True, verbose=False)
    torch.onnx.export(linear, (torch.zeros(1, 2),), io.BytesIO(), dynamo=False)
    survey_transformers.warm()
