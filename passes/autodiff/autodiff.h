/* autodiff.h: the backward pass: requests of a file, and values that gradients do not pass */
#ifndef TC_AUTODIFF_H
#define TC_AUTODIFF_H
#include "gradient_requests.h"
#include "stop_gradient.h"
#endif
