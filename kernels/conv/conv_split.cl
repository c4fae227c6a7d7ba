/* conv_split: the digits of images and weights, f32, for conv_digits.cl; see integer/digits.clh for digits and scales. In front of the digits are the
 * scales, 4 bytes each. A digit has all rows of the image or the weight, and the first counts most.
 *
 *   charl_plane_largest   the largest magnitude of each of samples * channels planes of `area` elements, as bits
 *   charl_split_images    [samples, channels, area] to [digit][sample][area][pitch]: channels side by side; a scale for each sample
 *   charl_split_pixels    the same to [digit][channel][slice][slice_bytes]: all samples of a slice side by side, pixel_bytes of them, of a pixel; a
 *                         scale for each slice and channel. Rows of pixels have row_bytes; zeros follow the pixels of a row and of a slice.
 *   charl_split_taps      a weight to [digit][row][tap][pitch]; a scale for each row
 *
 * Specialised by   GROUP  work-items of a group: 1 (default), or a power of two
 *                  LANES  work-items of a group of charl_plane_largest for each plane
 * Launch           charl_plane_largest: a group for GROUP / LANES planes; charl_split_images: one for 64 pixels and 64 channels, by pixels, then
 *                  channels, then samples; charl_split_pixels: one for GROUP * 16 bytes of a slice, by these, then slices, then channels;
 *                  charl_split_taps: one for a row.
 */
#define GROUP 1
#define LANES 1
#define DIGITS 4
#include "conv/conv_digits_args.h"
#include "integer/digits.clh"

#define PLANES (GROUP / LANES)
#define TILE 64
#define SAMPLES 16 /* of a work-item */

