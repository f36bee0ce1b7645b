/* rotary_tables.h: tables of rotary position embeddings, which are constants even if a file does not say so. If they
 * were trained, the backward pass would keep the operands of every rotation: four tensors as large as the queries
 * per layer of Llama. */
#ifndef TC_ROTARY_TABLES_H
#define TC_ROTARY_TABLES_H
#include "compiler/ir/ir.h"

/* Whether all readers of the initializer rotate pairs of elements by angles from it: it holds their cosines and
 * sines, the angles, or their frequencies. False if its elements are known and are no such numbers, and for cosines
 * and sines in one tensor with a parameter's name whose elements cannot be read. */
bool tc_is_rotary_table(const tc_value *value);
#endif
