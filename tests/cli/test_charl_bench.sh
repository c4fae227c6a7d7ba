#!/bin/sh
# charl-bench: what it prints and refuses; never how long anything took.
. "$(dirname "$0")/charl.sh"
companion=$charl
charl=$bin/charl-bench
fake=$bin/../../tests/cli/libfake_nccl.so

# ranks N ARGUMENT...: charl-bench on N ranks, output in out and err
ranks() {
    n=$1
    shift
    timeout 1500 mpirun -q --oversubscribe --bind-to none -n "$n" "$charl" "$@" >out 2>err </dev/null
}

# on N CODE TEXT ARGUMENT...: as expect, on N ranks
on() {
    n=$1
    want=$2
    text=$3
    shift 3
    ranks "$n" "$@"
    code=$?
    if [ $code -ne "$want" ] || ! cat out err | grep -q -e "$text"; then
        echo "$n ranks: charl-bench $*: exit $code, want $want and \"$text\":"
        cat out err
        failures=$((failures + 1))
    fi
}

# lines N TEXT: so many lines of the last output match
lines() {
    if [ "$(grep -c -e "$2" out)" -ne "$1" ]; then
        echo "not $1 lines with \"$2\":"
        cat out
        failures=$((failures + 1))
    fi
}

expect 0 '^charl-bench [0-9]*\.[0-9]*\.[0-9]*$' --version
expect 0 '^  charl-bench gemm ' --help
if grep '^  charl' out | grep -v '^  charl-bench .\{34\}  [a-zA-Z]'; then
    echo "a command stands out of its column"
    failures=$((failures + 1))
fi
expect 2 'a command is missing: charl-bench'
expect 2 'unknown command: charl-bench gem$' gem
hint 'did you mean `charl-bench gemm`?'
for command in allreduce scaling step overlap break-even data gemm linear conv attention layernorm cross-entropy embedding optimizer copy launch; do
    expect 0 "^Usage: charl-bench $command " $command --help
    if awk 'length > 79' out | grep . || grep '^[a-z]* *$' out | grep .; then
        echo "charl-bench $command --help: lines that wrap"
        failures=$((failures + 1))
    fi
    expect 2 "unrecognized option '--nonsense'" $command --nonsense
    hint "charl-bench $command --help"
done
expect 2 'an all-reduce needs at least two ranks' allreduce
hint 'mpirun -n 2'
expect 2 'min is more than --max' allreduce --min 2K --max 1K
expect 2 'max: "1T" is not an integer' allreduce --max 1T
expect 2 'max: 99999999999999999999999999 is out of range (4 to 8589934592)' allreduce --max 99999999999999999999999999
expect 2 'min: 3 is out of range' allreduce --min 3
expect 2 'format: "xml" is not one of table, csv, jsonl' allreduce --format xml

# Every algorithm and baseline at every size, the last of which is no whole step.
on 3 0 '^ *4 KiB  p2p ' allreduce --max 20001 --repeat 2
for name in shm p2p mpi MPI_Allreduce; do
    lines 3 "^ *[0-9]* K*i*B  $name .* [um]*s "
done
lines 3 ' MPI_Allreduce .* 1x$'
lines 1 '^NCCL: not available: '
lines 0 'left out'
lines 1 '^peer: not available: '
on 2 0 '^allreduce,2,1 MiB,1048576,p2p,' allreduce --format csv --min 1M --max 1M --repeat 1 --slices 8 --only p2p
lines 1 '^bench,ranks,case,size,subject,median_s,best_s,rate,unit,ratio,of_peak$'
lines 2 ''
on 2 0 '^ *4 KiB  peer ' allreduce --only peer --max 4K --repeat 1
on 2 2 "unrecognized option '--nonsense'" allreduce --nonsense
if [ "$(grep -c "'--nonsense'" err)" -ne 1 ]; then
    echo "every rank said what is wrong with the command line:"
    cat err
    failures=$((failures + 1))
fi
on 2 2 'only nonsense: none of these is available' allreduce --only nonsense

# What has no room is left out; where nothing has, that is an error.
export CHARL_FAULT=comm.shm:*:1000000
on 2 0 '^sizes above 256 KiB are left out' allreduce --only shm -r 1
lines 0 '^ *1 MiB'
on 2 4 'has room for only 300000 bytes per rank' allreduce --only shm --min 1M
unset CHARL_FAULT

