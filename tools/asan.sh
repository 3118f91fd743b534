#!/bin/sh
# Build the kernel with sanitizers in a copy of the package, then compare cliques and run the kernel's tests with it.
set -eu
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r "$root/src/cosmic_tta" "$folder/cosmic_tta"
rm -f "$folder"/cosmic_tta/core/_kernel*
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
compiler=${CC:-gcc}
library=$(command -v "$compiler" >/dev/null && $compiler -print-file-name=libasan.so || true)
if [ ! -e "$library" ]; then
    echo "asan: skipped; it needs gcc with the AddressSanitizer library."
    exit 0
fi
build() {
    $compiler -shared -fPIC -g -O1 -std=gnu11 -ffp-contract=fast -Wall -Wextra -Wshadow -Werror \
        -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer "$@" \
        -I"$include" "$root"/kernel/*.c "$root"/kernel/*/*.c -lm -o "$folder/cosmic_tta/core/_kernel$suffix"
}
check() {
    env LD_PRELOAD="$library $($compiler -print-file-name=libubsan.so)" "$python" "$@"
}
# Python is not built with the sanitizer, so its library is preloaded. Python leaks at exit, so leaks are not counted.
export ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$folder" COSMIC_TTA_KERNEL=on PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1
cd "$root"
build
check tools/compare_cliques.py --graphs "${GRAPHS:-10000}"
cosmic=tests/methods/cosmic
check -m pytest -q -p no:cacheprovider -p no:xdist tests/core/test_kernel.py \
    tests/methods/components/test_gaussian_classes.py tests/methods/components/test_prototypes.py \
    $cosmic/graph $cosmic/test_fused_step.py $cosmic/test_feature_space.py $cosmic/test_graph_nodes.py \
    $cosmic/test_lookahead.py
# The loops as other processors and compilers have them.
build -DPLAIN_C
check tools/compare_cliques.py --graphs 1000 --seed 1
check -m pytest -q -p no:cacheprovider -p no:xdist tests/core/test_kernel.py \
    tests/methods/components/test_gaussian_classes.py $cosmic/test_fused_step.py $cosmic/test_lookahead.py
