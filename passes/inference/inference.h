/* inference.h: an inference file trains: a loss, a head, dropout, no past */
#ifndef TC_INFERENCE_H
#define TC_INFERENCE_H
#include "new_head.h"
#include "outputs.h"
#endif
