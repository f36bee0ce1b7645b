/* metadata.h: what PyTorch's exporter says in a file's metadata */
#ifndef TC_METADATA_H
#define TC_METADATA_H
#include "soft_labels.h"
#include "torch_calls.h"
#include "torch_folds.h"
#include "torch_names.h"
#include "torch_operands.h"
#include "torch_signature.h"
#endif
