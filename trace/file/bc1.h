#pragma once

/*
 * BC1 (DXT1) texture blocks: two 16-bit colours (RGB 5:6:5), then sixteen 2-bit numbers that choose
 * one of the two or a mixture of them, 8 bytes for 4 x 4 pixels.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * Converts `n` blocks from the client's format to that of traces. The client numbers the colours in
 * another order than BC1. Low-contrast blocks are simplified so that they compress better.
 * Identical in all releases. Source: server/TracyTextureCompression.cpp FixOrder and Rdo @ v0.9.1 …
 * v0.14.0.
 */
void bc1_from_client(uint8_t *blocks, size_t n);
