/* rotary_tables.h: tables of rotary position embeddings, which are constants whether a file says so or not. Trained,
 * they would cost the backward pass the operands of every rotation, four tensors as large as the queries per layer of
 * Llama. */
#ifndef TC_ROTARY_TABLES_H
#define TC_ROTARY_TABLES_H
#include "compiler/ir/ir.h"

/* Whether everything that reads the initializer turns pairs of elements by angles from it: it holds their cosines and
 * sines, the angles, or their frequencies. Elements that can be read and are no such numbers say no, as do cosines and
 * sines in one tensor with the name of a parameter that cannot be read. */
bool tc_is_rotary_table(const tc_value *value);
#endif
