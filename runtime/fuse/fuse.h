/* fuse.h: several nodes as one launch */
#ifndef RT_FUSE_H
#define RT_FUSE_H
#include "fuse_chains.h"
#include "fuse_heads.h"
#include "fuse_pointwise.h"
#include "fuse_products.h"
#include "fuse_transposes.h"
#endif
