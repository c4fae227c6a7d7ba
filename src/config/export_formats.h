#ifndef CHARL_CONFIG_EXPORT_FORMATS_H
#define CHARL_CONFIG_EXPORT_FORMATS_H
/** The rows of the exporters. They are implemented above this module, in src/export: charl__export_NAME in one file each. */

/** The only list: X(NAME, help). Files of the format end in .NAME. */
#define CHARL__EXPORTERS(X)                                                                                            \
    X(safetensors, "all weights and buffers under their PyTorch names")                                                \
    X(onnx, "the computation from raw samples to the output of the model")                                             \
    X(gguf, "a language model with its tokenizer for llama.cpp. Its matrices are f16, or f32 or q8_0 where the name "  \
            "of the file ends in -f32.gguf or -q8_0.gguf")

/** Name and help of row i = 0, 1, ...; NULL past the last. */
const char *charl__export_name(int i);
const char *charl__export_help(int i);

#endif
