/* files.h: tensors in files, and the memory that is left for them */
#ifndef RT_FILES_H
#define RT_FILES_H
#include "available.h"
#include "crc32c.h"
#include "npy.h"
#include "npz.h"
#include "safetensors.h"
#include "weight_files.h"
#endif
