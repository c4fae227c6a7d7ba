// A C++17 program on the installed library: out = relu(x) + 1 on the first device.
#include <charl/charl.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

static void check(charl_status st)
{
    if (st != CHARL_OK) {
        throw std::runtime_error(charl_error_message());
    }
}

int main()
{
    const std::vector<float> in{-1.0F, 0.0F, 2.0F, -3.5F};
    std::vector<float> out(in.size());
    charl_device_request request{};
    charl_device *dev = nullptr;
    charl_graph *g = nullptr;
    charl_shape shape{1, {4}};

    try {
        check(charl_version_check());
        request.struct_size = sizeof request;
        request.local_size = 1;
        check(charl_device_open(&request, &dev));
        check(charl_graph_create(dev, nullptr, &g));
        charl_var *x = charl_input(g, "x", CHARL_F32, shape, CHARL_REPLICATED);
        charl_var *y = charl_scale(g, charl_relu(g, x), 1.0F, 1.0F);
        charl_graph_keep(g, y);
        check(charl_graph_compile(g));
        check(charl_tensor_write(charl_var_get_tensor(x), in.data(), in.size() * sizeof(float)));
        check(charl_graph_run(g));
        check(charl_tensor_read(charl_var_get_tensor(y), out.data(), out.size() * sizeof(float)));
        char *text = nullptr;
        check(charl_graph_print(g, false, &text));
        charl_free(text);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    charl_graph_destroy(g);
    charl_device_close(dev);
    return out == std::vector<float>{1.0F, 1.0F, 3.0F, 1.0F} ? 0 : 1;
}
