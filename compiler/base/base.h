/* base.h: memory, maps, diagnostics, failures, files and numbers: the ground that all else stands on */
#ifndef TC_BASE_H
#define TC_BASE_H
#include "arena.h"
#include "clock.h"
#include "diag.h"
#include "file.h"
#include "foreign_file.h"
#include "map.h"
#include "quantity.h"
#include "recover.h"
#include "utf8.h"
#include "written_files.h"
#endif