# NCCL, played by a library of the tests.
mkdir cuda both
ln -s "$fake" cuda/libcuda.so.1
ln -s "$fake" both/libcuda.so.1
ln -s "$fake" both/libnccl.so.2
LD_LIBRARY_PATH=$dir/both
export LD_LIBRARY_PATH
on 2 0 '"subject":"NCCL"' allreduce -f jsonl --only NCCL,MPI_Allreduce --max 4K -r 2
python3 -c 'import json, sys; [json.loads(l)["median_s"] > 0 or sys.exit(1) for l in open("out")]' || failures=$((failures + 1))
FAKE_GPUS=1 on 2 0 '^NCCL: not available: 1 NVIDIA GPUs for 2 ranks' allreduce --only NCCL,shm --max 4K -r 1
FAKE_FAIL=sum on 2 7 'NCCL of 1024 values: element 1 is 4 and should be 3' allreduce --only NCCL --max 4K
FAKE_FAIL=cuStreamQuery on 2 4 'cuStreamQuery: error 2' allreduce --only NCCL --max 4K
LD_LIBRARY_PATH=$dir/cuda
libm=$(find /lib /usr/lib -name libm.so.6 2>/dev/null | head -n 1)
if [ -n "$libm" ]; then
    cp "$libm" cuda/libnccl.so.2
    on 2 0 '^NCCL: not available: libnccl.so.2 has no nccl' allreduce --only NCCL,shm --max 4K -r 1
fi

unset LD_LIBRARY_PATH

# Kernels and operators: a subject per row, beside the device's peak.
expect 2 'shape 5x6: must be MxNxK, with :nt or :nn or :tn' gemm -s 5x6
expect 2 'shape 5x6x7:xx: must be MxNxK' gemm -s 5x6x7:xx
expect 2 'shape 5x0x7: must be MxNxK' gemm -s 5x0x7
expect 2 'shape 9999999999: must be BYTES' copy -s 9999999999
expect 2 'dtype f64: must be f32, tf32, bf16 or f16' gemm --dtype f64
expect 2 'shape 1: too many shapes' launch $(yes -- '-s 1' | head -n 33)
expect 2 'products half: must be fma or integer' gemm --products half
expect 2 'products integer multiplies f32' gemm --products integer --dtype bf16
expect 2 'only MxNxK:nt is timed' gemm --products integer -s 5x6x7:nn
expect 2 'unrecognized option' conv --products integer
expect 2 'device "nonsense" is not understood' gemm --device nonsense
hint 'charl devices'
expect 2 'device: two devices are compared, not 3' break-even -d 0 -d 1 -d 2
expect 2 'device: cpu cannot be compared with itself' break-even -d cpu -d cpu
if "$companion" devices >out 2>err; then
    quick='--repeat 1 --ms 1'
    expect 0 '^ *33x17x5 nn f32  charl .* [um]*s ' gemm $quick -s 33x17x5:nn -s 20x16x16:tn
    lines 2 '^ .* charl '
    lines 2 '^ .* peak .* 1x$'
    expect 0 '^ *8x8x256 nt integer  charl .* [um]*s ' gemm $quick -s 8x8x256 --products integer
    expect 0 '"case":"8x8x8 nt bf16","size":8,"subject":"charl"' gemm $quick -s 8x8x8 -t bf16 -f jsonl
    python3 -c 'import json; assert len([json.loads(l) for l in open("out")]) == 2' || failures=$((failures + 1))
    expect 0 '^copy,1,5000,5000,copy,' copy $quick -s 5000 -f csv
    lines 6 ''
    expect 0 '^ *1  replayed .*x$' launch $quick -s 1
    expect 0 '^ *16x8x4 f32  gradient of w .* [um]*s ' linear $quick -s 16x8x4
    expect 0 '^ *8x2x6x6x3x3x1 f32  gradient of w .* [um]*s ' conv $quick -s 8x2x6x6x3x3x1
    lines 1 '  forward '
    lines 1 '  gradient of x '
    expect 0 '^attention,1,8x16x2x8 f32,8,gradient of x,.*,GFLOP/s,,[0-9]' attention $quick -s 8x16x2x8 -f csv
    expect 0 '^ *16x8 f32  of x and w ' layernorm $quick -s 16x8
    expect 0 '^ *6x10 f32  with gradient ' cross-entropy $quick -s 6x10
    expect 0 '^ *16x8x5 f32  gradient of w ' embedding $quick -s 16x8x5
    expect 0 '^ *1000 sgd  charl ' optimizer $quick -s 1000:sgd
    expect 0 '^ *gemm 32  auto .*[um]s ' break-even $quick -d 0 -d auto --max 32 # the same device twice
    lines 4 '^ *\(gemm\|step\) \(16\|32\)  0 .* 1x$'
    lines 2 '^\(gemm\|step\): auto is \(faster than 0 from \(16\|32\) on\|not faster than 0 at 32\)$'
    expect 2 'a head of 512 elements is larger' attention $quick -s 1x8x1x512
    mkdir clblast # CLBlast, played by a library of the tests
    ln -s "$bin/../../tests/cli/libfake_clblast.so" clblast/libclblast.so.1
    LD_LIBRARY_PATH=$dir/clblast expect 0 '^ *20x16x16 tn f32  CLBlast .*[um]s ' gemm $quick -s 20x16x16:tn
    FAKE_FAIL=code LD_LIBRARY_PATH=$dir/clblast expect 4 'CLBlast refuses a product of 20 x 16 x 16: -1' gemm -s 20x16x16:tn
    FAKE_FAIL=sum LD_LIBRARY_PATH=$dir/clblast expect 4 'of the product is .*, but .* by CLBlast' gemm -s 20x16x16:tn
    if [ -n "$libm" ]; then
        mkdir blas
        cp "$libm" blas/libopenblas.so.0
        LD_LIBRARY_PATH=$dir/blas expect 0 '^OpenBLAS: not available: libopenblas.so.0 is not OpenBLAS' gemm $quick -s 20x16x16:tn
    fi
