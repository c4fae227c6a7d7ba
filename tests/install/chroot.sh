#!/bin/sh
# Try what is handed out on a bare system: the Debian packages (install them with apt, train, build a program, remove them), or the tarball
# (unpack it, train without MPI, then with it). By hand, as root, with debootstrap and a network; nothing outside of FOLDER is changed, and
# FOLDER is removed at the end.
# Usage: chroot.sh [-k] SUITE FOLDER PACKAGE.deb...      chroot.sh bookworm /var/tmp/bare build/package/*.deb
#        chroot.sh [-k] SUITE FOLDER charl-*.tar.gz      chroot.sh bullseye /var/tmp/bare build/tarball/charl-*.tar.gz
# Ubuntu 24.04:   MIRROR=http://archive.ubuntu.com/ubuntu COMPONENTS=main,universe chroot.sh noble /var/tmp/bare build/package/*.deb
#   -k      keep FOLDER; where it holds a system of a former run, use it
#   MIRROR, COMPONENTS  the archive of the suite and its parts (default: http://deb.debian.org/debian, main); packages made on one distribution
#           are for that one
set -eu
keep=
if [ "${1:-}" = -k ]; then
    keep=yes
    shift
fi
[ $# -ge 3 ] || { sed -n 's/^# Usage: //p; s/^#  *\(chroot.sh \[\)/\1/p' "$0" >&2; exit 2; }
suite=$1 root=$2
shift 2
[ "$(id -u)" -eq 0 ] || { echo "chroot.sh: run it as root" >&2; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)

leave() {
    for folder in dev/pts dev/shm dev sys proc; do
        umount "$root/$folder" 2>/dev/null || true
    done
    # Without a mount left: rm would go through it.
    if [ -z "$keep" ] && ! grep -q " $root/" /proc/mounts; then
        rm -rf "$root"
    fi
}
trap leave EXIT
trap 'exit 1' INT TERM

if [ ! -x "$root/usr/bin/apt-get" ]; then
    [ ! -e "$root" ] || { echo "chroot.sh: $root exists and holds no system" >&2; trap - EXIT; exit 2; }
    debootstrap --variant=minbase --components="${COMPONENTS:-main}" "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}"
fi
root=$(cd "$root" && pwd)
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"
mount -t tmpfs -o size=1m dev "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
for node in null zero random urandom tty; do
    cp -a "/dev/$node" "$root/dev/$node"
done
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o size=512m shm "$root/dev/shm"
rm -rf "$root/packages"
mkdir "$root/packages"
cp "$@" "$root/packages"
cp "$source/examples/inference.c" "$source/examples/train_mlp.c" "$root/packages"

inside() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        http_proxy="${http_proxy:-}" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -euc "$1"
}
step() {
    echo "== $1"
}

case $1 in
*.tar.gz)
    step "unpack"
    inside 'rm -rf /opt/*; cd /opt; gzip -dc /packages/charl-*.tar.gz | tar x; mv charl-* charl; /opt/charl/bin/charl doctor || true
            /opt/charl/bin/charl 2>&1 | grep "charl train /opt/charl/share/charl/launch/digits.ini"'
    step "train without MPI, on PoCL"
    case $suite in
    bullseye | focal) # their PoCL does not know today's processors
        inside 'apt-get update -q; apt-get install -y -q --no-install-recommends python3-pip >/dev/null
                pip3 install -q --target /opt/pocl pocl-binary-distribution==3.0
                mkdir -p /etc/OpenCL/vendors; ls /opt/pocl/pyopencl/.libs/libpocl-*.so >/etc/OpenCL/vendors/pocl.icd' ;;
    *) inside 'apt-get update -q; apt-get install -y -q --no-install-recommends pocl-opencl-icd >/dev/null' ;;
    esac
    inside 'export PATH=/opt/charl/bin:$PATH; cd /opt; ! ls /usr/lib/*/libmpi.so.* 2>/dev/null
            charl data make digits digits.h5 -t 640 -v 200; charl-train --version
            charl-train charl/share/charl/launch/digits.ini data.path=digits.h5 train.epochs=2 -o one --progress=plain
            charl predict one/best.h5 digits.h5 -o answers.csv; test "$(wc -l <answers.csv)" -ge 200
            OMPI_COMM_WORLD_SIZE=2 charl-train charl/share/charl/launch/digits.ini data.path=digits.h5 -o two 2>&1 | grep "charl found no MPI"'
    step "train with the MPI of the system"
    inside 'apt-get install -y -q --no-install-recommends openmpi-bin >/dev/null
            export PATH=/opt/charl/bin:$PATH; cd /opt
            mpirun -q --oversubscribe --bind-to none -n 2 charl-train charl/share/charl/launch/digits.ini data.path=digits.h5 train.epochs=2 -o two device.share=yes --progress=none
            charl checkpoint diff one/last.h5 two/last.h5 | grep -v -e ^config/ -e ^all.tensors && exit 1
            charl doctor | grep "Open MPI"'
    echo "== the tarball trains with and without MPI, with the same bits"
    exit
    ;;
esac

step "install"
inside 'apt-get update -q; dpkg-query -W -f "\${Package}\n" | sort >/before'
inside 'apt-get install -y -q /packages/charl_*.deb /packages/libcharl*0.1_*.deb'
step "train"
inside 'rm -rf /work; mkdir /work; cd /work; charl devices; charl data make digits digits.h5 -t 640 -v 200
        charl-train /usr/share/charl/launch/digits.ini data.path=digits.h5 train.epochs=2 -o one --progress=plain
        mpirun -q --oversubscribe --bind-to none -n 2 charl-train /usr/share/charl/launch/digits.ini data.path=digits.h5 train.epochs=2 -o two device.share=yes --progress=none
        charl checkpoint diff one/last.h5 two/last.h5 | grep -v -e ^config/ -e ^all.tensors && exit 1
        charl predict one/best.h5 digits.h5 -o answers.csv; test "$(wc -l <answers.csv)" -ge 200'
step "build a program"
inside 'apt-get install -y -q --no-install-recommends /packages/libcharl*-dev_*.deb gcc pkg-config >/dev/null
        cd /work; for p in inference train_mlp; do cc -std=c11 /packages/$p.c -o $p $(pkg-config --cflags --libs charl) -lm; done
        ./train_mlp digits.h5 | tail -n 2'
step "manual pages and completion"
inside 'test -s /usr/share/man/man1/charl-train.1.gz; test -s /usr/share/bash-completion/completions/charl-train
        charl --complete da | grep -q ^data'
step "remove"
inside 'apt-get purge -y -q charl libcharl0.1 libcharl-train0.1 libcharl-report0.1 libcharl-dev libcharl-train-dev libcharl-report-dev >/dev/null
        ! find /usr /etc /var/lib/dpkg/info -name "*charl*" | grep .'
echo "== the packages install, train, build and leave nothing behind"
