/* torchvision: residual networks, whose names charl uses too. */
#include "nn/model.h"
#include "nn/weights_layout.h"

const charl__weights_layout charl__layout_torchvision = {
    .row.name = "torchvision",
    .row.help = "residual networks of torchvision",
    .model = &charl__model_resnet,
    .marker = "layer1.0.conv1.weight",
};
