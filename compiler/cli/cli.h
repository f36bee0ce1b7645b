/* cli.h: command lines and processes */
#ifndef TC_CLI_H
#define TC_CLI_H
#include "options.h"
#include "program.h"
#include "ways_around.h"
#endif
