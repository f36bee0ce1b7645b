/* memory.h: which bytes a graph keeps, when, and whose they are */
#ifndef TC_MEMORY_H
#define TC_MEMORY_H
#include "late_reads.h"
#include "ledger.h"
#include "liveness.h"
#include "node_memory.h"
#include "roles.h"
#include "storage.h"
#endif
