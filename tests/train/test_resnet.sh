#!/bin/sh
# A residual network on samples that change with every epoch: the same bits for any number of ranks, and after stopping and going on with another number.
. "$(dirname "$0")/common.sh"

cat >resnet.ini <<'INI'
[run]
output_dir = run
seed = 5
[data]
path = digits.h5
augment = flip, crop:2, rotate:10, cutout:6, mixup:0.2
[model]
type = resnet
depth = 20
width = 4
stem = imagenet
[train]
epochs = 1
batch_size = 64
slices = 8
[optimizer]
type = sgd
learning_rate = 0.05
[log]
interval = 1
[device]
share = yes
INI

for n in 1 2 3; do
    expect 0 "resnet on $n ranks" ranks $n resnet.ini -q -o resnet-$n
    [ $n -eq 1 ] || same "resnet on $n ranks" resnet-1 resnet-$n
done
export CHARL_FAULT="train.stop:3"
expect 75 "stopped at 2 on 3 ranks" ranks 3 resnet.ini -q -o s
unset CHARL_FAULT
expect 0 "resumed on 2 ranks" ranks 2 resnet.ini -q -o s
same "stopped and resumed" resnet-1 s

# Batch norm's running statistics are in the checkpoint, under torchvision's names.
expect 0 "tensors" "$bin/charl" checkpoint show resnet-1/last.h5
says 1 "layer3.0.downsample.1.running_var"
finish