/* The largest of the numbers of all work-items of a group. */
static inline int largest_of_group(local int all[static GROUP], int mine)
{
    const int lane = (int)get_local_id(0);

    all[lane] = mine;
    for (int part = GROUP / 2; part > 0; part /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < part) {
            all[lane] = max(all[lane], all[lane + part]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return all[0];
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_plane_largest(global const float *x, global int *largest,
                                                                                           const charl__conv_split_args n)
{
    local int all[PLANES][LANES];
    const int lane = (int)get_local_id(0) % LANES, mine = (int)get_local_id(0) / LANES, planes = n.samples * n.channels;
    const int plane = (int)get_group_id(0) * PLANES + mine;
    int most = 0;

    if (plane < planes) {
        global const float *from = x + n.x + (long)plane * n.area;

#pragma unroll 4
        for (int i = lane; i < n.area; i += LANES) {
            most = max(most, as_int(fabs(from[i])));
        }
    }
    all[mine][lane] = most;
    for (int part = LANES / 2; part > 0; part /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < part) {
            all[mine][lane] = max(all[mine][lane], all[mine][lane + part]);
        }
    }
    if (lane == 0 && plane < planes) {
        (largest + n.largest)[plane] = all[mine][0];
    }
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_split_images(global const float *x, global uchar *to, global const int *largest,
                                                                                   const charl__conv_split_args n)
{
    local uint tile[TILE][TILE + 1];
    local int all[GROUP];
    const int across = (n.area + TILE - 1) / TILE, down = (n.pitch + TILE - 1) / TILE, group = (int)get_group_id(0), lane = (int)get_local_id(0);
    const int pixel0 = group % across * TILE, c0 = group / across % down * TILE, sample = group / across / down;
    int most = 0, scale;

    largest += n.largest + (long)sample * n.channels;
    for (int c = lane; c < n.channels; c += GROUP) {
        most = max(most, largest[c]);
    }
    scale = scale_of(largest_of_group(all, most));
    if (lane == 0 && pixel0 == 0 && c0 == 0) {
        ((global int *)(to + n.to))[sample] = scale;
    }
    x += n.x + ((long)sample * n.channels + c0) * n.area + pixel0;
    for (int i = lane; i < TILE * TILE; i += GROUP) {
        const int pixel = i % TILE, c = i / TILE;

        tile[pixel][c] = pixel0 + pixel < n.area && c0 + c < n.channels ? digits_of(x[(long)c * n.area + pixel], scale) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int u = lane; u < TILE * 4; u += GROUP) {
        const int mine = u / 4, first = u % 4 * 16; /* a pixel of the tile, and 16 channels */
        uint word[4][4];

        if (pixel0 + mine >= n.area || c0 + first >= n.pitch) {
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint four[4] = {tile[mine][first + 4 * e], tile[mine][first + 4 * e + 1], tile[mine][first + 4 * e + 2],
                                  tile[mine][first + 4 * e + 3]};

            words_of_four(four, word[e]);
        }
#pragma unroll
        for (int d = 0; d < DIGITS; d++) {
            const int w = DIGITS - 1 - d;

            *(global uint4 *)(to + n.to + n.head + d * n.digit + ((long)sample * n.area + pixel0 + mine) * n.pitch + c0 + first) =
                (uint4)(word[0][w], word[1][w], word[2][w], word[3][w]);
        }
    }
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_split_pixels(global const float *x, global uchar *to, global const int *largest,
                                                                                   const charl__conv_split_args n)
{
    local int all[GROUP];
    const int slices = n.samples / n.slice, pieces = (n.slice_bytes + GROUP * SAMPLES - 1) / (GROUP * SAMPLES), group = (int)get_group_id(0);
    const int slice = group / pieces % slices, channel = group / pieces / slices, lane = (int)get_local_id(0);
    const int at = (group % pieces * GROUP + lane) * SAMPLES, first = at % n.pixel_bytes; /* in the slice; of its samples */
    const int row = at / n.row_bytes, column = at % n.row_bytes / n.pixel_bytes, step = n.channels * n.area;
    int most = 0, scale;
    uint word[SAMPLES / 4][4];

    x += n.x + (long)slice * n.slice * step + (long)channel * n.area;
    largest += n.largest + (long)slice * n.slice * n.channels + channel;
    for (int s = lane; s < n.slice; s += GROUP) {
        most = max(most, largest[(long)s * n.channels]);
    }
    scale = scale_of(largest_of_group(all, most));
    if (lane == 0 && group % pieces == 0) {
        ((global int *)(to + n.to))[(long)slice * n.channels + channel] = scale;
    }
    if (at >= n.slice_bytes) {
        return;
    }
#pragma unroll
    for (int q = 0; q < SAMPLES / 4; q++) {
        uint four[4];

#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int sample = first + 4 * q + e;
            const bool inside = sample < n.slice && row * n.width < n.area && column < n.width;

            four[e] = inside ? digits_of(x[(long)sample * step + row * n.width + column], scale) : 0;
        }
        words_of_four(four, word[q]);
    }
    to += n.to + n.head + ((long)channel * slices + slice) * n.slice_bytes + at;
#pragma unroll
    for (int d = 0; d < DIGITS; d++) {
        const int w = DIGITS - 1 - d;

        *(global uint4 *)(to + d * n.digit) = (uint4)(word[0][w], word[1][w], word[2][w], word[3][w]);
    }
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_split_taps(global const float *x, global uchar *to, const charl__conv_split_args n)
{
    local int all[GROUP];
    const int row = (int)get_group_id(0), lane = (int)get_local_id(0), words = n.pitch / 4;
    int most = 0, scale;

    x += n.x + row * n.row_step;
    to += n.to;
    for (int i = lane; i < n.k * n.taps; i += GROUP) {
        most = max(most, as_int(fabs(x[i / n.taps * n.k_step + i % n.taps])));
    }
    scale = scale_of(largest_of_group(all, most));
    if (lane == 0) {
        ((global int *)to)[row] = scale;
    }
    to += n.head + (long)row * n.taps * n.pitch;
    for (int i = lane; i < words * n.taps; i += GROUP) {
        const int tap = i % n.taps, k = i / n.taps * 4;
        uint four[4], word[4];

#pragma unroll
        for (int e = 0; e < 4; e++) {
            four[e] = k + e < n.k ? digits_of(x[(k + e) * n.k_step + tap], scale) : 0;
        }
        words_of_four(four, word);
#pragma unroll
        for (int d = 0; d < DIGITS; d++) {
            *(global uint *)(to + d * n.digit + (long)tap * n.pitch + k) = word[DIGITS - 1 - d];
        }
    }
}
