#include "trace/file/bc1.h"

#include <stdlib.h>

#include "base/bytes.h"

#define LOW_BITS 0x55555555u /* low bit of each 2-bit number */
#define HIGH_BITS 0xAAAAAAAAu

/* A colour with 8 bits per channel. */
struct rgb {
    int r, g, b;
};

static struct rgb widen(unsigned c)
{
    unsigned r = c >> 11, g = c >> 5 & 0x3F, b = c & 0x1F;
    return (struct rgb){(int)(r << 3 | r >> 2), (int)(g << 2 | g >> 4), (int)(b << 3 | b >> 2)};
}

static int largest(int a, int b, int c)
{
    int most = a > b ? a : b;
    return most > c ? most : c;
}

/* The largest channel after `red` and `blue` are subtracted from theirs. */
static int weigh(struct rgb c, int red, int blue)
{
    return largest(c.r - red, c.g, c.b - blue);
}

/* The client's 0, 1, 2, 3 are BC1's 1, 3, 2, 0. */
static uint32_t reorder(uint32_t numbers)
{
    uint32_t low = ~numbers & LOW_BITS, high = ~numbers & HIGH_BITS;
    return (low << 1 | high >> 1) ^ high;
}

/*
 * Maps the numbers of the four-colour table to the three-colour table: 0, 1, 2, 3 become 1, 0, 2,
 * 2.
 */
static uint32_t three_of_four(uint32_t numbers)
{
    uint32_t high = numbers & HIGH_BITS;
    return high | (~(numbers | high >> 1) & LOW_BITS);
}

/* The largest negligible difference between the two colours, given the first one's brightness. */
static int one_color_limit(int brightness)
{
    return brightness < 16 ? 12 : brightness < 44 ? 6 : 3;
}

static int two_colors_limit(int brightness)
{
    return brightness < 32 ? 12 : brightness < 48 ? 6 : 3;
}

static int three_colors_limit(int brightness)
{
    return brightness < 48 ? 48 : brightness < 64 ? 32 : 24;
}

/* Each channel's mean, rounded down, without carry into the next channel. */
static uint32_t mean(uint32_t a, uint32_t b)
{
    return (((a & 0xF800) + (b & 0xF800)) >> 1 & 0xF800) |
           (((a & 0x07E0) + (b & 0x07E0)) >> 1 & 0x07E0) | (((a & 0x1F) + (b & 0x1F)) >> 1);
}

static void block_from_client(uint8_t *block)
{
    uint32_t c0 = load_u16(block), c1 = load_u16(block + 2);
    uint32_t numbers = reorder(load_u32(block + 4));
    struct rgb a = widen(c0), b = widen(c1);
    struct rgb apart = {abs(a.r - b.r), abs(a.g - b.g), abs(a.b - b.b)};
    if (numbers == LOW_BITS) {
        /* Already a single colour, as clients write it: all pixels use the second one. */
    } else if (weigh(apart, 1, 2) <= one_color_limit(weigh(a, 1, 2))) {
        c0 = mean(c0, c1);
        c1 = numbers = 0;
    } else if (weigh(apart, 2, 5) <= two_colors_limit(weigh(a, 2, 5))) {
        numbers &= LOW_BITS;
    } else if (weigh(apart, 2, 5) <= three_colors_limit(weigh(a, 2, 5))) {
        uint32_t first = c0;
        c0 = c1;
        c1 = first;
        numbers = three_of_four(numbers);
    }
    store_u16(block, (uint16_t)c0);
    store_u16(block + 2, (uint16_t)c1);
    store_u32(block + 4, numbers);
}

void bc1_from_client(uint8_t *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        block_from_client(blocks + 8 * i);
}
