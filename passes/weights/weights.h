/* weights.h: the loss, and the initializers that are trained toward it */
#ifndef TC_WEIGHTS_H
#define TC_WEIGHTS_H
#include "added_loss.h"
#include "choose_loss.h"
#include "equal_weights.h"
#include "init_weights.h"
#include "peft_names.h"
#include "train_list.h"
#include "trainable.h"
#endif
