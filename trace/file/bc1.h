#ifndef TIDEMARK_TRACE_FILE_BC1_H
#define TIDEMARK_TRACE_FILE_BC1_H

/*
 * BC1 (DXT1) texture blocks: two 16-bit colours (RGB 5:6:5), then sixteen 2-bit numbers that choose
 * one of the two or a mixture of them, 8 bytes for 4 x 4 pixels.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * Turns `n` blocks as clients send them into those that traces hold: the client's numbers, whose
 * order is of its own, become BC1's, and blocks of little contrast are simplified so that they
 * compress better. The same for all releases.
 * Source: server/TracyTextureCompression.cpp FixOrder and Rdo @ v0.9.1 … v0.14.0.
 */
void bc1_from_client(uint8_t *blocks, size_t n);

#endif