else
    skipped "charl gemm, copy, launch" "no device"
fi

# The time of a step: a curve, a link, a table; nothing is written.
"$companion" data make digits digits.h5 -t 64 -v 16 >out
cat >mlp.ini <<'INI'
[data]
path = digits.h5
[model]
type = mlp
hidden = 24
[train]
batch_size = 64
slices = 8
[device]
share = yes
INI
expect 2 'CONFIG is missing' scaling
expect 0 '^ *images  in order ' data mlp.ini -r 1 --steps 2
expect 0 '^shuffled: [0-9.e+]* rows/s$' data mlp.ini -r 1 --steps 2 data.sampling=balanced
expect 0 '^data,1,images,64,in blocks,' data mlp.ini -r 1 --steps 2 -f csv
on 2 0 '"ranks":2,"case":"images","size":32,"subject":"shuffled"' data mlp.ini -r 1 --steps 2 -f jsonl
expect 3 'nowhere.h5' data mlp.ini data.path=nowhere.h5
expect 2 'repeat: 65 is out of range (1 to 64)' step mlp.ini -r 65
expect 2 'type: "nonsense" is not one of' step mlp.ini optimizer.type=nonsense
expect 2 'near 5: must be microseconds and GB per second' scaling mlp.ini --near 5
expect 2 'far 5,0: must be microseconds and GB per second' scaling mlp.ini --far 5,0
expect 2 'type: "nonsense" is not one of' scaling mlp.ini --near 1,1 optimizer.type=nonsense
if "$companion" devices >out 2>err; then
    expect 0 '^  rate  *[0-9.e+]* samples/s$' step mlp.ini -r 1 --ms 1
    charl=$companion # charl tune trains the same steps
    CHARL_CACHE_DIR=/dev/null/x expect 8 'tuning results cannot be saved: .*CHARL_CACHE_DIR' tune mlp.ini
    CHARL_CACHE_DIR=$dir/tuned expect 0 '^[1-9][0-9]* choices* for ' tune mlp.ini
    expect 2 'learning-rate needs a configuration' tune --learning-rate
    charl=$bin/charl-bench
    expect 0 '^step,1,mlp.ini,f32,.*,64,8,' step mlp.ini -r 1 --ms 1 -f csv
    expect 0 '^step,1,mlp.ini,bf16,' step mlp.ini -r 1 --ms 1 -f csv train.precision=fp8 # whose peak is that of bf16
    # However few steps a configuration trains, a bench has as many as it needs.
    expect 0 '"flop":[1-9]' step mlp.ini -r 1 --ms 1 -f jsonl train.max_steps=3
    python3 -c 'import json; json.loads(open("out").read())' || failures=$((failures + 1))
    flop=$(sed 's/.*"flop":\([^,]*\),.*/\1/' out)
    on 2 0 "\"ranks\":2,.*\"flop\":$flop," step mlp.ini -r 1 --ms 1 -f jsonl
    expect 0 '^ *mlp.ini  overlapped ' overlap mlp.ini -r 1 --ms 1 data.cache=none
    lines 1 '^ *mlp.ini  one by one .* 1x$'
    lines 0 'input ahead'
    on 2 0 '^overlap,2,mlp.ini,64,input ahead,' overlap mlp.ini -r 1 --ms 1 -f csv data.cache=none
    lines 4 ''
    expect 2 'one rank cannot measure a link' scaling mlp.ini -r 1
    hint 'mpirun -n 2 .* or --near'
    expect 0 '^weak,512,32768,' scaling mlp.ini -r 1 -f csv --near 2,20 --far 5,12 --node 4
    lines 4 '^strong,'
    lines 6 '^weak,'
    lines 1 '^strong,8,64,.*,,$'
    on 3 0 '^strong  *3  *64 .* measured [0-9.]* .* error [-+]' scaling mlp.ini -r 1
    lines 5 '^strong '
    lines 4 '^weak '
    lines 4 '^  a rank computes [1248] slices in '
    on 2 0 '"kind":"strong","ranks":2,.*"measured_s":' scaling mlp.ini -r 1 -f jsonl
    python3 -c 'import json; assert len([json.loads(l) for l in open("out")]) == 8' || failures=$((failures + 1))
else
    skipped "charl scaling" "no device"
fi
if [ -e runs ] || [ -e metrics.csv ]; then
    echo "charl-bench has written a run"
    failures=$((failures + 1))
fi
finish
