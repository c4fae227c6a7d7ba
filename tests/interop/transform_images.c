/* transform_images <IN >OUT: charl's operators on images, for programs that compare them with others.
 *
 * IN, all 4 bytes: n, channels, height, width, out_height, out_width; boxes f32 [n, 4]; kinds i32 [n]; amounts f32 [n, 6];
 * images f32 [n, channels, height, width]. OUT: f32 [n, channels, out_height, out_width] resized_crop2d, f32 [n, channels,
 * height, width] transform2d. */
#include <charl/charl.h>

#include <stdio.h>
#include <stdlib.h>

static void check(charl_status st)
{
    if (st != CHARL_OK) {
        fprintf(stderr, "transform_images: %s\n", charl_error_message());
        exit(EXIT_FAILURE);
    }
}

/* Fill the memory of v from standard input, or write it. */
static void pass(charl_var *v, FILE *f)
{
    const charl_shape shape = charl_var_get_type(v).shape;
    const size_t n = (size_t)charl_shape_count(&shape);
    float *values = malloc(n * sizeof *values);

    if (!values || (f == stdin && fread(values, sizeof *values, n, f) != n)) {
        fprintf(stderr, "transform_images: expected %zu numbers\n", n);
        exit(EXIT_FAILURE);
    }
    check(f == stdin ? charl_tensor_write(charl_var_get_tensor(v), values, n * sizeof *values)
                     : charl_tensor_read(charl_var_get_tensor(v), values, n * sizeof *values));
    if (f != stdin && fwrite(values, sizeof *values, n, f) != n) {
        exit(EXIT_FAILURE);
    }
    free(values);
}

int main(void)
{
    charl_device *dev = NULL;
    charl_graph *g = NULL;
    charl_var *in[4], *out[2];
    int32_t extent[6];

    if (fread(extent, sizeof *extent, 6, stdin) != 6) {
        return EXIT_FAILURE;
    }
    check(
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1, .share = true}, &dev));
    check(charl_graph_create(dev, NULL, &g));
    in[0] = charl_input(g, "boxes", CHARL_F32, (charl_shape){2, {extent[0], 4}}, CHARL_BATCHED);
    in[1] = charl_input(g, "kinds", CHARL_I32, (charl_shape){1, {extent[0]}}, CHARL_BATCHED);
    in[2] = charl_input(g, "amounts", CHARL_F32, (charl_shape){2, {extent[0], 6}}, CHARL_BATCHED);
    in[3] =
        charl_input(g, "x", CHARL_F32, (charl_shape){4, {extent[0], extent[1], extent[2], extent[3]}}, CHARL_BATCHED);
    out[0] = charl_resized_crop2d(g, in[3], in[0], extent[4], extent[5]);
    out[1] = charl_transform2d(g, in[3], in[1], in[2], 0, 255.0F);
    charl_graph_keep(g, out[0]);
    charl_graph_keep(g, out[1]);
    check(charl_graph_compile(g));
    for (int i = 0; i < 4; i++) {
        pass(in[i], stdin);
    }
    check(charl_graph_run(g));
    pass(out[0], stdout);
    pass(out[1], stdout);
    charl_graph_destroy(g);
    charl_device_close(dev);
    return EXIT_SUCCESS;
}
