#ifndef COSMIC_SOFTMAX_H
#define COSMIC_SOFTMAX_H

#include <stddef.h>

/* Softmax of scaled values. */
void softmax(const float *values, float scale, ptrdiff_t count, float *out);

#endif
